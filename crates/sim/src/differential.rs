//! Law 0, tested: a reservation's tasks alone and in company.
//!
//! For a hard reservation under SPC or SPEL and a given access order of its tasks, the sequence of pages that it faults
//! on and evicts is the same alone and in any company. Company may turn a fill into a soft fault, and a first touch
//! into a read of what somebody else wrote; never more. One task makes its accesses in one order whatever happens; of
//! several tasks in one reservation the order depends on the scheduler, so reservations with one task are compared.
//!
//! A copy-on-write view is meant for one reservation: a copy that one user makes is a new page for all users of the
//! view. Where others use it too, nothing is compared.
//!
//! A run ends after a time, not after a number of accesses, so one of the sequences may be longer: they are compared as
//! far as both got.

use std::fmt;

use freehold_core::effect::Resolution;
use freehold_scenario::{ReservationIndex, ReservationKind, Scenario, Sharing};

use crate::error::SimError;
use crate::options::Options;
use crate::outcome::simulate;
use crate::sequence::{Change, PageEvent};

/// A comparison that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Faults and evictions that were compared.
    pub compared: usize,
    /// Of these, fills that company turned into soft faults.
    pub softened: usize,
    /// Of these, first touches that company turned into reads of what somebody else wrote.
    pub written_by_others: usize,
}

/// Where company made a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Position in both sequences.
    pub position: usize,
    /// What happened alone.
    pub alone: PageEvent,
    /// What happened in company.
    pub company: PageEvent,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            position,
            alone,
            company,
        } = self;
        write!(
            f,
            "law 0 broken at event {position}: alone {alone:?}, in company {company:?}"
        )
    }
}

impl std::error::Error for Difference {}

/// Why law 0 is not asserted of a reservation; `None` where it is.
#[must_use]
pub fn not_comparable(scenario: &Scenario, reservation: ReservationIndex) -> Option<&'static str> {
    let Some(found) = scenario.reservations.get(reservation.get()) else {
        return Some("the scenario has no such reservation");
    };
    let mut tasks = scenario
        .tasks
        .iter()
        .filter(|task| task.reservation == Some(reservation));
    let (Some(task), None) = (tasks.next(), tasks.next()) else {
        return Some("law 0 is compared for reservations with one task");
    };
    let common_view = |region: usize| {
        let is_view = scenario
            .regions
            .get(region)
            .is_some_and(|region| region.copy_of.is_some());
        let mut others = scenario
            .tasks
            .iter()
            .filter(|task| task.reservation != Some(reservation));
        is_view && others.any(|task| task.accesses.iter().any(|step| step.region.get() == region))
    };
    let unmanaged = |region: usize| {
        scenario
            .regions
            .get(region)
            .is_none_or(|region| region.sharing == Sharing::None)
    };
    if found.kind == ReservationKind::Firm {
        Some("law 0 is about hard reservations")
    } else if task.accesses.iter().any(|step| unmanaged(step.region.get())) {
        Some("law 0 does not hold for regions under `none`")
    } else if task.accesses.iter().any(|step| common_view(step.region.get())) {
        Some("a copy-on-write view that it uses is also used by tasks outside it")
    } else if scenario.faults.is_some_and(|faults| faults.fail > 0.0) || scenario.store.capacity.is_some() {
        Some("law 0 is not compared where requests to the store can fail")
    } else {
        None
    }
}

/// Runs a reservation's task alone and in company and compares what it faulted on and evicted.
///
/// # Errors
/// [`SimError`] where the scenario cannot be run, or [`not_comparable`] has a reason.
pub fn differential(
    scenario: &Scenario,
    reservation: ReservationIndex,
) -> Result<Result<Agreement, Difference>, SimError> {
    let options = Options {
        sequences: true,
        ..Options::default()
    };
    let mut company = simulate(scenario, &options)?.sequences;
    let company = company
        .get_mut(reservation.get())
        .map(std::mem::take)
        .unwrap_or_default();
    compare_alone(scenario, reservation, &company)
}

/// As [`differential()`], with the sequence in company known from a run with [`Options::sequences`].
///
/// # Errors
/// As [`differential()`].
pub fn compare_alone(
    scenario: &Scenario,
    reservation: ReservationIndex,
    company: &[PageEvent],
) -> Result<Result<Agreement, Difference>, SimError> {
    if let Some(reason) = not_comparable(scenario, reservation) {
        let name = scenario
            .reservations
            .get(reservation.get())
            .map(|found| found.name.clone())
            .unwrap_or_default();
        return Err(SimError::NotComparable {
            reservation: name,
            reason,
        });
    }
    let options = Options {
        sequences: true,
        only: Some(reservation),
        ..Options::default()
    };
    let mut alone = simulate(scenario, &options)?.sequences;
    let alone = alone.get_mut(reservation.get()).map(std::mem::take).unwrap_or_default();
    Ok(compare(&alone, company))
}

fn compare(alone: &[PageEvent], company: &[PageEvent]) -> Result<Agreement, Difference> {
    let mut agreement = Agreement::default();
    for (position, (alone, company)) in alone.iter().zip(company).enumerate() {
        let same_page = (alone.region, alone.page) == (company.region, company.page);
        let effect = if same_page {
            effect_of_company(alone.change, company.change)
        } else {
            None
        };
        match effect {
            Some(Effect::None) => {}
            Some(Effect::Softened) => agreement.softened += 1,
            Some(Effect::WrittenByOthers) => agreement.written_by_others += 1,
            None => {
                return Err(Difference {
                    position,
                    alone: *alone,
                    company: *company,
                });
            }
        }
        agreement.compared += 1;
    }
    Ok(agreement)
}

/// What company may do to one event.
enum Effect {
    None,
    Softened,
    WrittenByOthers,
}

fn effect_of_company(alone: Change, company: Change) -> Option<Effect> {
    use Resolution::{FileRead, Soft, SwapIn, ZeroFill};
    match (alone, company) {
        (Change::Evicted, Change::Evicted) => Some(Effect::None),
        (
            Change::Faulted { resolution: alone, .. },
            Change::Faulted {
                resolution: company,
                written_by_others,
            },
        ) => {
            match (alone, company) {
                // Still open at the end of one of the runs.
                (None, _) | (_, None) => Some(Effect::None),
                (Some(alone), Some(company)) if alone == company => Some(Effect::None),
                (Some(_), Some(Soft)) => Some(Effect::Softened),
                (Some(ZeroFill | FileRead), Some(SwapIn { shared: false })) if written_by_others => {
                    Some(Effect::WrittenByOthers)
                }
                // Somebody else read the file first, and the page was dropped since.
                (Some(FileRead), Some(SwapIn { shared: false })) => Some(Effect::None),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_core::units::PageIndex;
    use freehold_scenario::RegionIndex;

    fn event(change: Change, page: u32) -> PageEvent {
        PageEvent {
            change,
            region: RegionIndex::new(0),
            page: PageIndex::new(page),
        }
    }

    fn fault(resolution: Resolution, page: u32, written_by_others: bool) -> PageEvent {
        event(
            Change::Faulted {
                resolution: Some(resolution),
                written_by_others,
            },
            page,
        )
    }

    const READ_BACK: Resolution = Resolution::SwapIn { shared: false };

    #[test]
    fn what_company_may_do() {
        let alone = [
            fault(Resolution::ZeroFill, 1, false),
            fault(READ_BACK, 2, false),
            event(Change::Evicted, 1),
        ];
        let company = [
            fault(READ_BACK, 1, true),
            fault(Resolution::Soft, 2, false),
            event(Change::Evicted, 1),
        ];
        let agreement = compare(&alone, &company).unwrap();
        assert_eq!(
            (agreement.compared, agreement.softened, agreement.written_by_others),
            (3, 1, 1)
        );
        assert_eq!(compare(&alone[..1], &company), compare(&alone[..1], &company[..1]));
    }

    #[test]
    fn what_company_may_not_do() {
        let differs = |alone, company| compare(&[alone], &[company]).is_err();
        // Another page, another order.
        assert!(differs(
            fault(Resolution::Soft, 1, false),
            fault(Resolution::Soft, 2, false)
        ));
        assert!(differs(fault(Resolution::Soft, 1, false), event(Change::Evicted, 1)));
        assert!(differs(event(Change::Evicted, 1), event(Change::Evicted, 2)));
        // A page that was there alone and is not in company.
        assert!(differs(fault(Resolution::Soft, 1, false), fault(READ_BACK, 1, true)));
        // A swap-in of what nobody else wrote, or of what was taken away.
        assert!(differs(
            fault(Resolution::ZeroFill, 1, false),
            fault(READ_BACK, 1, false)
        ));
        let taken = fault(Resolution::SwapIn { shared: true }, 1, true);
        assert!(differs(fault(Resolution::ZeroFill, 1, false), taken));
        assert!(differs(fault(READ_BACK, 1, false), taken));
    }
}
