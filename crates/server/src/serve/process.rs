//! What the server's own process needs: memory that stays and that no real-time thread frees, descriptors, and to be
//! the last that is killed for memory.

use freehold_linux::address_space::{Helper, leave_to_helper};
use freehold_linux::memory::lock_all_on_fault;
use freehold_linux::process::resource_limit;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Descriptors wanted: some for each client, and two for each object.
const DESCRIPTORS: u64 = 16_384;
/// Of these, so many for a client with what it maps, and so many for the server itself.
const OF_A_CLIENT: u64 = 15;
const ITS_OWN: u64 = 64;
/// The kernel's mark for processes that are not killed for memory.
const SPARED: &str = "-1000";

/// What the process has taken. When this is dropped the server ends in order.
#[derive(Debug)]
pub(super) struct Process {
    helper: Option<Helper>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(helper) = self.helper.take() {
            helper.dismiss();
        }
    }
}

/// Limits without which a server may find no memory, and what a shell calls them.
const ON_MEMORY: [(Resource, &str); 3] = [
    (Resource::As, "ulimit -v"),
    (Resource::Data, "ulimit -d"),
    (Resource::Fsize, "ulimit -f"),
];

/// Raises limits on what a server uses, before it uses any. Where one command has the server for itself, `is_owned`,
/// those that it finds are meant for that command's program, and go where they may. The answer names limits on memory
/// that stay.
pub fn raise_limits(is_owned: bool) -> Vec<&'static str> {
    for resource in [Resource::Cpu, Resource::Stack] {
        raise(resource, is_owned);
    }
    let stays = |(resource, name): (Resource, &'static str)| {
        raise(resource, is_owned);
        limit_of(resource).map(|_| name)
    };
    ON_MEMORY.into_iter().filter_map(stays).collect()
}

/// Takes what can be had; says in words what cannot.
pub(super) fn prepare() -> (Process, Vec<String>) {
    let mut shortfalls = Vec::new();
    if let Some(seconds) = limit_of(Resource::Cpu) {
        shortfalls.push(format!(
            "the server ends after {seconds} s of CPU time, and its clients with it: raise the limit (ulimit -t, \
             LimitCPU=infinity)"
        ));
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", SPARED) {
        shortfalls.push(format!(
            "the server may be killed when memory is short ({error}): start it with CAP_SYS_RESOURCE, or \
             OOMScoreAdjust=-1000 in its unit"
        ));
    }
    if let Err(error) = lock_all_on_fault() {
        shortfalls.push(format!(
            "the server's own memory is not locked and may be paged out ({error}): raise RLIMIT_MEMLOCK \
             (LimitMEMLOCK=infinity), or grant CAP_IPC_LOCK"
        ));
    }
    let helper = leave_to_helper().inspect_err(|error| {
        shortfalls.push(format!(
            "a killed server's memory is freed at the priority of its pager threads ({error}): no helper process can \
             be started, see ulimit -u"
        ));
    });
    let process = Process { helper: helper.ok() };
    shortfalls.extend(raise_descriptors());
    (process, shortfalls)
}

/// How many clients there are descriptors for. A fork past that is refused, while one for which a descriptor lacks ends
/// its program.
pub(super) fn most_clients() -> u16 {
    let most = limit_of(Resource::Nofile).map(|descriptors| descriptors.saturating_sub(ITS_OWN) / OF_A_CLIENT);
    most.map_or(u16::MAX, |most| u16::try_from(most.max(1)).unwrap_or(u16::MAX))
}

fn limit_of(resource: Resource) -> Option<u64> {
    resource_limit(resource).ok().and_then(|limit| limit.current)
}

/// Raises a limit as far as it goes: past what was set for good only where that was meant for others.
fn raise(resource: Resource, is_owned: bool) {
    let Ok(limit) = resource_limit(resource) else { return };
    let none = Rlimit {
        current: None,
        maximum: None,
    };
    let all = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current.is_some() && !(is_owned && setrlimit(resource, none).is_ok()) {
        // What is refused stays as it is, and is missed, if at all, by what it is needed for.
        let _ = setrlimit(resource, all);
    }
}

fn raise_descriptors() -> Option<String> {
    let limit = match resource_limit(Resource::Nofile) {
        Ok(limit) => limit,
        Err(error) => return Some(format!("how many descriptors may be open is not known: {error}")),
    };
    if limit.current.is_none_or(|current| current >= DESCRIPTORS) {
        return None;
    }
    let most = limit.maximum.unwrap_or(DESCRIPTORS).max(DESCRIPTORS);
    let wanted = Rlimit {
        current: Some(DESCRIPTORS),
        maximum: Some(most),
    };
    // With the right to, or else as far as it goes.
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return None;
    }
    let current = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let possible = Rlimit {
        current: Some(current),
        maximum: limit.maximum,
    };
    let raised = setrlimit(Resource::Nofile, possible);
    if raised.is_ok() && current >= DESCRIPTORS {
        return None;
    }
    let has = if raised.is_ok() {
        current
    } else {
        limit.current.unwrap_or(current)
    };
    Some(format!(
        "{has} descriptors of {DESCRIPTORS} are to be had: fewer clients and objects fit; raise the limit \
         (LimitNOFILE={DESCRIPTORS})"
    ))
}
