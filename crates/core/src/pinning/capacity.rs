//! How many pages to pin: what Algorithm 1 says, as far as bounds and extensions let it.

use crate::pinning::algorithm1::{self, Next};
use crate::pinning::extensions::memory_share;
use crate::pinning::extensions::steady::Steady;
use crate::pinning::pool::PinnedPool;
use crate::pinning::settings::{CapacityRule, JobReport, PinningSettings};
use crate::units::PageCount;

/// The capacity from the next period on. `pinned`: how many pages are in the pool.
pub(crate) fn adjust(
    capacity: PageCount,
    pinned: PageCount,
    settings: &PinningSettings,
    job: &JobReport,
    steady: &mut Steady,
) -> (PageCount, CapacityRule) {
    match algorithm1::next(capacity, settings, job) {
        Next::Grow(growth) => {
            let growth = memory_share::of(growth, settings, job);
            if growth.is_zero() {
                (capacity, CapacityRule::NotMemory)
            } else if settings.steady {
                bounded(steady.grow(capacity, growth, pinned), settings)
            } else {
                bounded(capacity.saturating_add(growth), settings)
            }
        }
        Next::Shrink(shrunk) if settings.steady && !steady.step(capacity, shrunk, pinned) => {
            (capacity, CapacityRule::Steady)
        }
        Next::Shrink(shrunk) => (shrunk, CapacityRule::Shrunk),
        Next::Hold => (capacity, CapacityRule::Held),
    }
}

/// The same for a pool that tries pages before they leave: only its growth is the paper's.
pub(crate) fn prove(pool: &mut PinnedPool, job: &JobReport) -> (PageCount, CapacityRule) {
    let (capacity, pinned, tried) = (pool.capacity, pool.len(), pool.inactive.len());
    let short = core::mem::take(&mut pool.trial.short);
    if job.missed && short {
        let left = pool.trial.starve(pinned, tried);
        return (capacity.min(left), CapacityRule::Shrunk);
    }
    if let Next::Grow(growth) = algorithm1::next(capacity, &pool.settings, job) {
        let growth = memory_share::of(growth, &pool.settings, job);
        if growth.is_zero() {
            return (capacity, CapacityRule::NotMemory);
        }
        return bounded(pool.trial.take_back(capacity, growth), &pool.settings);
    }
    let (wanted, rule) = pool.trial.judge(capacity, pinned, tried);
    (wanted.min(pool.settings.highest_capacity), rule)
}

/// A capacity that has grown, as far as the highest lets it.
fn bounded(wanted: PageCount, settings: &PinningSettings) -> (PageCount, CapacityRule) {
    if wanted > settings.highest_capacity {
        (settings.highest_capacity, CapacityRule::AtLimit)
    } else {
        (wanted, CapacityRule::Grown)
    }
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
