//! Budgets of threads of the deadline class, changed while they run.

use std::time::Duration;

use freehold_linux::sched::{self, Deadline, DeadlineFlags, GetPolicyError, Policy, SetPolicyError};
use freehold_linux::{Errno, ThreadId, tick};

/// Why a budget is not changed; the thread keeps the one it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Linux has budgets for the deadline class only.
    #[error("the thread is not of the deadline class")]
    NotDeadline,
    /// Linux does not say what the thread has.
    #[error(transparent)]
    Unknown(#[from] GetPolicyError),
    /// Linux refuses.
    #[error(transparent)]
    Refused(#[from] SetPolicyError),
}

/// Why a budget is not enforced as it is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TickError {
    /// Too small a budget.
    #[error(
        "a budget of {budget:?} cannot be enforced: the kernel looks at budgets at its tick, every {tick:?} here, so a \
         job may use that much more"
    )]
    BelowTick {
        /// The budget.
        budget: Duration,
        /// The tick.
        tick: Duration,
    },
    /// The kernel does not say.
    #[error("the kernel's tick is not known: {0}")]
    Unknown(#[from] Errno),
}

/// Gives a thread of the deadline class another budget, which holds from its next period on. Two system calls and no
/// allocation.
///
/// # Errors
/// See [`BudgetError`].
pub fn set(thread: ThreadId, budget: Duration) -> Result<(), BudgetError> {
    match sched::policy(thread)? {
        Policy::Deadline(class) if class.runtime == budget => Ok(()),
        Policy::Deadline(class) => Ok(sched::set_policy(
            thread,
            Policy::Deadline(Deadline {
                runtime: budget,
                flags: DeadlineFlags::NONE,
                ..class
            }),
        )?),
        _ => Err(BudgetError::NotDeadline),
    }
}

/// Whether the kernel can enforce a budget, and change it: it looks at budgets at its tick only.
///
/// # Errors
/// See [`TickError`].
pub fn enforceable(budget: Duration) -> Result<(), TickError> {
    let tick = tick::period()?;
    if budget < tick {
        return Err(TickError::BelowTick { budget, tick });
    }
    Ok(())
}

/// What a period leaves above a budget, within what Linux lets deadline threads use of one CPU.
///
/// ```
/// use std::time::Duration;
/// use freehold_rt::budget::room;
///
/// let millis = Duration::from_millis;
/// assert!(room(millis(30), millis(5)) <= millis(25));
/// assert_eq!(room(millis(30), millis(30)), Duration::ZERO);
/// ```
#[must_use]
pub fn room(period: Duration, budget: Duration) -> Duration {
    let share = |limit: sched::RtThrottling| {
        let runtime = limit.runtime?;
        let nanos = period.as_nanos() * runtime.as_nanos() / limit.period.as_nanos().max(1);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    };
    let limit = sched::rt_throttling().ok().and_then(share);
    limit.unwrap_or(period).min(period).saturating_sub(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_was_set_is_what_the_kernel_says() {
        let thread = ThreadId::current();
        assert_eq!(set(thread, Duration::from_millis(10)), Err(BudgetError::NotDeadline));
        // A thread of its own: the class goes with it.
        let outcome = std::thread::spawn(|| {
            let thread = ThreadId::current();
            let millis = Duration::from_millis;
            let class = crate::class::Class::Deadline {
                runtime: millis(5),
                deadline: millis(90),
                period: millis(100),
            };
            if let Err(error) = class.apply(&[]) {
                println!("NOT CHECKED: {error}");
                return;
            }
            for budget in [millis(8), millis(6)] {
                set(thread, budget).unwrap();
                let Policy::Deadline(now) = sched::policy(thread).unwrap() else {
                    panic!("it has another class");
                };
                assert_eq!(
                    (now.runtime, now.deadline, now.period),
                    (budget, millis(90), millis(100))
                );
            }
            // Beyond the deadline: refused, and nothing changes.
            assert!(matches!(set(thread, millis(95)), Err(BudgetError::Refused(_))));
            let Policy::Deadline(now) = sched::policy(thread).unwrap() else {
                panic!("it has another class");
            };
            assert_eq!(now.runtime, millis(6));
        });
        outcome.join().unwrap();
    }

    #[test]
    fn a_budget_below_the_tick_is_refused() {
        let tick = tick::period().unwrap();
        assert_eq!(enforceable(tick), Ok(()));
        let budget = tick - Duration::from_nanos(1);
        assert_eq!(enforceable(budget), Err(TickError::BelowTick { budget, tick }));
    }
}
