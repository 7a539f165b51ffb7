//! Shared-Page Eviction Lock (paper 000, section IV.B): locked pages stay resident until their last locker unlocks or
//! exits. Each of n lockers is charged the pages, one of them pays the frames, (n − 1)·MS frames return to the pool.

use core::ops::Range;

use crate::effect::Effect;
use crate::error::{LockError, UnlockError};
use crate::id::{ObjectId, ReservationId};
use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::limits::{PageRange, Regime};
use crate::memory::{LOCK_WINDOW, Memory};
use crate::pages::entry::{Marks, Place};
use crate::units::{FrameCount, PageCount};
use crate::view::PageState;

/// Frames of its capacity that a reservation's locks leave unlocked: one store instruction may need two pages at
/// once, and a page of each may be on its way in.
pub const UNLOCKED_FRAMES: u32 = 8;

/// How far locks in progress may go on.
#[derive(Debug)]
pub(crate) struct LockPace {
    /// Reservations with a lock that is bringing pages in.
    in_progress: u32,
    /// Pages for which they may go on.
    room: u64,
}

impl LockPace {
    pub(crate) const UNLIMITED: Self = Self {
        in_progress: 0,
        room: u64::MAX,
    };
}

/// What became of one step of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The page is locked or on its way.
    Taken,
    /// Something must end first.
    Stalled,
    /// No frame can be had for it.
    Impossible,
}

impl Memory {
    /// Locks pages for a reservation. Absent pages are brought in: drive their `Fill`s like any others until
    /// [`Effect::Locked`] comes out. O(pages of the range).
    ///
    /// # Errors
    /// See [`LockError`]; nothing has changed then.
    pub fn lock(&mut self, reservation: ReservationId, object: ObjectId, range: PageRange) -> Result<(), LockError> {
        let holder = self.holder_of_reservation(reservation).ok_or(LockError::Stale)?;
        let found = *self
            .objects
            .get(object.index(), object.generation())
            .ok_or(LockError::Stale)?;
        let pages = Self::numbers(&found, range).ok_or(LockError::BadRange)?;
        if found.base.is_some() {
            return Err(LockError::CopyOnWrite);
        }
        if found.regime == Regime::Unmanaged {
            return Err(LockError::NotManaged);
        }
        if !self.maps_object(holder, object.index()) {
            return Err(LockError::NotMapped);
        }
        if self.account_of(holder).locks.is_in_progress() {
            return Err(LockError::InProgress);
        }
        self.check_lock_size(holder, pages.clone())?;
        self.begin(None);
        self.account(holder).locks.begin(pages);
        self.step.lock_pace.in_progress += 1;
        self.end();
        Ok(())
    }

    fn check_lock_size(&self, holder: HolderIndex, pages: Range<u32>) -> Result<(), LockError> {
        let account = self.account_of(holder);
        let wanted = pages.end - pages.start;
        let needed = account.capacity_to_lock(wanted);
        if needed.get() > account.capacity {
            return Err(LockError::TooLarge { needed });
        }
        let mut shared = self.frames.unpaid;
        for page in pages.map(PageNumber) {
            let mut locked = false;
            for index in self.sharers(page) {
                if self.entries[index].is_shared_lock() {
                    if self.entries[index].holder == holder {
                        return Err(LockError::Overlap);
                    }
                    locked = true;
                }
            }
            shared += u32::from(locked);
        }
        if shared > self.limits.shared_locks.get() {
            return Err(LockError::TableFull);
        }
        Ok(())
    }

    /// Lets every lock in progress go on as far as it can; called when there is nothing else to do.
    pub(crate) fn continue_locks(&mut self) {
        for slot in 1..self.accounts.len() {
            let holder = HolderIndex(u16::try_from(slot).unwrap_or(u16::MAX));
            while self.step.effects.len() == 0
                && self.step.lock_pace.room > 0
                && self.account_of(holder).locks.is_in_progress()
            {
                if !self.continue_lock(holder) {
                    break;
                }
                self.step.lock_pace.room -= 1;
            }
        }
        self.end();
    }

    /// From now on locks in progress go on for at most so many pages, until this is called again: an engine that others
    /// wait for does not lock a gigabyte in one step. Where it is never called there is no limit.
    pub fn allow_locking(&mut self, pages: PageCount) {
        self.step.lock_pace.room = pages.get().into();
    }

    /// Whether pages that are to be locked for a reservation are still on their way in. O(1).
    #[must_use]
    pub fn brings_locked_pages(&self, reservation: ReservationId) -> bool {
        let holder = self.holder_of_reservation(reservation);
        holder.is_some_and(|holder| self.account_of(holder).lists.locked_coming() > 0)
    }

    pub(crate) fn locks_can_go_on(&self) -> bool {
        self.step.lock_pace.in_progress > 0 && self.step.lock_pace.room > 0
    }

    /// Whether a lock in progress may be waiting to be [allowed](Self::allow_locking) more pages.
    #[must_use]
    pub fn wants_locking(&self) -> bool {
        self.step.lock_pace.in_progress > 0 && self.step.lock_pace.room == 0
    }

    /// One page further; whether anything moved.
    fn continue_lock(&mut self, holder: HolderIndex) -> bool {
        let account = self.account_of(holder);
        let Some(id) = account.id.filter(|_| account.locks.is_in_progress()) else {
            return false;
        };
        let Some(next) = account.locks.next() else {
            if account.lists.locked_coming() > 0 {
                return false;
            }
            self.end_lock(holder);
            self.step.effects.push(Effect::Locked { reservation: id });
            return true;
        };
        if account.lists.locked_coming() >= LOCK_WINDOW {
            return false;
        }
        match self.lock_page(holder, next) {
            Step::Taken => {
                self.account(holder).locks.advance();
                true
            }
            Step::Stalled => false,
            Step::Impossible => {
                self.fail_lock(holder);
                true
            }
        }
    }

    /// Ends a lock in progress, if there is one.
    pub(crate) fn end_lock(&mut self, holder: HolderIndex) {
        if self.account(holder).locks.end() {
            self.step.lock_pace.in_progress -= 1;
        }
    }

    /// Stops a lock that cannot be completed.
    pub(crate) fn fail_lock(&mut self, holder: HolderIndex) {
        if self.account_of(holder).locks.is_in_progress() {
            self.end_lock(holder);
            if let Some(reservation) = self.account_of(holder).id {
                self.step.effects.push(Effect::LockFailed { reservation });
            }
        }
    }

    /// Whether the table of shared locks has room for one more locker of this page. Locks that were begun together
    /// could not count each other, so it is asked again for every page. O(sharers + reservations).
    fn shared_lock(&self, page: PageNumber) -> Step {
        let limit = self.limits.shared_locks.get();
        let locked = |index: EntryIndex| self.entries[index].is_shared_lock();
        if !self.sharers(page).any(locked) {
            return Step::Taken;
        }
        // A locked page on its way in may turn out to be paid by another.
        let unsettled: u32 = self.accounts.iter().map(|account| account.lists.locked_coming()).sum();
        if self.frames.unpaid >= limit {
            Step::Impossible
        } else if self.frames.unpaid + unsettled >= limit {
            Step::Stalled
        } else {
            Step::Taken
        }
    }

    fn lock_page(&mut self, holder: HolderIndex, page: PageNumber) -> Step {
        let step = self.shared_lock(page);
        if step != Step::Taken {
            return step;
        }
        if let Some(index) = self.find_entry(holder, page) {
            if !self.entries[index].marks.has(Marks::SETTLED) {
                return Step::Stalled;
            }
            self.relink(index, Place::Locked);
            self.settle_payment(page);
            return Step::Taken;
        }
        let account = self.account_of(holder);
        if !account.claims.is_empty() {
            return Step::Stalled;
        }
        if account.held.free.is_empty() {
            self.make_room(holder, 1);
        }
        if self.account_of(holder).held.free.is_empty() {
            let account = self.account_of(holder);
            let coming = !account.held.in_flight.is_empty() || account.unmanaged.owed > 0;
            return if coming { Step::Stalled } else { Step::Impossible };
        }
        let Some(index) = self.entries.make(holder, page) else {
            return Step::Impossible;
        };
        self.append_sharer(index);
        self.link(index, Place::Locked);
        self.give_frame(index);
        Step::Taken
    }

    /// Of the lockers of a page exactly one pays: its owner, where that locks it, else the first who conserves a
    /// frame for it. What the others set aside goes back to the pool.
    pub(crate) fn settle_payment(&mut self, page: PageNumber) {
        let owner = self.owner(page);
        let mut paid = self.entries[owner].is_shared_lock();
        let mut next = self.pages[page].first_sharer();
        while let Some(index) = next.some() {
            let entry = self.entries[index];
            next = entry.next_sharer;
            if index == owner || !entry.is_shared_lock() || !entry.marks.has(Marks::CONSERVES) {
                continue;
            }
            if !paid {
                paid = true;
                continue;
            }
            let frame = self.account(entry.holder).held.conserved.take_one();
            self.entries[index].marks.clear(Marks::CONSERVES);
            self.entries[index].marks.set(Marks::UNPAID);
            self.account(entry.holder).unpaid += 1;
            self.frames.unpaid += 1;
            self.give_pool(frame);
        }
    }

    /// From now on this locker pays.
    pub(crate) fn mark_paid(&mut self, index: EntryIndex) {
        let holder = self.entries[index].holder;
        self.entries[index].marks.clear(Marks::UNPAID);
        self.account(holder).unpaid -= 1;
        self.frames.unpaid -= 1;
    }

    /// Another locker of the page that pays.
    pub(crate) fn another_pays(&self, index: EntryIndex) -> bool {
        self.other_locker(index, |marks| !marks.has(Marks::UNPAID)).is_some()
    }

    fn other_locker(&self, index: EntryIndex, fits: impl Fn(Marks) -> bool) -> Option<EntryIndex> {
        self.sharers(self.entries[index].page).find(|&other| {
            let entry = &self.entries[other];
            other != index && entry.is_shared_lock() && entry.marks.has(Marks::SETTLED) && fits(entry.marks)
        })
    }

    /// Unlocks pages of a reservation; they are on its active list afterwards. Undesirable at run time (paper 000,
    /// section IV.B): where others keep them locked, frames must come from the pool. O(pages of the range).
    ///
    /// # Errors
    /// See [`UnlockError`]; no page and no reservation has changed then. To find the frames the pool may have begun to
    /// take back what it lent to firm reservations.
    pub fn unlock(
        &mut self,
        reservation: ReservationId,
        object: ObjectId,
        range: PageRange,
    ) -> Result<(), UnlockError> {
        let (holder, pages) = self.pages_to_unlock(reservation, object, range)?;
        let needed = self.frames_to_share(holder, pages.clone())?;
        self.begin(None);
        self.pay_debts();
        // Frames that were returned under `none` are in the pool, but promised: the pool would owe what it cannot have.
        let available = needed.min(self.unpromised());
        let available = self.pool_supply(available);
        if available < needed {
            self.end();
            return Err(UnlockError::PoolLacksFrames {
                missing: FrameCount::new(needed - available),
            });
        }
        for page in pages.map(PageNumber) {
            debug_assert!(
                self.pages[page].state == PageState::Resident,
                "a locked page is resident"
            );
            if let Some(index) = self.find_entry(holder, page) {
                self.unlock_page(index);
            }
        }
        self.end();
        Ok(())
    }

    /// Frames of the pool that [`unlock`](Self::unlock) would take. O(pages of the range).
    ///
    /// # Errors
    /// See [`UnlockError`].
    pub fn frames_to_unlock(
        &self,
        reservation: ReservationId,
        object: ObjectId,
        range: PageRange,
    ) -> Result<FrameCount, UnlockError> {
        let (holder, pages) = self.pages_to_unlock(reservation, object, range)?;
        self.frames_to_share(holder, pages).map(FrameCount::new)
    }

    fn pages_to_unlock(
        &self,
        reservation: ReservationId,
        object: ObjectId,
        range: PageRange,
    ) -> Result<(HolderIndex, Range<u32>), UnlockError> {
        let holder = self.holder_of_reservation(reservation).ok_or(UnlockError::Stale)?;
        let found = self.objects.get(object.index(), object.generation());
        let found = found.ok_or(UnlockError::Stale)?;
        let pages = Self::numbers(found, range).ok_or(UnlockError::BadRange)?;
        Ok((holder, pages))
    }

    /// Frames for which nobody would pay if the holder shared these pages again, all of which it has locked.
    fn frames_to_share(&self, holder: HolderIndex, pages: Range<u32>) -> Result<u32, UnlockError> {
        let mut needed = 0;
        for page in pages.map(PageNumber) {
            let index = self.find_entry(holder, page).filter(|&index| {
                let entry = &self.entries[index];
                entry.is_shared_lock() && entry.marks.has(Marks::SETTLED)
            });
            let index = index.ok_or(UnlockError::NotLocked)?;
            needed += u32::from(self.needs_frame_to_unlock(index));
        }
        Ok(needed)
    }

    fn needs_frame_to_unlock(&self, index: EntryIndex) -> bool {
        self.entries[index].marks.has(Marks::UNPAID)
            || self.other_locker(index, |marks| marks.has(Marks::UNPAID)).is_some()
    }

    /// Back to sharing under conservation: whoever of the two, this one or another locker, has set nothing aside,
    /// gets a frame from the pool for it.
    fn unlock_page(&mut self, index: EntryIndex) {
        let needy = if self.entries[index].marks.has(Marks::UNPAID) {
            Some(index)
        } else if self.another_pays(index) {
            None
        } else {
            self.other_locker(index, |marks| marks.has(Marks::UNPAID))
        };
        self.relink(index, Place::Active);
        if let Some(needy) = needy {
            let frame = self.accounts[0].held.free.take_one();
            let holder = self.entries[needy].holder;
            self.account(holder).held.conserved.put(frame);
            self.entries[needy].marks.set(Marks::CONSERVES);
            self.mark_paid(needy);
        }
    }
}
