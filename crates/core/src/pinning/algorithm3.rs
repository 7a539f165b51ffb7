//! Algorithm 3 of paper 001 (section III.E): the swap budget, CPU time for a task's swap-ins, after a job.
//!
//! ```text
//! 1  if M (the deadline was missed) and N_swap > 0 and T^ (what was left of the CPU budget) = 0
//! 2      t' = t + K_swap
//! 3  else if not M and t * lambda < T^
//! 4      t' = t * lambda
//! 5  return t'
//! ```

use crate::pinning::{JobReport, PinningSettings, SwapBudgetRule};
use crate::units::Duration;

/// The swap budget from the next period on. `t` and `t'` of the paper are `budget` and the result; what is added is
/// bounded by what admission left.
pub(crate) fn adjust(budget: Duration, settings: &PinningSettings, job: &JobReport) -> (Duration, SwapBudgetRule) {
    if !settings.swap_budget {
        return (Duration::ZERO, SwapBudgetRule::Off);
    }
    // 1
    if job.missed && job.swap_ins > 0 && job.remaining.is_zero() {
        // 2
        let wanted = budget.saturating_add(job.swap_time);
        return if wanted > settings.highest_swap_budget {
            (settings.highest_swap_budget, SwapBudgetRule::AtLimit)
        } else {
            (wanted, SwapBudgetRule::Raised)
        };
    }
    // 3
    let lower = Duration::new(settings.lambda.of(budget.get()));
    if !job.missed && lower < job.remaining && lower < budget {
        return (lower, SwapBudgetRule::Lowered); // 4
    }
    (budget, SwapBudgetRule::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PinningSettings {
        PinningSettings::paper(Duration::from_millis(5), Duration::from_millis(30))
    }

    fn job(missed: bool, remaining: u64) -> JobReport {
        JobReport {
            missed,
            remaining: Duration::from_millis(remaining),
            swap_ins: 4,
            swap_time: Duration::from_millis(2),
            ..JobReport::default()
        }
    }

    fn adjusted(budget: u64, job: &JobReport) -> (Duration, SwapBudgetRule) {
        adjust(Duration::from_millis(budget), &settings(), job)
    }

    #[test]
    fn it_rises_by_what_swap_ins_took_of_a_budget_used_up() {
        let millis = Duration::from_millis;
        assert_eq!(adjusted(1, &job(true, 0)), (millis(3), SwapBudgetRule::Raised));
        assert_eq!(adjusted(1, &job(true, 1)), (millis(1), SwapBudgetRule::Held));
        let mut innocent = job(true, 0);
        innocent.swap_ins = 0;
        assert_eq!(adjusted(1, &innocent), (millis(1), SwapBudgetRule::Held));
    }

    #[test]
    fn it_stays_within_what_admission_left() {
        let limit = Duration::from_millis(25);
        assert_eq!(adjusted(24, &job(true, 0)), (limit, SwapBudgetRule::AtLimit));
        assert_eq!(adjusted(25, &job(true, 0)), (limit, SwapBudgetRule::AtLimit));
    }

    #[test]
    fn it_decays_to_nothing_when_unused() {
        let (mut budget, idle) = (Duration::from_millis(20), job(false, 25));
        let mut jobs = 0;
        while !budget.is_zero() {
            let (next, rule) = adjust(budget, &settings(), &idle);
            assert!(next < budget && rule == SwapBudgetRule::Lowered);
            budget = next;
            jobs += 1;
        }
        assert!(jobs < 100);
        assert_eq!(adjusted(0, &idle), (Duration::ZERO, SwapBudgetRule::Held));
        // What is left over is no more than the lower budget: it stays.
        assert_eq!(
            adjusted(10, &job(false, 8)),
            (Duration::from_millis(10), SwapBudgetRule::Held)
        );
    }

    #[test]
    fn a_pool_without_it_has_none() {
        let mut settings = settings();
        settings.swap_budget = false;
        let (budget, rule) = adjust(Duration::from_millis(3), &settings, &job(true, 0));
        assert_eq!((budget, rule), (Duration::ZERO, SwapBudgetRule::Off));
    }
}

/// `make verify`: every small job, and the edges of the large ones.
#[cfg(test)]
mod verify {
    use super::*;
    use crate::pinning::Ratio;

    const AMOUNTS: [u64; 9] = [0, 1, 2, 3, 7, 1 << 32, u64::MAX / 2, u64::MAX - 1, u64::MAX];

    #[test]
    fn a_budget_stays_within_what_admission_left_and_falls_only_by_its_factor() {
        for (budget, highest) in pairs() {
            for (remaining, swap_time) in pairs() {
                for (missed, swap_ins) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
                    let settings = PinningSettings {
                        swap_budget: true,
                        highest_swap_budget: Duration::new(highest),
                        ..PinningSettings::paper(Duration::from_millis(5), Duration::from_millis(30))
                    };
                    let job = JobReport {
                        missed,
                        remaining: Duration::new(remaining),
                        swap_ins,
                        swap_time: Duration::new(swap_time),
                        ..JobReport::default()
                    };
                    let (after, rule) = adjust(Duration::new(budget), &settings, &job);
                    let bound = budget.max(highest);
                    assert!(after.get() <= bound, "{budget} of {highest}: {after:?} by {rule:?}");
                    assert!(missed || after.get() <= budget, "a job that was met raises nothing");
                    assert!(!missed || rule != SwapBudgetRule::Lowered, "nor does a miss lower");
                }
            }
        }
    }

    #[test]
    fn shares_are_never_more_than_the_whole() {
        let step = if cfg!(debug_assertions) { 997 } else { 1 };
        for millionths in (1..=1_000_000).step_by(step) {
            let ratio = Ratio::from_millionths(millionths).expect("in (0, 1]");
            for amount in AMOUNTS {
                let part = ratio.of(amount);
                assert!(part <= amount);
                assert_eq!(
                    u128::from(part),
                    u128::from(amount) * u128::from(millionths) / 1_000_000
                );
            }
        }
    }

    fn pairs() -> impl Iterator<Item = (u64, u64)> {
        AMOUNTS.into_iter().flat_map(|one| AMOUNTS.map(|other| (one, other)))
    }
}
