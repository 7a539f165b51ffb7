//! Scheduling policies, affinity and real-time throttling.

mod policy;
mod throttling;

pub use policy::{Deadline, DeadlineFlags, GetPolicyError, Policy, SetPolicyError, policy, set_policy};
pub use rustix::thread::CpuSet;
pub use throttling::{RtThrottling, ThrottlingError, rt_throttling};

use crate::{Errno, ThreadId};
use rustix::process::Pid;

/// Affinity could not be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// The caller's mistake: the thread has ended.
    #[error("thread {0} has ended")]
    NoSuchThread(u32),
    /// The caller's mistake: none of the CPUs is both online and allowed by the cpuset.
    #[error("none of these CPUs is online and allowed by the thread's cpuset")]
    NoUsableCpu,
    /// A SCHED_DEADLINE thread may use every CPU of its root domain or it is not admitted.
    #[error("a SCHED_DEADLINE thread cannot be restricted to some CPUs: use an exclusive cpuset or another policy")]
    DeadlineThread,
    /// Another user's thread.
    #[error("changing that thread's affinity needs CAP_SYS_NICE")]
    NotPermitted,
    /// Some other refusal.
    #[error("affinity could not be read or changed: {0}")]
    System(Errno),
}

fn affinity_error(thread: ThreadId, errno: Errno) -> AffinityError {
    match errno {
        Errno::SRCH => AffinityError::NoSuchThread(thread.get()),
        Errno::INVAL => AffinityError::NoUsableCpu,
        Errno::BUSY => AffinityError::DeadlineThread,
        Errno::PERM => AffinityError::NotPermitted,
        other => AffinityError::System(other),
    }
}

/// The CPUs on which `thread` may run.
///
/// # Errors
/// See [`AffinityError`].
pub fn affinity(thread: ThreadId) -> Result<CpuSet, AffinityError> {
    rustix::thread::sched_getaffinity(Pid::from_raw(thread.as_pid())).map_err(|errno| affinity_error(thread, errno))
}

/// Restricts `thread` to `cpus`.
///
/// # Errors
/// See [`AffinityError`]; nothing is changed.
pub fn set_affinity(thread: ThreadId, cpus: &CpuSet) -> Result<(), AffinityError> {
    rustix::thread::sched_setaffinity(Pid::from_raw(thread.as_pid()), cpus)
        .map_err(|errno| affinity_error(thread, errno))
}

/// Restricts `thread` to one CPU.
///
/// # Errors
/// See [`AffinityError`]; [`AffinityError::NoUsableCpu`] also when the number is beyond what a [`CpuSet`] holds.
pub fn pin(thread: ThreadId, cpu: usize) -> Result<(), AffinityError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(AffinityError::NoUsableCpu);
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    set_affinity(thread, &cpus)
}

/// Does `work` before all other threads of the class of this one, SCHED_FIFO, where that is allowed. For looks at
/// `/proc` of other processes, of which one may be about to end: whoever takes note of its end spins until nobody is at
/// its entries any more. With a higher priority on this thread's CPU it would for ever.
pub fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    const HIGHEST: Policy = Policy::Fifo { priority: 99 };
    let own = ThreadId::current();
    let usual = policy(own).ok().filter(|usual| matches!(usual, Policy::Fifo { .. }));
    let raised = usual.filter(|_| set_policy(own, HIGHEST).is_ok());
    let result = work();
    if let Some(usual) = raised {
        // What was allowed before is allowed now.
        let _ = set_policy(own, usual);
    }
    result
}

/// The CPU on which the calling thread runs, or ran a moment ago. Real-time safe: no system call with a C library that
/// uses restartable sequences (glibc 2.35).
#[must_use]
#[inline]
pub fn current_cpu() -> u32 {
    // SAFETY: the call reads no memory of the caller's.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

/// The numbers of the CPUs on which the calling thread may run, ascending.
///
/// # Errors
/// See [`AffinityError`].
pub fn allowed_cpus() -> Result<Vec<usize>, AffinityError> {
    let cpus = affinity(ThreadId::current())?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| cpus.is_set(*cpu)).collect())
}

/// The numbers of the CPUs that are online, ascending; the first one where the kernel does not say.
#[must_use]
pub fn online_cpus() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}
