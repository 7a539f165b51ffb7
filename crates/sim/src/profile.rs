//! Profiles: which pages each reservation touches, and how many per period, when memory is no matter.

use freehold_core::units::{ByteLen, PAGE_SIZE, PageCount, PageIndex};
use freehold_scenario::{MAX_PAGES, PageRange, RegionIndex, ReservationIndex, ReservationKind, Scenario, Sharing};

use crate::engine::Engine;
use crate::error::SimError;
use crate::options::Options;
use crate::usage::Usage;

/// Frames of an ample reservation beside its pages, and beside those for its tasks.
const SLACK: u64 = 8;
/// Frames of an ample reservation for each of its tasks.
const PER_TASK: u64 = 2;

/// What each reservation used of each region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// By reservation and region.
    uses: Vec<Vec<RegionProfile>>,
}

/// What one reservation used of one region.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionProfile {
    touched: Vec<PageRange>,
    max: u64,
    average: f64,
}

impl Profile {
    /// A profile made of what `of` says for each reservation and region, by their positions.
    #[must_use]
    pub fn of(scenario: &Scenario, mut of: impl FnMut(usize, usize) -> RegionProfile) -> Self {
        let regions = scenario.regions.len();
        let reservations = 0..scenario.reservations.len();
        let uses = reservations.map(|reservation| (0..regions).map(|region| of(reservation, region)).collect());
        Self { uses: uses.collect() }
    }

    /// What a reservation used of a region; `None` for an index of another scenario.
    #[must_use]
    pub fn usage(&self, reservation: ReservationIndex, region: RegionIndex) -> Option<&RegionProfile> {
        self.uses.get(reservation.get())?.get(region.get())
    }
}

impl RegionProfile {
    /// Of a region that was not touched.
    pub(crate) const UNUSED: Self = Self {
        touched: Vec::new(),
        max: 0,
        average: 0.0,
    };

    /// From whether each page was touched, page 0 first, and the mean of pages referenced per period. O(pages).
    pub fn new(touched: impl IntoIterator<Item = bool>, average: f64) -> Self {
        let mut profile = Self {
            average,
            ..Self::default()
        };
        for (page, _) in (0..).zip(touched).filter(|(_, touched)| *touched) {
            profile.max += 1;
            match profile.touched.last_mut() {
                Some(last) if last.first.get() + last.pages.get() == page => {
                    last.pages = PageCount::new(last.pages.get() + 1);
                }
                _ => profile.touched.push(PageRange {
                    first: PageIndex::new(page),
                    pages: PageCount::new(1),
                }),
            }
        }
        profile
    }

    /// The pages touched: ascending ranges that neither meet nor overlap.
    #[must_use]
    pub fn touched(&self) -> &[PageRange] {
        &self.touched
    }

    /// Distinct pages touched (Max of S_i).
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean pages referenced per period, at most [`max`](Self::max) (Avg of S_i). Of a task without a period, per job.
    #[must_use]
    pub fn average(&self) -> f64 {
        self.average
    }
}

/// The scenario with room for everything: every reservation has as many frames as its tasks touch pages, the pool has
/// them all, nothing is locked, and the store does not fail. Tasks and regions are the same, by position.
///
/// # Errors
/// [`SimError::TooLargeToProfile`].
pub fn ample(scenario: &Scenario) -> Result<Scenario, SimError> {
    let mut spec = scenario.spec().clone();
    (spec.faults, spec.memory.capacity) = (None, None);
    spec.devices.clear();
    for region in &mut spec.regions {
        region.sharing = Sharing::Spc;
    }
    let mut pool = room(scenario, None);
    for (position, reservation) in (0..).zip(&mut spec.reservations) {
        let frames = room(scenario, Some(ReservationIndex::new(position)));
        pool += frames;
        reservation.size = ByteLen::new(frames * PAGE_SIZE);
        reservation.kind = ReservationKind::Hard;
        reservation.sharing.clear();
        reservation.locks.clear();
    }
    if pool > u64::from(MAX_PAGES) {
        return Err(SimError::TooLargeToProfile { frames: pool });
    }
    spec.memory.pool = ByteLen::new(pool * PAGE_SIZE);
    Scenario::try_from(spec).map_err(SimError::Changed)
}

/// Frames for all that the tasks of a reservation touch, or those without one.
fn room(scenario: &Scenario, reservation: Option<ReservationIndex>) -> u64 {
    let mine = || scenario.tasks.iter().filter(|task| task.reservation == reservation);
    let touched = |region: usize| mine().any(|task| task.accesses.iter().any(|step| step.region.get() == region));
    let regions = scenario.regions.iter().enumerate();
    let pages = regions.filter(|(region, _)| touched(*region)).map(|(_, region)| {
        // Of a copy-on-write view a reservation may hold the base's page and the copy.
        let copies = if region.copy_of.is_some() { 2 } else { 1 };
        u64::from(region.pages.get()) * copies
    });
    pages.sum::<u64>() + mine().count() as u64 * PER_TASK + SLACK
}

/// Takes a profile: simulates the [`ample`] scenario for its whole duration. O(a run).
///
/// # Errors
/// [`SimError::TooLargeToProfile`], and what a run can end with.
pub fn profile(scenario: &Scenario) -> Result<Profile, SimError> {
    let ample = ample(scenario)?;
    let options = Options {
        check_every: Some(0),
        ..Options::default()
    };
    let mut engine = Engine::new(&ample, &options)?;
    engine.run()?;
    let jobs: Vec<u64> = engine.runners.iter().map(|runner| runner.account.ended()).collect();
    let tables = &engine.world.tables;
    let usage = Usage {
        scenario: &ample,
        tables,
        jobs: &jobs,
    };
    let one = |reservation: usize, region: usize| {
        let touched = tables.touched(reservation, region).iter().copied();
        RegionProfile::new(touched, usage.average(reservation, region))
    };
    Ok(Profile::of(scenario, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_touched_become_ranges() {
        let profile = RegionProfile::new([true, true, false, true, false, false, true, true], 2.5);
        let ranges: Vec<(u32, u32)> = profile
            .touched()
            .iter()
            .map(|range| (range.first.get(), range.pages.get()))
            .collect();
        assert_eq!(ranges, [(0, 2), (3, 1), (6, 2)]);
        assert_eq!((profile.max(), profile.average()), (5, 2.5));
        assert_eq!(RegionProfile::new([false], 0.0).touched(), []);
    }
}
