//! How many pages to pin: Algorithm 1 of paper 001, and what we add to it.

use crate::pinning::pool::PinnedPool;
use crate::pinning::settings::{CapacityRule, JobReport, PinningSettings};
use crate::pinning::steady::Steady;
use crate::units::PageCount;

/// The capacity from the next period on. `C` and `C'` of the paper are `capacity` and the result.
///
/// `pinned`: how many pages are in the pool. Shrinking rounds down, so that a capacity of few pages shrinks too; with
/// β = 1 it never does.
pub(crate) fn adjust(
    capacity: PageCount,
    pinned: PageCount,
    settings: &PinningSettings,
    job: &JobReport,
    steady: &mut Steady,
) -> (PageCount, CapacityRule) {
    if job.missed && job.swap_ins > 0 {
        let growth = growth(settings, job);
        if growth.is_zero() {
            return (capacity, CapacityRule::NotMemory);
        }
        let wanted = if settings.steady {
            steady.grow(capacity, growth, pinned)
        } else {
            capacity.saturating_add(growth)
        };
        return if wanted > settings.highest_capacity {
            (settings.highest_capacity, CapacityRule::AtLimit)
        } else {
            (wanted, CapacityRule::Grown)
        };
    }
    if job.missed || job.running.get() >= settings.alpha.of(settings.budget.get()) {
        return (capacity, CapacityRule::Held);
    }
    let left = settings.beta.of(u64::from(capacity.get()));
    let shrunk = PageCount::new(u32::try_from(left).unwrap_or(u32::MAX));
    if settings.steady && !steady.step(capacity, shrunk, pinned) {
        return (capacity, CapacityRule::Steady);
    }
    (shrunk, CapacityRule::Shrunk)
}

/// The same for a pool that tries pages before they leave.
pub(crate) fn prove(pool: &mut PinnedPool, job: &JobReport) -> (PageCount, CapacityRule) {
    let (capacity, pinned, tried) = (pool.capacity, pool.len(), pool.inactive.len());
    let short = core::mem::take(&mut pool.trial.short);
    if job.missed && short {
        let left = pool.trial.starve(pinned, tried);
        return (capacity.min(left), CapacityRule::Shrunk);
    }
    let settings = &pool.settings;
    if job.missed && job.swap_ins > 0 {
        let growth = growth(settings, job);
        if growth.is_zero() {
            return (capacity, CapacityRule::NotMemory);
        }
        let wanted = pool.trial.take_back(capacity, growth);
        return if wanted > settings.highest_capacity {
            (settings.highest_capacity, CapacityRule::AtLimit)
        } else {
            (wanted, CapacityRule::Grown)
        };
    }
    let (wanted, rule) = pool.trial.judge(capacity, pinned, tried);
    (wanted.min(settings.highest_capacity), rule)
}

/// `N_swap`, or of it the part that memory has in the delay, rounded up.
fn growth(settings: &PinningSettings, job: &JobReport) -> PageCount {
    if !settings.memory_share {
        return PageCount::new(job.swap_ins);
    }
    let delay = u128::from(job.delay.get());
    let memory = u128::from(job.memory_delay.get()).min(delay);
    let share = (u128::from(job.swap_ins) * memory).div_ceil(delay.max(1));
    PageCount::new(u32::try_from(share).unwrap_or(job.swap_ins))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinning::settings::Ratio;
    use crate::units::Duration;
    use alloc::vec::Vec;

    fn settings() -> PinningSettings {
        PinningSettings::paper(Duration::from_millis(100), Duration::from_millis(300))
    }

    fn job(missed: bool, swap_ins: u32, running: u64) -> JobReport {
        JobReport {
            missed,
            swap_ins,
            running: Duration::from_millis(running),
            slack: Duration::from_millis(if missed { 0 } else { 50 }),
            ..JobReport::default()
        }
    }

    fn adjusted(capacity: u32, settings: &PinningSettings, job: &JobReport) -> (u32, CapacityRule) {
        let pinned = PageCount::new(capacity);
        let (capacity, rule) = adjust(pinned, pinned, settings, job, &mut Steady::default());
        (capacity.get(), rule)
    }

    #[test]
    fn the_papers_three_branches() {
        let settings = settings();
        assert_eq!(
            adjusted(7000, &settings, &job(true, 12, 100)),
            (7012, CapacityRule::Grown)
        );
        assert_eq!(
            adjusted(7000, &settings, &job(true, 0, 100)),
            (7000, CapacityRule::Held)
        );
        assert_eq!(
            adjusted(7000, &settings, &job(false, 12, 89)),
            (6860, CapacityRule::Shrunk)
        );
        // Q < T_s α is strict.
        assert_eq!(
            adjusted(7000, &settings, &job(false, 12, 90)),
            (7000, CapacityRule::Held)
        );
    }

    #[test]
    fn rounding_and_the_ends_of_the_range() {
        let mut settings = settings();
        assert_eq!(adjusted(1, &settings, &job(false, 0, 0)), (0, CapacityRule::Shrunk));
        assert_eq!(adjusted(0, &settings, &job(false, 0, 0)), (0, CapacityRule::Shrunk));
        assert_eq!(adjusted(0, &settings, &job(true, 3, 100)), (3, CapacityRule::Grown));
        assert_eq!(adjusted(u32::MAX, &settings, &job(true, 3, 100)).0, u32::MAX);
        settings.beta = Ratio::ONE;
        assert_eq!(adjusted(7000, &settings, &job(false, 0, 0)).0, 7000);
    }

    #[test]
    fn no_pool_grows_past_its_highest_capacity() {
        let mut settings = settings();
        settings.highest_capacity = PageCount::new(7010);
        assert_eq!(
            adjusted(7000, &settings, &job(true, 10, 100)),
            (7010, CapacityRule::Grown)
        );
        assert_eq!(
            adjusted(7000, &settings, &job(true, 11, 100)),
            (7010, CapacityRule::AtLimit)
        );
        assert_eq!(
            adjusted(7010, &settings, &job(true, 1, 100)),
            (7010, CapacityRule::AtLimit)
        );
    }

    #[test]
    fn only_the_memorys_share_grows_the_pool_where_asked() {
        let mut settings = settings();
        settings.memory_share = true;
        let mut late = job(true, 10, 100);
        assert_eq!(adjusted(100, &settings, &late), (100, CapacityRule::NotMemory));
        late.delay = Duration::from_millis(40);
        late.memory_delay = Duration::from_millis(1);
        assert_eq!(adjusted(100, &settings, &late), (101, CapacityRule::Grown));
        late.memory_delay = Duration::from_millis(40);
        assert_eq!(adjusted(100, &settings, &late), (110, CapacityRule::Grown));
        late.memory_delay = Duration::from_millis(400);
        assert_eq!(adjusted(100, &settings, &late), (110, CapacityRule::Grown));
    }

    #[test]
    fn a_steady_pool_takes_its_time_to_shrink_and_comes_back_at_once() {
        let mut settings = settings();
        settings.steady = true;
        let mut steady = Steady::default();
        let mut capacity = PageCount::new(5000);
        let mut rules = Vec::new();
        for _ in 0..40 {
            let met = job(false, 0, 10);
            steady.learn(&met);
            let (next, rule) = adjust(capacity, capacity, &settings, &met, &mut steady);
            capacity = next;
            rules.push(rule);
        }
        assert_eq!(rules.iter().filter(|rule| **rule == CapacityRule::Shrunk).count(), 2);
        assert_eq!(rules.iter().filter(|rule| **rule == CapacityRule::Steady).count(), 38);
        assert_eq!(capacity.get(), 4802);
        let (back, rule) = adjust(capacity, capacity, &settings, &job(true, 3, 100), &mut steady);
        assert_eq!((back.get(), rule), (5003, CapacityRule::Grown));
    }
}
