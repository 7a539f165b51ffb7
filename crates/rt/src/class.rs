//! How Linux schedules a task.

use std::time::Duration;

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, AffinityError, Deadline, DeadlineFlags, Policy, SetPolicyError};

/// The scheduling class of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_FIFO`.
    Fifo {
        /// 1 (least) to 99.
        priority: u32,
    },
    /// `SCHED_DEADLINE`: `runtime` in each `period`, within `deadline` of its begin. The kernel enforces it at its
    /// tick (4 ms at 250 Hz), so runtimes ought to be well above that.
    Deadline {
        /// CPU time in each period.
        runtime: Duration,
        /// By when, after the begin of the period.
        deadline: Duration,
        /// The period.
        period: Duration,
    },
    /// The time-sharing side, below every real-time task.
    BestEffort,
}

/// Why a thread does not get the class or the CPUs it is to have.
#[derive(Debug, thiserror::Error)]
pub enum ClassError {
    /// Linux refuses the class.
    #[error("the kernel refuses the scheduling class: {0}")]
    Policy(#[from] SetPolicyError),
    /// Linux refuses the CPUs.
    #[error("the kernel refuses the CPUs: {0}")]
    Affinity(#[from] AffinityError),
    /// A CPU number beyond what a set can hold.
    #[error("there is no CPU {0}: name CPUs that this process may use")]
    NoSuchCpu(usize),
    /// `SCHED_DEADLINE` threads run on all CPUs of their root domain.
    #[error(
        "a thread of the deadline class cannot be kept on some CPUs: leave `cpus` out, or make exclusive cpusets \
         for the whole process"
    )]
    DeadlinePinned,
}

impl Class {
    /// Gives the calling thread this class, and keeps it on these CPUs (all, where there are none named).
    ///
    /// # Errors
    /// See [`ClassError`]: a missing right is named, and nothing else is tried in its place.
    pub fn apply(self, cpus: &[usize]) -> Result<(), ClassError> {
        // In a forked child the number that was asked for before is the parent's.
        let thread = ThreadId::refresh();
        if matches!(self, Self::Deadline { .. }) && !cpus.is_empty() {
            return Err(ClassError::DeadlinePinned);
        }
        match *cpus {
            [] => {}
            [cpu] => sched::pin(thread, cpu)?,
            ref several => {
                let mut set = sched::CpuSet::new();
                for &cpu in several {
                    if cpu >= sched::CpuSet::MAX_CPU {
                        return Err(ClassError::NoSuchCpu(cpu));
                    }
                    set.set(cpu);
                }
                sched::set_affinity(thread, &set)?;
            }
        }
        sched::set_policy(thread, self.policy())?;
        Ok(())
    }

    fn policy(self) -> Policy {
        match self {
            Self::Fifo { priority } => Policy::Fifo { priority },
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => Policy::Deadline(Deadline {
                runtime,
                deadline,
                period,
                flags: DeadlineFlags::NONE,
            }),
            Self::BestEffort => Policy::Other { nice: 0 },
        }
    }
}
