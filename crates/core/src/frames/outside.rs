//! The core's door: frames that leave the page lists, for transient memory, device memory and the victim cache.
//!
//! A reservation's frames leave through [`Memory::take_outside`] and come back through [`Memory::return_outside`]. They
//! stay the reservation's: both conservation laws count them (law 1). What a firm reservation has outside beyond its
//! own part is borrowed, and recalled like everything that was lent. A recall of `n` frames is one [`Effect::Recall`]
//! or several, emitted in the step that wants them as far as its effects have room. Who uses the frames has the bound
//! that the engine gave for returning them; after it the engine ends that client and returns its frames (law 9).
//!
//! Frames that leave for good, the memory of devices, are set aside: [`Memory::set_aside`].

use crate::effect::Effect;
use crate::error::{AdmitError, ReturnOutsideError, TakeOutsideError};
use crate::frames::Frames;
use crate::id::ReservationId;
use crate::index::HolderIndex;
use crate::memory::Memory;
use crate::units::FrameCount;

impl Memory {
    /// Takes free frames of a reservation off the page lists, for somebody outside of the core. A firm reservation
    /// borrows what it lacks, under the terms on which it borrows for its pages. Of its own capacity its locks and 8
    /// frames stay for its pages as long as it has tasks or locks. O(1), and one batch of evictions where its own pages
    /// use the frames.
    ///
    /// # Errors
    /// See [`TakeOutsideError`]: nothing has left then. Only after [`TakeOutsideError::InUse`] is there something to
    /// drain: pages of the reservation itself that leave.
    pub fn take_outside(&mut self, reservation: ReservationId, frames: FrameCount) -> Result<(), TakeOutsideError> {
        let holder = self.holder_of_reservation(reservation).ok_or(TakeOutsideError::Stale)?;
        self.begin(None);
        let taken = self.take_from(holder, frames.get());
        if taken.is_ok() && self.pool_is_short() && self.account_of(holder).loans.borrowed() > 0 {
            self.call_for_service(HolderIndex::POOL);
        }
        self.end();
        taken
    }

    fn take_from(&mut self, holder: HolderIndex, wanted: u32) -> Result<(), TakeOutsideError> {
        let account = self.account_of(holder);
        let available = account.left_for_pages().saturating_sub(account.kept_for_pages());
        let at_hand = if account.claims.is_empty() {
            account.held.free.len()
        } else {
            0
        };
        let (borrows, leaving) = (account.policy.borrows(), account.leaving);
        let own = wanted.min(available).min(at_hand);
        let missing = FrameCount::new(wanted - own);
        let borrowed = if missing.is_zero() {
            Frames::none()
        } else if borrows && self.may_lend(missing.get()) {
            self.lend(holder, missing.get())
        } else if wanted <= available {
            if leaving < missing.get() && self.room_for_batch() {
                self.evict_batch(holder);
            }
            return Err(TakeOutsideError::InUse { missing });
        } else if borrows {
            let missing = FrameCount::new(missing.get().saturating_sub(self.pool().held.free.len()).max(1));
            return Err(TakeOutsideError::NotLent { missing });
        } else {
            let available = FrameCount::new(available);
            return Err(TakeOutsideError::Kept { available });
        };
        let account = self.account(holder);
        let mut frames = account.held.free.take(own);
        frames.put(borrowed);
        account.held.outside.frames.put(frames);
        Ok(())
    }

    /// Takes back frames that were [taken outside](Self::take_outside). Those that are recalled go to the pool first,
    /// the others are free for the reservation. Nobody outside touches any of them any more. O(1), and what whoever
    /// waits for them does.
    ///
    /// # Errors
    /// [`ReturnOutsideError`]: nothing has come back then.
    pub fn return_outside(&mut self, reservation: ReservationId, frames: FrameCount) -> Result<(), ReturnOutsideError> {
        let holder = self
            .holder_of_reservation(reservation)
            .ok_or(ReturnOutsideError::Stale)?;
        let outside = self.account_of(holder).held.outside.frames.count();
        if frames > outside {
            return Err(ReturnOutsideError::NotOutside { outside });
        }
        self.begin(None);
        let account = &mut self.accounts[holder.slot()];
        let mut back = account.held.outside.frames.take(frames.get());
        let recalled = account.held.outside.recalled.min(frames.get());
        account.held.outside.recalled -= recalled;
        self.credit.loans.end_return(&mut account.loans, recalled);
        let repaid = back.take(recalled);
        #[cfg(feature = "canary")]
        if self.step.planted == Some(crate::canary::Planted::ForgottenFrame) {
            drop(back.take(back.len().min(1)));
        }
        let account = self.account(holder);
        account.held.free.put(back);
        self.repay(holder, repaid);
        self.call_for_service(HolderIndex::POOL);
        self.call_for_service(holder);
        self.end();
        Ok(())
    }

    /// Asks back frames that a firm reservation has outside, at most `most`. Returns how many.
    pub(crate) fn recall_outside(&mut self, holder: HolderIndex, most: u32) -> u32 {
        let account = &mut self.accounts[holder.slot()];
        let frames = most.min(account.loans.kept()).min(account.recallable());
        let Some(reservation) = account.id.filter(|_| frames > 0) else {
            return 0;
        };
        account.held.outside.recalled += frames;
        self.credit.loans.begin_return(&mut account.loans, frames);
        let frames = FrameCount::new(frames);
        self.step.effects.push(Effect::Recall { reservation, frames });
        frames.get()
    }

    /// Takes frames out of the pool for good, by the same test as [`admit`](Self::admit): no reservation can be
    /// promised any of them until they are [put back](Self::put_back). The token is the frames: whoever owns it holds
    /// them (law 1).
    ///
    /// # Errors
    /// As for `admit`: [`AdmitError::ZeroCapacity`], [`AdmitError::Overcommitted`], [`AdmitError::InUse`].
    pub fn set_aside(&mut self, frames: FrameCount) -> Result<Frames, AdmitError> {
        if frames.is_zero() {
            return Err(AdmitError::ZeroCapacity);
        }
        let taken = self.begin_admission(frames)?;
        self.frames.set_aside += taken.len();
        self.end_admission();
        Ok(taken)
    }

    /// Gives frames that were [set aside](Self::set_aside) back to the pool. Those of another `Memory` are refused, as
    /// far as that shows: where more come back than were set aside here.
    ///
    /// # Errors
    /// The frames, unchanged.
    pub fn put_back(&mut self, frames: Frames) -> Result<(), Frames> {
        if frames.len() > self.frames.set_aside {
            return Err(frames);
        }
        self.begin(None);
        self.frames.set_aside -= frames.len();
        self.give_pool(frames);
        self.end();
        Ok(())
    }
}
