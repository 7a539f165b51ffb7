//! The ends of fills and evictions.

use crate::effect::{FaultFailure, Source};
use crate::error::CompletionError;
use crate::fact::{PageRef, Request};
use crate::index::{HolderIndex, PageNumber, TaskIndex};
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::units::Instant;
use crate::view::PageState;

/// A page that did not leave.
struct Stayed {
    holder: HolderIndex,
    /// Who counted on its frame.
    claimant: HolderIndex,
}

impl Memory {
    /// A request was carried out: the page is filled, or it is in its store (or was clean) and its frame is free.
    /// O(sharers of the page × (sharers + tasks waiting)), and for each claim that has no frame yet a fault's batch.
    ///
    /// # Errors
    /// [`CompletionError::NotOutstanding`] where no such request is outstanding, [`CompletionError::Undrained`];
    /// nothing has changed then.
    pub fn handle_done(&mut self, now: Instant, page: PageRef, request: Request) -> Result<(), CompletionError> {
        let page = self.outstanding(page, request)?;
        self.begin(Some(now));
        match request {
            Request::Fill => self.filled(page),
            Request::Evict => self.evicted(page),
        }
        self.end();
        Ok(())
    }

    /// A request failed or timed out. Of a fill: whoever waits for the page gets an error, and it stays where it was.
    /// Of an eviction: the page is kept, dirty, where it was, and if a claim counted on its frame, the oldest gets an
    /// error. Same cost as [`handle_done`](Self::handle_done).
    ///
    /// # Errors
    /// [`CompletionError::NotOutstanding`] where no such request is outstanding, [`CompletionError::Undrained`];
    /// nothing has changed then.
    pub fn handle_failed(&mut self, now: Instant, page: PageRef, request: Request) -> Result<(), CompletionError> {
        let page = self.outstanding(page, request)?;
        self.begin(Some(now));
        match request {
            Request::Fill => self.fill_failed(page),
            Request::Evict => self.eviction_failed(page),
        }
        self.end();
        Ok(())
    }

    fn outstanding(&self, page: PageRef, request: Request) -> Result<PageNumber, CompletionError> {
        // A `PageRef` may come from another `Memory`: its page need not lie in the object here.
        let number = self
            .objects
            .get(page.object().index(), page.object().generation())
            .filter(|object| page.page().get() < object.pages)
            .map(|object| PageNumber(object.first + page.page().get()))
            .ok_or(CompletionError::NotOutstanding)?;
        match (request, self.pages[number].state) {
            (Request::Fill, PageState::Filling) | (Request::Evict, PageState::Leaving) if self.room_for_fact() => {
                Ok(number)
            }
            (Request::Fill, PageState::Filling) | (Request::Evict, PageState::Leaving) => {
                Err(CompletionError::Undrained)
            }
            _ => Err(CompletionError::NotOutstanding),
        }
    }

    fn filled(&mut self, page: PageNumber) {
        if self.is_forgotten(page) {
            return self.forget_filled(page);
        }
        let copied = matches!(self.source(page), Source::CopyOf(_));
        self.set_state(page, PageState::Resident);
        let found = &mut self.pages[page];
        found.marks.set(PageMarks::SEEN);
        found.marks.clear(PageMarks::DIRTY);
        if copied {
            // A copy is nowhere else, whether or not its writer is still there.
            found.marks.set(PageMarks::DIRTY);
        }
        self.count_resident(page, 1);
        self.settle_all(page);
        self.wake(page);
        self.call_sharers(page);
    }

    /// Pages that arrived can be evicted: claims that found nothing to evict look again, and so do those of the pool
    /// where they can be taken back.
    fn call_sharers(&mut self, page: PageNumber) {
        let mut next = self.pages[page].first_sharer();
        while let Some(index) = next.some() {
            next = self.entries[index].next_sharer;
            let holder = self.entries[index].holder;
            if !self.account_of(holder).claims.is_empty() || self.account_of(holder).has_ended() {
                self.call_for_service(holder);
            }
            let reclaimable = self.policy(holder).is_reclaimed() || self.account_of(holder).loans.borrowed() > 0;
            if reclaimable && self.pool_is_short() {
                self.call_for_service(HolderIndex::POOL);
            }
        }
    }

    fn evicted(&mut self, page: PageNumber) {
        let index = self.owner(page);
        let entry = self.entries[index];
        debug_assert!(entry.place == Place::Leaving);
        let found = &mut self.pages[page];
        if found.marks.has(PageMarks::DIRTY) {
            found.marks.clear(PageMarks::DIRTY);
            found.marks.set(PageMarks::STORED);
        }
        let stored = found.marks.has(PageMarks::STORED);
        self.set_state(page, if stored { PageState::Stored } else { PageState::Empty });
        if self.is_forgotten(page) {
            self.empty(page);
        }
        let frame = self.account(entry.holder).held.in_flight.take_one();
        if self.is_taken_back(index) {
            self.account(HolderIndex::POOL).kept = 0;
            let account = &mut self.accounts[entry.holder.slot()];
            self.credit.loans.end_return(&mut account.loans, 1);
            self.repay(entry.holder, frame);
            self.call_for_service(HolderIndex::POOL);
        } else {
            let account = self.account(entry.holder);
            account.kept = 0;
            account.leaving -= 1;
            account.held.free.put(frame);
        }
        let evicted_at = self.evicted_at(&entry);
        self.drop_entry(index);
        if let Some(age) = evicted_at {
            let found = &mut self.pages[page];
            if found.state == PageState::Stored && found.first_sharer().is_none() {
                found.set_evicted_at(age);
            }
        }
        self.call_for_service(entry.holder);
        if self.policy(entry.holder).is_promised() && !self.credit.debtors.is_empty() {
            self.call_for_service(HolderIndex::POOL);
        }
        self.refill_or_wake(page);
    }

    /// Somebody may want the page that has just gone: whoever has a frame for it fills it; tasks without a reservation
    /// look again.
    fn refill_or_wake(&mut self, page: PageNumber) {
        match self.sharer_with_frame(page) {
            Some(index) => self.start_fill(index),
            None => self.wake(page),
        }
    }

    fn fill_failed(&mut self, page: PageNumber) {
        if self.is_forgotten(page) {
            return self.forget_filled(page);
        }
        let stored = self.pages[page].marks.has(PageMarks::STORED);
        self.set_state(page, if stored { PageState::Stored } else { PageState::Empty });
        self.take_frames_back(page);
        self.refuse_waiters(page);
        self.forget_own(page);
    }

    /// A page does not come: the frames that were set aside for it go back, with the entries that they were for.
    pub(crate) fn take_frames_back(&mut self, page: PageNumber) {
        while let Some(index) = self.sharer_with_frame(page) {
            let entry = self.entries[index];
            let account = self.account(entry.holder);
            let frame = account.held.in_flight.take_one();
            account.held.free.put(frame);
            self.drop_entry(index);
            if entry.place == Place::Locked {
                self.fail_lock(entry.holder);
            }
            self.call_for_service(entry.holder);
        }
    }

    fn refuse_waiters(&mut self, page: PageNumber) {
        let mut next = self.waiters[self.bucket(page)];
        while let Some(task) = next.some() {
            let Some(found) = self.tasks.at(task.slot()) else {
                return;
            };
            next = found.next_waiter;
            if found.waiting.is_some_and(|waiting| waiting.page == page) {
                self.refuse(task, FaultFailure::Read);
            }
        }
        self.pages[page].marks.clear(PageMarks::WAITED);
    }

    fn eviction_failed(&mut self, page: PageNumber) {
        let Stayed { holder, claimant } = self.stay(page, false);
        self.give_up_for(claimant, FaultFailure::WriteBack);
        self.end_stay(page, holder);
    }

    /// Instead of [`handle_done`](Self::handle_done) for an eviction: the page cannot leave now, because something that
    /// the core does not know keeps it, input and output of its program for instance. It is active again, and another
    /// leaves for whoever counted on its frame; if none can, that one gets [`FaultFailure::NoFrame`]. Same cost.
    ///
    /// # Errors
    /// As [`handle_done`](Self::handle_done).
    pub fn handle_kept(&mut self, now: Instant, page: PageRef) -> Result<(), CompletionError> {
        let page = self.outstanding(page, Request::Evict)?;
        self.begin(Some(now));
        let Stayed { holder, claimant } = self.stay(page, true);
        self.account(claimant).kept += 1;
        let account = self.account_of(claimant);
        // Where every claim still has a frame coming, of the same batch, there is none to refuse: the next that stays
        // looks again. What is reclaimed for an admission comes to no claim.
        let provided = !self.reclaims_for(claimant) && !account.claims.is_empty() && account.uncommitted_supply() >= 0;
        if !provided && account.kept > self.evictable_for(claimant) {
            self.account(claimant).kept = 0;
            self.admission_reclaim.in_vain |= self.policy(claimant).is_reclaimed();
            self.give_up_for(claimant, FaultFailure::NoFrame);
        } else {
            self.call_for_service(claimant);
        }
        self.end_stay(page, holder);
        self.end();
        Ok(())
    }

    /// Pages that might leave for this holder: so many that stay in a row are all.
    fn evictable_for(&self, claimant: HolderIndex) -> u32 {
        let account = self.account_of(claimant);
        if account.policy.is_reclaimed() {
            return self.frames.total;
        }
        account.lists.active().len() + account.lists.inactive().len()
    }

    /// A page that was to leave is back on its holder's active list. `kept`: what took it back chooses another next.
    fn stay(&mut self, page: PageNumber, kept: bool) -> Stayed {
        let index = self.owner(page);
        let holder = self.entries[index].holder;
        self.set_state(page, PageState::Resident);
        self.count_resident(page, 1);
        let taken_back = self.is_taken_back(index);
        self.entries[index].marks.clear(Marks::TAKEN_BACK);
        let account = &mut self.accounts[holder.slot()];
        let frame = account.held.in_flight.take_one();
        account.held.owned.put(frame);
        if taken_back {
            self.credit.loans.end_return(&mut account.loans, 1);
        } else {
            account.leaving -= 1;
        }
        // If the holder itself wants the page again, it has it, locked where it is a lock that wants it.
        let mut place = Place::Active;
        if let Some(claim) = self.find_entry(holder, page) {
            if self.entries[claim].place == Place::Locked {
                place = Place::Locked;
            }
            self.withdraw_entry(claim);
        }
        self.entries[index].marks.set(Marks::SETTLED);
        if kept && taken_back && place == Place::Active {
            self.link_oldest(index);
        } else {
            self.link(index, place);
        }
        self.settle_all(page);
        if !self.is_forgotten(page) {
            // What it holds is still its content.
            self.wake(page);
        }
        self.call_sharers(page);
        let claimant = if taken_back { HolderIndex::POOL } else { holder };
        Stayed { holder, claimant }
    }

    /// Whether what comes to this holder is for an admission.
    fn reclaims_for(&self, claimant: HolderIndex) -> bool {
        self.policy(claimant).is_reclaimed() && self.admission_reclaim.frames > 0
    }

    /// Whoever waited for a frame that does not come gets an error.
    fn give_up_for(&mut self, claimant: HolderIndex, failure: FaultFailure) {
        let reclaimed = self.policy(claimant).is_reclaimed();
        let waits = !self.reclaims_for(claimant);
        let account = self.account_of(claimant);
        let supply = account.uncommitted_supply();
        if waits && !account.claims.is_empty() && supply < 0 {
            self.refuse_first_claim(claimant, failure);
        } else if reclaimed {
            self.refuse_debtor();
        } else if account.claims.is_empty() && supply <= 0 {
            // It wants a frame without a claim to it, and would have one page after the other tried for ever.
            self.fail_lock(claimant);
        }
        self.step.store_failed = true;
        self.call_for_service(claimant);
    }

    fn end_stay(&mut self, page: PageNumber, holder: HolderIndex) {
        if self.is_forgotten(page) {
            self.forget_resident(page);
        } else if self.account_of(holder).has_ended() {
            self.depart(self.owner(page));
        }
        self.call_for_service(holder);
    }

    pub(crate) fn task_holder(&self, task: TaskIndex) -> HolderIndex {
        self.tasks.at(task.slot()).map_or(HolderIndex::POOL, |task| task.holder)
    }
}
