//! How many pages to pin: Algorithm 1 of paper 001, and what we add to it.

use crate::pinning::settings::{CapacityRule, JobReport, PinningSettings};
use crate::units::PageCount;

/// What one more swap-in costs a job, as far as jobs have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SwapInCost(u64);

impl SwapInCost {
    /// Learns from a job. A job without swap-ins teaches nothing.
    pub(crate) fn learn(&mut self, job: &JobReport) {
        if job.swap_ins > 0 {
            self.0 = job.swap_delay.get().max(job.swap_time.get()) / u64::from(job.swap_ins);
        }
    }
}

/// The capacity from the next period on. `C` and `C'` of the paper are `capacity` and the result.
///
/// Shrinking rounds down, so that a capacity of few pages shrinks too; with β = 1 it never does.
pub(crate) fn adjust(
    capacity: PageCount,
    settings: &PinningSettings,
    job: &JobReport,
    cost: SwapInCost,
) -> (PageCount, CapacityRule) {
    if job.missed && job.swap_ins > 0 {
        let growth = growth(settings, job);
        if growth.is_zero() {
            return (capacity, CapacityRule::NotMemory);
        }
        let wanted = capacity.saturating_add(growth);
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
    if settings.steady && !pays_for(capacity.saturating_sub(shrunk), job, cost) {
        return (capacity, CapacityRule::Steady);
    }
    (shrunk, CapacityRule::Shrunk)
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

/// Whether half of the job's slack is more than what so many more swap-ins would take. The other half is for what the
/// next job does that this one did not.
fn pays_for(pages: PageCount, job: &JobReport, cost: SwapInCost) -> bool {
    cost.0.saturating_mul(u64::from(pages.get())) <= job.slack.get() / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinning::settings::Ratio;
    use crate::units::Duration;

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
        let (capacity, rule) = adjust(PageCount::new(capacity), settings, job, SwapInCost::default());
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
    fn a_steady_pool_shrinks_only_as_far_as_the_slack_pays() {
        let mut settings = settings();
        settings.steady = true;
        let mut cost = SwapInCost::default();
        let mut met = job(false, 10, 10);
        met.swap_delay = Duration::from_millis(10);
        cost.learn(&met);
        // 100 pages at 1 ms are 100 ms; half of 50 ms does not pay for them, but for 25 it does.
        let of = |capacity| adjust(PageCount::new(capacity), &settings, &met, cost);
        assert_eq!(of(5000), (PageCount::new(5000), CapacityRule::Steady));
        assert_eq!(of(1250), (PageCount::new(1225), CapacityRule::Shrunk));
    }
}
