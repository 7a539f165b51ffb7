//! For tests only: planted bugs that the suite must find, and states that can be compared.

use alloc::vec::Vec;

use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::memory::Memory;

/// A mistake that is made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Ownership,
    ForgottenFrame,
}

impl Memory {
    /// Breaks the transfer of ownership: the heir keeps the frame that it conserved, and the evictor is given one of
    /// the pool's. The counts stay plausible; only the laws can tell.
    pub fn plant_ownership_bug(&mut self) {
        self.step.planted = Some(Planted::Ownership);
    }

    /// Forgets one frame of each return from outside.
    pub fn plant_forgotten_frame(&mut self) {
        self.step.planted = Some(Planted::ForgottenFrame);
    }

    /// The state without names, times and counters, with the reservation slots in the given order: two states that
    /// behave alike have equal fingerprints under some order. O(entries + pages).
    #[must_use]
    pub fn fingerprint(&self, order: &[u16]) -> Vec<u32> {
        let rank = |holder: HolderIndex| match holder.0.checked_sub(1) {
            None => u32::MAX,
            Some(slot) => u32::try_from(order.iter().position(|&other| other == slot).unwrap_or(99)).unwrap_or(99),
        };
        let mut print = Vec::new();
        print.push(u32::from(self.reclaim.refaults.activated));
        // No active list is longer: distances beyond are alike.
        let most = self.pages.len() + 1;
        let holders = core::iter::once(0).chain(order.iter().map(|&slot| usize::from(slot) + 1));
        for slot in holders {
            let account = &self.accounts[slot];
            let counts = [
                account.held.free.len(),
                account.held.in_flight.len(),
                account.held.owned.len(),
                account.held.conserved.len(),
                account.held.outside.frames.len(),
                account.held.outside.recalled,
            ];
            print.extend(counts);
            print.extend([
                account.leaving,
                account.unmanaged.owed,
                account.loans.borrowed(),
                account.unmanaged.returned,
                account.claims.count(),
            ]);
            for list in [
                account.lists.active(),
                account.lists.inactive_mapped(),
                account.lists.inactive(),
                account.lists.locked(),
            ] {
                let mut next = list.first();
                while let Some(index) = next {
                    print.push(self.entries[index].page.0);
                    next = self.entries[index].next.some();
                }
                print.push(u32::MAX);
            }
        }
        for page in (0..self.pages.len()).map(PageNumber) {
            print.extend([self.pages[page].state as u32, u32::from(self.pages[page].marks.bits())]);
            print.push(
                self.refault_distance(page)
                    .map_or(u32::MAX, |distance| distance.min(most)),
            );
            print.extend(self.sharers(page).flat_map(|index: EntryIndex| {
                let entry = &self.entries[index];
                [rank(entry.holder), entry.place as u32, u32::from(entry.marks.bits())]
            }));
            print.push(u32::MAX);
        }
        print
    }
}
