//! The laws as executable checks. `check_counts` is cheap and runs after every step of debug builds; `check_laws`
//! goes through every list and every page and runs in tests, in the simulator and at the end of live runs.

use core::fmt;

use crate::frames::account::{Account, Ending};
use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::{Entry, Marks, Place};
use crate::pages::page::PageMarks;
use crate::sharing::UNLOCKED_FRAMES;
use crate::view::PageState;

/// A law that does not hold: a bug in the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The law's number (docs/book/src/model.md).
    pub law: u8,
    /// What should have been.
    pub what: &'static str,
    /// The account (0 the pool, then reservation slots from 1) or page where it shows.
    pub place: u32,
    /// The two sides that should agree.
    pub sides: (i64, i64),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            law,
            what,
            place,
            sides: (left, right),
        } = self;
        write!(f, "law {law} broken at {place}: {what} ({left} against {right})")
    }
}

impl core::error::Error for Violation {}

type Check = Result<(), Violation>;

fn equal(law: u8, what: &'static str, place: usize, left: impl Into<i64>, right: impl Into<i64>) -> Check {
    let (left, right) = (left.into(), right.into());
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    if left == right {
        Ok(())
    } else {
        Err(Violation {
            law,
            what,
            place,
            sides: (left, right),
        })
    }
}

fn holds(law: u8, what: &'static str, place: usize, truth: bool) -> Check {
    equal(law, what, place, i64::from(truth), 1)
}

impl Memory {
    /// The laws that counters alone can show: conservation, effective and physical. O(reservations).
    pub(crate) fn check_counts(&self) -> Check {
        let frames: u32 = self.accounts.iter().map(Account::held).sum();
        equal(
            1,
            "every frame has one holder",
            0,
            frames + self.frames.set_aside,
            self.frames.total,
        )?;
        for (slot, account) in self.accounts.iter().enumerate().skip(1) {
            if account.has_ended() {
                holds(
                    1,
                    "a reservation that has ended is kept by frames in flight alone, or by pages to be taken off it",
                    slot,
                    !account.held.in_flight.is_empty()
                        || self.step.service.contains(HolderIndex::reservation(slot - 1))
                        || account.ending == Ending::Parting,
                )?;
            } else if account.id.is_some() {
                Self::check_reservation(slot, account)?;
            }
        }
        let borrowed: u32 = self.accounts.iter().map(|account| account.loans.borrowed()).sum();
        equal(
            1,
            "frames lent are those borrowed",
            0,
            borrowed,
            self.credit.loans.borrowed(),
        )?;
        let unpaid: u32 = self.accounts.iter().map(|account| account.unpaid).sum();
        equal(
            4,
            "locked pages paid by others are counted",
            0,
            unpaid,
            self.frames.unpaid,
        )
    }

    fn check_reservation(slot: usize, account: &Account) -> Check {
        let effective = account.lists.active_pages()
            + account.lists.inactive().len()
            + account.lists.locked_pages()
            + account.held.free.len()
            + account.held.in_flight.len()
            + account.unmanaged.owed
            + account.held.outside.frames.len();
        let promised = account.capacity + account.loans.borrowed();
        equal(
            1,
            "active + inactive + locked + free + in flight + owed + outside = capacity + borrowed",
            slot,
            effective,
            promised,
        )?;
        let held =
            i64::from(promised) - i64::from(account.unmanaged.returned + account.unpaid + account.unmanaged.owed);
        equal(
            1,
            "held = capacity + borrowed - returned - unpaid - owed",
            slot,
            account.held(),
            held,
        )?;
        holds(
            1,
            "only firm reservations borrow",
            slot,
            account.loans.borrowed() == 0 || account.policy.borrows(),
        )?;
        holds(
            1,
            "frames being returned were borrowed",
            slot,
            account.loans.returning() <= account.loans.borrowed(),
        )?;
        Self::check_outside(slot, account)?;
        let lockable = account.capacity.saturating_sub(UNLOCKED_FRAMES);
        holds(
            4,
            "locks leave 8 frames unlocked",
            slot,
            account.lists.locked().len() <= lockable,
        )?;
        holds(
            4,
            "programs lock no more than was admitted",
            slot,
            account.locks.by_programs() <= account.locks.admitted() && account.locks.admitted() <= lockable,
        )
    }

    /// What left the page lists of a reservation.
    fn check_outside(slot: usize, account: &Account) -> Check {
        let outside = &account.held.outside;
        holds(
            1,
            "frames recalled are outside and on their way back",
            slot,
            outside.recalled <= outside.frames.len() && outside.recalled <= account.loans.returning(),
        )?;
        holds(
            4,
            "what is outside leaves frames for locks and pages",
            slot,
            account.kept_for_pages() <= account.left_for_pages(),
        )
    }

    /// Every law that one state can show, from the lists and pages themselves. O(entries + pages).
    ///
    /// # Errors
    /// The first law found broken: a bug in the core.
    pub fn check_laws(&self) -> Result<(), Violation> {
        self.check_counts()?;
        for slot in 0..self.accounts.len() {
            self.check_entries(slot)?;
        }
        for number in 0..self.pages.len() {
            self.check_page(PageNumber(number))?;
        }
        self.check_away()?;
        for (slot, object) in self.objects.iter() {
            let state = |page: u32| self.pages[PageNumber(page)].state;
            let resident =
                (object.first..object.first + object.pages).filter(|&page| state(page) == PageState::Resident);
            equal(
                1,
                "resident pages of an object",
                slot,
                resident.map(|_| 1i64).sum::<i64>(),
                object.resident,
            )?;
        }
        self.check_debts()
    }

    /// Totals that are kept beside the accounts.
    fn check_debts(&self) -> Check {
        let owed: u32 = self.accounts.iter().map(|account| account.unmanaged.owed).sum();
        equal(3, "debts add up", 0, owed, self.credit.owed)?;
        let returning: u32 = self.accounts.iter().map(|account| account.loans.returning()).sum();
        equal(
            1,
            "frames on their way back add up",
            0,
            returning,
            self.credit.loans.returning(),
        )?;
        holds(
            1,
            "no more is promised than there is",
            0,
            self.committed() <= self.frames.total,
        )?;
        holds(
            4,
            "shared locks stay within their limit",
            0,
            self.frames.unpaid <= self.limits.shared_locks.get(),
        )
    }

    /// One account's counters against its entries.
    fn check_entries(&self, slot: usize) -> Check {
        let account = &self.accounts[slot];
        let held = &account.held;
        let mut sums = EntrySums::default();
        for (index, entry) in self.entries.iter().filter(|(_, entry)| entry.holder.slot() == slot) {
            sums.add(entry, self.owner(entry.page) == index);
        }
        equal(1, "active list", slot, sums.active, account.lists.active().len())?;
        equal(1, "inactive list", slot, sums.inactive, account.lists.inactive().len())?;
        equal(1, "locked pages", slot, sums.locked, account.lists.locked().len())?;
        equal(
            4,
            "pages locked by programs",
            slot,
            sums.self_paid,
            account.locks.by_programs(),
        )?;
        equal(
            1,
            "inactive mapped pages",
            slot,
            sums.inactive_mapped,
            account.lists.inactive_mapped().len(),
        )?;
        let pinned = if account.policy.uses_global_lists() {
            self.pinned.len()
        } else {
            0
        };
        equal(1, "pinned pages", slot, sums.pinned, pinned)?;
        equal(1, "pages on their way", slot, sums.unsettled, account.lists.coming())?;
        equal(1, "frames in flight", slot, sums.in_flight, held.in_flight.len())?;
        equal(
            1,
            "frames leaving",
            slot,
            sums.leaving,
            account.leaving + account.loans.returning() - held.outside.recalled,
        )?;
        equal(1, "owned", slot, sums.owned, held.owned.len())?;
        equal(
            1,
            "conserved = foreign pages mapped",
            slot,
            sums.conserved,
            held.conserved.len(),
        )?;
        equal(
            1,
            "returned = foreign pages mapped under none",
            slot,
            sums.returned,
            account.unmanaged.returned,
        )?;
        equal(4, "locked pages paid by another", slot, sums.unpaid, account.unpaid)
    }

    fn check_away(&self) -> Check {
        let is_away = |page: u32| {
            let page = &self.pages[PageNumber(page)];
            u32::from(page.state == PageState::Stored && page.marks.has(PageMarks::SEEN))
        };
        let pages = self.objects.iter();
        let pages = pages.flat_map(|(_, object)| object.first..object.first + object.pages);
        let away: u32 = pages.map(is_away).sum();
        equal(2, "pages that were here before", 0, away, self.frames.away)
    }

    fn check_page(&self, page: PageNumber) -> Check {
        let slot = page.slot();
        let Some(first) = self.pages[page].first_sharer().some() else {
            let state = self.pages[page].state;
            return holds(
                2,
                "a resident page has an owner",
                slot,
                matches!(state, PageState::Empty | PageState::Stored),
            );
        };
        let (mut settled, mut payers, mut lockers) = (0u32, 0u32, 0u32);
        for index in self.sharers(page) {
            let entry = &self.entries[index];
            holds(2, "a sharer is of this page", slot, entry.page == page)?;
            let once = entry.place == Place::Leaving || self.find_entry(entry.holder, page) == Some(index);
            holds(2, "a holder has a page once", slot, once)?;
            if entry.marks.has(Marks::SETTLED) {
                settled += 1;
                self.check_sharer(page, index, index == first)?;
            }
            if entry.is_shared_lock() && entry.marks.has(Marks::SETTLED) {
                lockers += 1;
                payers += u32::from(!entry.marks.has(Marks::UNPAID));
            }
        }
        self.check_state(page, first, settled)?;
        holds(4, "one locker pays", slot, lockers == 0 || payers == 1)
    }

    fn check_state(&self, page: PageNumber, first: EntryIndex, settled: u32) -> Check {
        let (slot, entry) = (page.slot(), &self.entries[first]);
        match self.pages[page].state {
            PageState::Resident => {
                holds(
                    2,
                    "the first sharer of a resident page owns it",
                    slot,
                    entry.marks.has(Marks::SETTLED),
                )?;
                let pooled = !self.policy(entry.holder).is_promised();
                holds(
                    2,
                    "a page that a reservation has is not the pool's",
                    slot,
                    !pooled || settled == 1,
                )
            }
            PageState::Filling => {
                equal(1, "a page on its way in is nobody's yet", slot, settled, 0)?;
                holds(
                    1,
                    "who fills a page has a frame for it",
                    slot,
                    entry.marks.has(Marks::HAS_FRAME),
                )
            }
            PageState::Leaving => {
                equal(2, "a page on its way out is nobody's", slot, settled, 0)?;
                holds(
                    2,
                    "the evictor of a page comes first",
                    slot,
                    entry.place == Place::Leaving,
                )
            }
            PageState::Empty | PageState::Stored => equal(1, "an absent page is nobody's", slot, settled, 0),
        }
    }

    /// What a sharer bears for a page, by its part in it.
    fn check_sharer(&self, page: PageNumber, index: EntryIndex, owns: bool) -> Check {
        let entry = &self.entries[index];
        let bears = [Marks::CONSERVES, Marks::RETURNED, Marks::UNPAID].map(|mark| entry.marks.has(mark));
        let expected = if owns {
            [false, false, false]
        } else if self.regime(page) == Regime::Unmanaged {
            [false, true, false]
        } else if bears[2] {
            [false, false, entry.place == Place::Locked]
        } else {
            [true, false, false]
        };
        holds(
            2,
            "a sharer bears what its part in the page asks",
            page.slot(),
            bears == expected,
        )
    }
}

/// What one account's entries add up to.
#[derive(Default)]
struct EntrySums {
    active: u32,
    inactive: u32,
    inactive_mapped: u32,
    pinned: u32,
    locked: u32,
    unsettled: u32,
    in_flight: u32,
    leaving: u32,
    owned: u32,
    conserved: u32,
    returned: u32,
    unpaid: u32,
    self_paid: u32,
}

impl EntrySums {
    fn add(&mut self, entry: &Entry, owns: bool) {
        let settled = entry.marks.has(Marks::SETTLED);
        match entry.place {
            Place::Active => self.active += 1,
            Place::Inactive => self.inactive += 1,
            Place::InactiveMapped => self.inactive_mapped += 1,
            Place::PinnedActive | Place::PinnedInactive => self.pinned += 1,
            Place::Locked => self.locked += 1,
            Place::Leaving => self.leaving += 1,
            Place::Vacant => {}
        }
        let leaving = entry.place == Place::Leaving;
        self.unsettled += u32::from(!settled && !leaving);
        self.in_flight += u32::from(leaving || entry.marks.has(Marks::HAS_FRAME));
        self.owned += u32::from(settled && owns);
        self.conserved += u32::from(entry.marks.has(Marks::CONSERVES));
        self.returned += u32::from(entry.marks.has(Marks::RETURNED));
        self.unpaid += u32::from(entry.marks.has(Marks::UNPAID));
        let locked = entry.place == Place::Locked;
        self.self_paid += u32::from(locked && entry.marks.has(Marks::SELF_PAID));
    }
}
