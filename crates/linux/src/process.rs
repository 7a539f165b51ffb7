//! Other processes, and rights of this one.

use crate::{Errno, PAGE_SIZE, sys};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The user that this process acts as.
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The group that this process acts as.
#[must_use]
pub fn effective_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Whether an executable gives capabilities to whoever runs it. Unreadable counts as not.
#[must_use]
pub fn has_file_capabilities(path: &Path) -> bool {
    let mut nothing = [0_u8; 0];
    rustix::fs::getxattr(path, c"security.capability", &mut nothing).is_ok_and(|length| length > 0)
}

/// Whether this process has rights that whoever started it has not: its program is set-user-id or set-group-id, or has
/// capabilities. What stands in its environment is that one's word then.
#[must_use]
pub fn has_rights_of_its_program() -> bool {
    // SAFETY: getauxval reads a table and returns 0 for an unknown key.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Sends `signal` (the kernel's number) to a process that the caller knows to be there, such as a child not yet waited
/// for.
///
/// # Errors
/// `INVAL` for a number that is no signal or no process; `SRCH` where there is none; `PERM` without the right.
pub fn send_signal(process: u32, signal: i32) -> Result<(), Errno> {
    let process = i32::try_from(process)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(Errno::INVAL)?;
    let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
    rustix::process::kill_process(process, signal)
}

/// Sends `signal` (the kernel's number) to one thread of a process.
///
/// # Errors
/// `INVAL` for a number that is no signal, thread or process; `SRCH` where there is none; `PERM` without the right.
pub fn send_to_thread(process: u32, thread: u32, signal: i32) -> Result<(), Errno> {
    // SAFETY: touches no memory.
    sys::check(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) }).map(|_| ())
}

/// Whether a thread is one of a process. Nothing under `/proc` is opened for it (see
/// [`undisturbed`](crate::sched::undisturbed)).
#[must_use]
pub fn is_thread_of(process: u32, thread: u32) -> bool {
    matches!(send_to_thread(process, thread, 0), Ok(()) | Err(Errno::PERM))
}

/// Whether a process has a page in its page table at an address: what the kernel keeps there in place of one does not
/// count. `None` where that is not to be seen.
#[must_use]
pub fn has_mapped(process: u32, address: u64) -> Option<bool> {
    const ENTRY: u64 = size_of::<u64>() as u64;
    const PRESENT: u64 = 1 << 63;
    let table = std::fs::File::open(format!("/proc/{process}/pagemap")).ok()?;
    let mut entry = [0; size_of::<u64>()];
    table
        .read_exact_at(&mut entry, address / PAGE_SIZE as u64 * ENTRY)
        .ok()?;
    Some(u64::from_ne_bytes(entry) & PRESENT != 0)
}

/// Waits until a child of this process has ended, `patience` at most; whether it has. It is still to be reaped.
#[must_use]
pub fn ends_within(child: u32, patience: Duration) -> bool {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    let timeout = Timespec::try_from(patience).ok();
    let poll = || rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref());
    rustix::io::retry_on_intr(poll).is_ok_and(|count| count > 0)
}

/// What this process may have of a resource, and what it may at most allow itself. (rustix panics where a filter of
/// system calls refuses this.)
///
/// # Errors
/// The kernel's refusal, which only a filter of system calls causes.
pub fn resource_limit(resource: Resource) -> Result<Rlimit, Errno> {
    let mut limit = libc::rlimit64 {
        rlim_cur: libc::RLIM64_INFINITY,
        rlim_max: libc::RLIM64_INFINITY,
    };
    let none: *const libc::rlimit64 = std::ptr::null();
    let place = std::ptr::from_mut(&mut limit);
    // SAFETY: sets nothing, and writes one structure to a place that lives through the call.
    sys::check(unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource as u32, none, place) })?;
    let bounded = |value: u64| (value != libc::RLIM64_INFINITY).then_some(value);
    Ok(Rlimit {
        current: bounded(limit.rlim_cur),
        maximum: bounded(limit.rlim_max),
    })
}

/// Has this process leave no core file.
///
/// # Errors
/// The kernel's refusal, which only a filter of system calls causes.
pub fn forbid_core_file() -> Result<(), Errno> {
    let none = Rlimit {
        current: Some(0),
        maximum: resource_limit(Resource::Core)?.maximum,
    };
    rustix::process::setrlimit(Resource::Core, none)
}

/// How many filters of system calls (`seccomp`) bind the calling thread; 0 where the kernel does not tell.
#[must_use]
pub fn call_filters() -> u32 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ends_within, has_file_capabilities, send_signal};
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    #[test]
    fn a_signal_ends_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!ends_within(child.id(), Duration::ZERO));
        send_signal(child.id(), 15).unwrap();
        assert!(ends_within(child.id(), Duration::from_secs(60)));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert!(!ends_within(0, Duration::ZERO));
        assert!(send_signal(0, 15).is_err());
        assert!(send_signal(child.id(), 0).is_err());
    }

    #[test]
    fn a_shell_gives_no_capabilities() {
        assert!(!has_file_capabilities(std::path::Path::new("/bin/sh")));
    }
}
