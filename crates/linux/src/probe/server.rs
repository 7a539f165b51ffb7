//! What the memory server and the programs under it need besides.

use super::trial::{ensure, say};
use super::{Finding, Item, Need, Status};
use crate::Errno;
use crate::memory::{is_sealed, seal_document};
use crate::perf::{self, Attributes};
use crate::process::resource_limit;
use crate::socket::PacketSocket;
use crate::userfault::{Features, Scope, Userfault};
use rustix::fd::OwnedFd;
use rustix::process::Resource;

const DEVICE: &str = "/dev/userfaultfd";
/// Descriptors that a server of some size has open: a client takes about ten.
const DESCRIPTORS: u64 = 4096;
/// CAP_SYS_RESOURCE
const RESOURCE_CAPABILITY: u32 = 24;

pub(super) fn all() -> Vec<Finding> {
    vec![
        events(),
        event_fork(),
        device(),
        sealed_memory(),
        peer_process(),
        descriptors(),
        out_of_memory(),
        switch_counts(),
    ]
}

fn events() -> Finding {
    let item = Item {
        name: "userfaultfd-events",
        need: Need::Recommended,
        why: "the server learns from the kernel what a program unmaps, moves and drops, whoever asks for it",
        fix: "kernel 4.14 or later with CONFIG_USERFAULTFD",
    };
    let wanted = Features::EVENT_UNMAP | Features::EVENT_REMAP | Features::EVENT_REMOVE | Features::THREAD_ID;
    item.tried(say("open", Userfault::open(wanted)).map(|_| "unmap, remap, remove, thread number".to_owned()))
}

fn event_fork() -> Finding {
    let item = Item {
        name: "userfaultfd-event-fork",
        need: Need::Recommended,
        why: "programs under `freehold exec` may fork; the right of the program counts, not the server's",
        fix: "run `freehold exec` as root, or with the capability handed on: setpriv --inh-caps +sys_ptrace \
              --ambient-caps +sys_ptrace freehold exec ..",
    };
    item.tried((|| {
        let userfault = say("open", Userfault::open(Features::EVENT_FORK))?;
        ensure(userfault.scope() == Scope::Full, "only with user-mode faults")?;
        Ok("forks are told of".to_owned())
    })())
}

/// Needed only by those who have no right to the system call.
fn device() -> Finding {
    let item = Item {
        name: "userfaultfd-device",
        need: Need::Optional,
        why: "whoever may open /dev/userfaultfd needs no other right for the full form",
        fix: "setfacl -m u:USER:rw /dev/userfaultfd, and for good a udev rule: KERNEL==\"userfaultfd\", \
              GROUP=\"freehold\", MODE=\"0660\" (kernel 6.1 or later)",
    };
    match std::fs::OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => item.found(Status::Present, "may be opened"),
        Err(error) => item.found(Status::Absent, format!("{DEVICE}: {error}")),
    }
}

fn sealed_memory() -> Finding {
    let item = Item {
        name: "memfd-seals",
        need: Need::Recommended,
        why: "what the server and its clients hand each other must not change or shrink under the reader",
        fix: "kernel with CONFIG_MEMFD_CREATE; /proc/sys/vm/memfd_noexec below 2 for the code of programs",
    };
    item.tried((|| {
        let document = say("seal", seal_document(c"freehold-probe", b"probe"))?;
        ensure(is_sealed(&document), "the seals did not hold")?;
        let noexec = std::fs::read_to_string("/proc/sys/vm/memfd_noexec").unwrap_or_default();
        ensure(
            noexec.trim() != "2",
            "vm.memfd_noexec is 2: no memory object may hold code",
        )?;
        Ok("a document was sealed".to_owned())
    })())
}

fn peer_process() -> Finding {
    let item = Item {
        name: "peer-pidfd",
        need: Need::Recommended,
        why: "the server holds on to the very process that connects, and learns when it ends",
        fix: "kernel 5.3 or later (6.5 names the process without looking up its number)",
    };
    item.tried((|| {
        let (one, _other) = say("socket", PacketSocket::pair())?;
        say("peer", one.peer_pidfd())?;
        let peer = say("credentials", one.peer())?;
        ensure(peer.pid == std::process::id(), "the peer is not who it is")?;
        Ok(format!("the peer of a socket is known: user {}", peer.uid))
    })())
}

fn descriptors() -> Finding {
    let item = Item {
        name: "open-files",
        need: Need::Optional,
        why: "the server has about ten descriptors open for each client and one for each object",
        fix: "ulimit -n 65536, LimitNOFILE=65536 in systemd, or nofile in /etc/security/limits.conf",
    };
    let limit = match resource_limit(Resource::Nofile) {
        Ok(limit) => limit,
        Err(errno) => return item.found(Status::Absent, format!("RLIMIT_NOFILE cannot be read: {errno}")),
    };
    let show = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let (now, most) = (show(limit.current), show(limit.maximum));
    let detail = format!("RLIMIT_NOFILE {now}, may be raised to {most}");
    match limit.maximum {
        Some(most) if most < DESCRIPTORS => item.found(Status::Limited, detail),
        _ => item.found(Status::Present, detail),
    }
}

fn out_of_memory() -> Finding {
    let item = Item {
        name: "oom-protection",
        need: Need::Recommended,
        why: "when memory runs out the kernel ends somebody else: without the server its clients cannot go on",
        fix: "OOMScoreAdjust=-1000 in the server's systemd unit, or CAP_SYS_RESOURCE (root has it, in containers with \
              --cap-add SYS_RESOURCE)",
    };
    let score = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    if score.trim() == "-1000" {
        return item.found(Status::Present, "oom_score_adj is -1000 already");
    }
    match capability(RESOURCE_CAPABILITY) {
        Some(true) => item.found(Status::Present, "CAP_SYS_RESOURCE: oom_score_adj may be lowered"),
        Some(false) => item.found(Status::Absent, "no CAP_SYS_RESOURCE: oom_score_adj may not be lowered"),
        None => item.found(
            Status::Limited,
            "the capabilities in /proc/self/status are not understood",
        ),
    }
}

/// Whether this process has the capability with this number.
fn capability(number: u32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(effective & (1 << number) != 0)
}

fn switch_counts() -> Finding {
    let item = Item {
        name: "perf-context-switches",
        need: Need::Optional,
        why: "`freehold exec --period` learns from it when a job of an unmodified program ends",
        fix: "sysctl kernel.perf_event_paranoid=2 or lower, grant CAP_PERFMON, and no seccomp filter against it",
    };
    item.tried(say("perf_event_open", open_counter()).map(|_| "switches of a thread are counted".to_owned()))
}

/// Opens a counter of this thread's context switches.
fn open_counter() -> Result<OwnedFd, Errno> {
    const SOFTWARE: u32 = 1;
    const CONTEXT_SWITCHES: u64 = 3;
    let attributes = Attributes {
        kind: SOFTWARE,
        config: CONTEXT_SWITCHES,
        ..Attributes::default()
    };
    let (this_thread, any_cpu) = (0, -1);
    perf::open(&attributes, this_thread, any_cpu)
}
