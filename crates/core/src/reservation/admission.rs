//! Reservations come and go.

use crate::error::{AdmitError, RemoveError};
use crate::frames::Frames;
use crate::frames::account::{Account, Ending};
use crate::frames::holder::HolderPolicy;
use crate::id::ReservationId;
use crate::index::{EntryIndex, HolderIndex};
use crate::limits::ReservationSpec;
use crate::memory::Memory;
use crate::pages::entry::Marks;
use crate::pages::list::List;
use crate::units::{FrameCount, PageCount};

impl Memory {
    /// Admits a reservation: its frames are set aside at once, and nobody else can have them. O(1) where the pool has
    /// them free.
    ///
    /// # Errors
    /// See [`AdmitError`]. Only after [`AdmitError::InUse`] is there something to drain: frames being taken back. To be
    /// sure to get them, [`reclaim_for_admission`](Self::reclaim_for_admission) them first.
    pub fn admit(&mut self, spec: ReservationSpec) -> Result<ReservationId, AdmitError> {
        if spec.capacity.is_zero() {
            return Err(AdmitError::ZeroCapacity);
        }
        if !self.reservations.has_vacancy() {
            return Err(AdmitError::TableFull);
        }
        let frames = self.begin_admission(spec.capacity)?;
        let Some((slot, generation)) = self.reservations.insert(()) else {
            self.give_pool(frames);
            self.end();
            return Err(AdmitError::TableFull);
        };
        let id = ReservationId::new(slot, generation);
        let account = self.account(HolderIndex::reservation(usize::from(slot)));
        *account = Account::new(Some(id), HolderPolicy::of(spec.kind), spec.capacity.get());
        account.held.free.put(frames);
        self.end_admission();
        Ok(id)
    }

    /// The one test of whether frames can be had for good: takes them out of the pool, in a step that
    /// [`end_admission`](Self::end_admission) ends. Where they are refused the step has ended.
    pub(crate) fn begin_admission(&mut self, frames: FrameCount) -> Result<Frames, AdmitError> {
        let (wanted, available) = (frames.get(), self.unpromised());
        if wanted > available {
            return Err(AdmitError::Overcommitted {
                wanted: frames,
                available: FrameCount::new(available),
            });
        }
        self.begin(None);
        self.pay_debts();
        let supply = self.pool_supply(wanted);
        if supply < wanted {
            let coming = self.pool().leaving + self.credit.loans.returning();
            if coming < wanted - supply && self.room_for_batch() {
                self.evict_batch(HolderIndex::POOL);
            }
            self.end();
            return Err(AdmitError::InUse {
                missing: FrameCount::new(wanted - supply),
            });
        }
        Ok(self.accounts[0].held.free.take(wanted))
    }

    /// Whoever reclaimed frames for this has them.
    pub(crate) fn end_admission(&mut self) {
        if self.admission_reclaim.frames > 0 {
            self.admission_reclaim.frames = 0;
            self.call_for_service(HolderIndex::POOL);
        }
        self.end();
    }

    /// Frames promised to reservations.
    pub(crate) fn committed(&self) -> u32 {
        self.accounts[1..]
            .iter()
            .filter(|account| !account.has_ended())
            .map(Account::committed)
            .sum()
    }

    /// Frames on which tasks without a reservation live: promised to nobody, nor set aside. O(reservations).
    #[must_use]
    pub fn unreserved(&self) -> FrameCount {
        let promised = self.committed().saturating_add(self.frames.set_aside);
        FrameCount::new(self.frames.total.saturating_sub(promised))
    }

    /// Frames that the next reservation may have at most: those that are unreserved, neither pinned for good, nor
    /// locked by programs of the pool. O(reservations).
    #[must_use]
    pub fn admissible(&self) -> FrameCount {
        FrameCount::new(self.unpromised())
    }

    pub(crate) fn unpromised(&self) -> u32 {
        self.unreserved()
            .get()
            .saturating_sub(self.pinned.all)
            .saturating_sub(self.pool().locks.admitted())
    }

    /// Ends a reservation whose tasks are gone. Its locks end, sharers keep their pages, pages that nobody shares
    /// belong to the pool, and every frame returns there; those in flight as soon as they come back. O(pages on its
    /// lists).
    ///
    /// # Errors
    /// [`RemoveError::Busy`] while it has tasks or frames outside, [`RemoveError::Stale`].
    pub fn release(&mut self, reservation: ReservationId) -> Result<(), RemoveError> {
        self.release_partly(reservation, PageCount::new(u32::MAX)).map(drop)
    }

    /// Does what [`release`](Self::release) does for at most `most` pages of its lists. Returns whether none is left
    /// there, and all is done; until then it is to be called again, and the reservation is gone for everybody else.
    /// O(`most` + pages on their way in).
    ///
    /// # Errors
    /// As for that.
    pub fn release_partly(&mut self, reservation: ReservationId, most: PageCount) -> Result<bool, RemoveError> {
        let holder = self.releasable(reservation)?;
        self.begin(None);
        self.end_lock(holder);
        self.account(holder).ending = Ending::Parting;
        self.cancel_debt(holder);
        if self.depart_settled(holder, most.get()) {
            self.account(holder).ending = Ending::Closing;
        }
        let over = self.account_of(holder).ending == Ending::Closing;
        self.call_for_service(holder);
        self.end();
        Ok(over)
    }

    fn releasable(&self, reservation: ReservationId) -> Result<HolderIndex, RemoveError> {
        let found = self.reservations.get(reservation.index(), reservation.generation());
        found.ok_or(RemoveError::Stale)?;
        let holder = HolderIndex::reservation(reservation.index());
        let account = self.account_of(holder);
        if account.ending == Ending::Closing {
            return Err(RemoveError::Stale);
        }
        if account.tasks > 0 || !account.held.outside.frames.is_empty() {
            return Err(RemoveError::Busy);
        }
        Ok(holder)
    }

    /// Takes at most `most` pages that are there off a reservation that ends: the locked ones first, whose payment may
    /// pass on. Whether none is left.
    fn depart_settled(&mut self, holder: HolderIndex, most: u32) -> bool {
        for _ in 0..most {
            let Some(index) = self.next_to_depart(holder) else {
                return true;
            };
            self.depart(index);
        }
        self.next_to_depart(holder).is_none()
    }

    fn next_to_depart(&self, holder: HolderIndex) -> Option<EntryIndex> {
        let account = self.account_of(holder);
        let settled = self.first_settled(account.lists.locked());
        let settled = settled.or_else(|| self.first_settled(account.lists.active()));
        settled.or_else(|| account.lists.inactive().first())
    }

    fn first_settled(&self, list: List) -> Option<EntryIndex> {
        let mut next = list.first();
        core::iter::from_fn(move || {
            let index = next?;
            next = self.entries[index].next.some();
            Some(index)
        })
        .find(|&index| self.entries[index].marks.has(Marks::SETTLED))
    }

    /// Returns what an ended reservation still holds, and forgets it once nothing is in flight. Only called while it
    /// is served, so that it is in no queue when its slot is given up.
    pub(crate) fn close(&mut self, holder: HolderIndex) {
        let whole = self.account_of(holder).ending != Ending::Parting;
        if whole {
            self.depart_settled(holder, u32::MAX);
        }
        let account = &mut self.accounts[holder.slot()];
        let mut frames = account.held.free.take_all();
        if whole && account.held.in_flight.is_empty() {
            frames.put(account.held.conserved.take_all());
            frames.put(account.held.owned.take_all());
            let borrowed = account.loans.borrowed();
            self.credit.loans.repay(&mut account.loans, borrowed);
            *account = Account::new(None, HolderPolicy::Hard, 0);
            self.forget_taken(holder);
            self.reservations.remove(holder.slot() - 1);
        }
        self.give_pool(frames);
    }

    pub(crate) fn holder_of_reservation(&self, id: ReservationId) -> Option<HolderIndex> {
        self.reservations.get(id.index(), id.generation())?;
        let holder = HolderIndex::reservation(id.index());
        (!self.account_of(holder).has_ended()).then_some(holder)
    }
}
