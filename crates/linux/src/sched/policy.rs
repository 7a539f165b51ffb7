//! `sched_setattr` and `sched_getattr`.

use crate::{Errno, ThreadId, sys};
use std::ops::BitOr;
use std::time::Duration;

const SCHED_OTHER: u32 = 0;
const SCHED_FIFO: u32 = 1;
const SCHED_DEADLINE: u32 = 6;
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr`, its second version (5.3).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

const SIZE: u32 = 56;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER, time sharing.
    Other {
        /// -20 (most favoured) to 19.
        nice: i32,
    },
    /// SCHED_FIFO.
    Fifo {
        /// 1 to 99 (most urgent).
        priority: u32,
    },
    /// SCHED_DEADLINE.
    Deadline(Deadline),
    /// A policy Freehold does not use, by the kernel's number. Read only: setting it is refused.
    Unused(u32),
}

/// A SCHED_DEADLINE reservation: `runtime` within `deadline` of each release, every `period`.
///
/// The kernel wants 1.024 µs ≤ runtime ≤ deadline ≤ period. Enforcement is as coarse as [`crate::tick::period`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// CPU time per period.
    pub runtime: Duration,
    /// Relative deadline.
    pub deadline: Duration,
    /// Period.
    pub period: Duration,
    /// Options.
    pub flags: DeadlineFlags,
}

/// Options of a [`Deadline`]. RESET_ON_FORK is always set besides: without it such a thread could create no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineFlags(u64);

impl DeadlineFlags {
    /// No option.
    pub const NONE: Self = Self(0);
    /// Use CPU time that others leave (GRUB).
    pub const RECLAIM: Self = Self(2);
    /// SIGXCPU to the *process*, not the thread, after an overrun.
    pub const OVERRUN_SIGNAL: Self = Self(4);

    /// Whether every option of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for DeadlineFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A policy could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetPolicyError {
    /// The right is missing, or the control group's share of real-time CPU time (`CONFIG_RT_GROUP_SCHED`); for
    /// SCHED_DEADLINE the thread may also be restricted to some CPUs.
    #[error(
        "not permitted: real-time policies need CAP_SYS_NICE (or, for SCHED_FIFO, RLIMIT_RTPRIO), and SCHED_FIFO a \
         control group whose cpu.rt_runtime_us, where there is one, is not 0; a SCHED_DEADLINE thread must also be \
         allowed every CPU of its root domain"
    )]
    NotPermitted,
    /// The kernel's admission control refused the bandwidth.
    #[error(
        "SCHED_DEADLINE admission refused the bandwidth: ask for less, end other deadline threads, or raise \
         kernel.sched_rt_runtime_us"
    )]
    NotAdmitted,
    /// The caller's mistake: a parameter the kernel cannot accept.
    #[error("the parameters are outside what the kernel accepts: {0:?}")]
    Invalid(Policy),
    /// The caller's mistake: the thread has ended.
    #[error("thread {0} has ended")]
    NoSuchThread(u32),
    /// Some other refusal.
    #[error("the scheduling policy could not be set: {0}")]
    System(Errno),
}

/// A policy could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GetPolicyError {
    /// The caller's mistake: the thread has ended.
    #[error("thread {0} has ended")]
    NoSuchThread(u32),
    /// Some other refusal.
    #[error("the scheduling policy could not be read: {0}")]
    System(Errno),
}

/// Makes `thread` be scheduled by `policy`. A new deadline runtime counts from the next replenishment.
///
/// Async-signal-safe.
///
/// # Errors
/// See [`SetPolicyError`]; the thread keeps its policy.
pub fn set_policy(thread: ThreadId, policy: Policy) -> Result<(), SetPolicyError> {
    let attributes = encode(policy).ok_or(SetPolicyError::Invalid(policy))?;
    // SAFETY: the structure is the kernel's, of the size it names, and is only read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread.get(), &raw const attributes, 0_u32) };
    match sys::check(result) {
        Ok(_) => Ok(()),
        Err(Errno::PERM) => Err(SetPolicyError::NotPermitted),
        Err(Errno::BUSY) => Err(SetPolicyError::NotAdmitted),
        Err(Errno::INVAL) => Err(SetPolicyError::Invalid(policy)),
        Err(Errno::SRCH) => Err(SetPolicyError::NoSuchThread(thread.get())),
        Err(errno) => Err(SetPolicyError::System(errno)),
    }
}

/// How `thread` is scheduled. Async-signal-safe.
///
/// # Errors
/// See [`GetPolicyError`].
pub fn policy(thread: ThreadId) -> Result<Policy, GetPolicyError> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the size given, which is that of the structure.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, thread.get(), &raw mut attributes, SIZE, 0_u32) };
    match sys::check(result) {
        Ok(_) => Ok(decode(&attributes)),
        Err(Errno::SRCH) => Err(GetPolicyError::NoSuchThread(thread.get())),
        Err(errno) => Err(GetPolicyError::System(errno)),
    }
}

fn encode(policy: Policy) -> Option<Attributes> {
    let empty = Attributes {
        size: SIZE,
        ..Attributes::default()
    };
    match policy {
        Policy::Other { nice } => Some(Attributes {
            policy: SCHED_OTHER,
            nice,
            ..empty
        }),
        Policy::Fifo { priority } => Some(Attributes {
            policy: SCHED_FIFO,
            priority,
            ..empty
        }),
        Policy::Deadline(wanted) => Some(Attributes {
            policy: SCHED_DEADLINE,
            flags: RESET_ON_FORK | wanted.flags.0,
            runtime: nanos(wanted.runtime)?,
            deadline: nanos(wanted.deadline)?,
            period: nanos(wanted.period)?,
            ..empty
        }),
        Policy::Unused(_) => None,
    }
}

fn decode(attributes: &Attributes) -> Policy {
    match attributes.policy {
        SCHED_OTHER => Policy::Other { nice: attributes.nice },
        SCHED_FIFO => Policy::Fifo {
            priority: attributes.priority,
        },
        SCHED_DEADLINE => Policy::Deadline(Deadline {
            runtime: Duration::from_nanos(attributes.runtime),
            deadline: Duration::from_nanos(attributes.deadline),
            period: Duration::from_nanos(attributes.period),
            flags: DeadlineFlags(attributes.flags & !RESET_ON_FORK),
        }),
        other => Policy::Unused(other),
    }
}

fn nanos(span: Duration) -> Option<u64> {
    u64::try_from(span.as_nanos()).ok()
}
