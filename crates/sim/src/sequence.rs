//! For law 0: what each reservation faulted on and evicted, in order.

use freehold_core::effect::Resolution;
use freehold_core::units::PageIndex;
use freehold_scenario::RegionIndex;

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A task of the reservation faulted on it, and the fault ended. Write-permission faults are left out.
    Faulted {
        /// How it was resolved; `None` where it failed, or was still open at the end.
        resolution: Option<Resolution>,
        /// A task outside the reservation had written the page.
        written_by_others: bool,
    },
    /// The reservation evicted it: wrote it back, dropped it, or unmapped it from its tasks.
    Evicted,
}

/// One fault or eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageEvent {
    /// What happened.
    pub change: Change,
    /// The region; of the base where the page of a copy-on-write view is not copied yet.
    pub region: RegionIndex,
    /// The page.
    pub page: PageIndex,
}

/// The events of all reservations; empty where they are not wanted.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    of: Vec<Vec<PageEvent>>,
}

impl Sequences {
    pub(crate) fn new(reservations: usize, wanted: bool) -> Self {
        Self {
            of: if wanted {
                vec![Vec::new(); reservations]
            } else {
                Vec::new()
            },
        }
    }

    pub(crate) fn note(&mut self, reservation: usize, change: Change, region: usize, page: u32) {
        if let Some(events) = self.of.get_mut(reservation) {
            let region = RegionIndex::new(u16::try_from(region).unwrap_or(u16::MAX));
            events.push(PageEvent {
                change,
                region,
                page: PageIndex::new(page),
            });
        }
    }

    /// A fault has begun; its end is filled in under the returned number.
    pub(crate) fn begin_fault(&mut self, reservation: usize, region: usize, page: u32) -> Option<usize> {
        let number = self.of.get(reservation).map(Vec::len);
        self.note(
            reservation,
            Change::Faulted {
                resolution: None,
                written_by_others: false,
            },
            region,
            page,
        );
        number
    }

    /// A fault has ended.
    pub(crate) fn end_fault(&mut self, reservation: usize, number: usize, resolution: Resolution, others: bool) {
        if let Some(event) = self.of.get_mut(reservation).and_then(|events| events.get_mut(number)) {
            event.change = Change::Faulted {
                resolution: Some(resolution),
                written_by_others: others,
            };
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<PageEvent>> {
        std::mem::take(&mut self.of)
    }
}
