//! The order in which every engine sets a scenario up, so that all give the core's things the same names.
//!
//! Objects in file order, copy-on-write views last; then for each reservation its admission, its tasks with their
//! mappings, a *keeper* task for locked regions that none of them maps, and its locks: so frames that a lock gives back
//! are there for the next reservation. Then the tasks without a reservation. Behind each task for which pages are
//! restored comes its *restorer*.

use crate::model::{PageRange, ReservationIndex, Scenario};
use crate::setup;

/// What a scenario is set up in. Everything is meant by its position in the scenario.
pub trait Site {
    /// Why something could not be made.
    type Error;

    /// Makes the object of a region.
    ///
    /// # Errors
    /// It could not be made.
    fn make_object(&mut self, region: usize) -> Result<(), Self::Error>;

    /// Admits a reservation.
    ///
    /// # Errors
    /// It was refused.
    fn admit(&mut self, reservation: ReservationIndex) -> Result<(), Self::Error>;

    /// Opens the pinned page pool of a task if it has one, and makes the task with its
    /// [mappings](setup::mapped_regions).
    ///
    /// # Errors
    /// Something of it was refused.
    fn add_task(&mut self, task: usize) -> Result<(), Self::Error>;

    /// Makes the task that restores pages for a task, with the same mappings. Nothing where it needs none here.
    ///
    /// # Errors
    /// Something of it was refused.
    fn add_restorer(&mut self, _task: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Makes a task of the reservation that never runs, and has it map these regions, of which there is one at least.
    ///
    /// # Errors
    /// Something of it was refused.
    fn keep(&mut self, reservation: ReservationIndex, regions: &[usize]) -> Result<(), Self::Error>;

    /// Locks pages of a region for a reservation.
    ///
    /// # Errors
    /// They could not be locked.
    fn lock(&mut self, reservation: ReservationIndex, region: usize, range: PageRange) -> Result<(), Self::Error>;
}

/// Sets up a scenario, or of it only the reservations of which `takes_part` is true, and their tasks; `None` is that of
/// the tasks without one.
///
/// # Errors
/// The site's first.
pub fn set_up<S: Site>(
    scenario: &Scenario,
    takes_part: impl Fn(Option<ReservationIndex>) -> bool,
    site: &mut S,
) -> Result<(), S::Error> {
    let regions = 0..scenario.regions.len();
    let (bases, views): (Vec<usize>, Vec<usize>) =
        regions.partition(|region| scenario.regions[*region].copy_of.is_none());
    for region in bases.into_iter().chain(views) {
        site.make_object(region)?;
    }
    for (position, reservation) in scenario.reservations.iter().enumerate() {
        let index = ReservationIndex::new(u16::try_from(position).unwrap_or(u16::MAX));
        if !takes_part(Some(index)) {
            continue;
        }
        site.admit(index)?;
        add_tasks(scenario, Some(index), site)?;
        let kept: Vec<usize> = setup::kept_regions(scenario, index).collect();
        if !kept.is_empty() {
            site.keep(index, &kept)?;
        }
        for (region, used) in reservation.regions.iter().enumerate() {
            for range in &used.locks {
                site.lock(index, region, *range)?;
            }
        }
    }
    if takes_part(None) {
        add_tasks(scenario, None, site)?;
    }
    Ok(())
}

fn add_tasks<S: Site>(
    scenario: &Scenario,
    reservation: Option<ReservationIndex>,
    site: &mut S,
) -> Result<(), S::Error> {
    let tasks = scenario.tasks.iter().enumerate();
    for (position, _) in tasks.filter(|(_, task)| task.reservation == reservation) {
        site.add_task(position)?;
        if setup::restorers(scenario).any(|owner| owner == position) {
            site.add_restorer(position)?;
        }
    }
    Ok(())
}
