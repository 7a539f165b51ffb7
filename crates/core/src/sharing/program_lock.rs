//! Pages that programs lock for themselves (`mlock`): resident until unlocked, on the locked list of their holder.
//!
//! The amount is admitted first, as `RLIMIT_MEMLOCK` is looked at: in a reservation all locks together leave
//! [`UNLOCKED_FRAMES`]. Programs without one have an eighth of the pool together, which no reservation is promised, and
//! leave as many of the unreserved frames. Then each page is locked where it is, as soon as it is there. Nobody else
//! pays for it and it pays for nobody: where a page is shared its holder goes on to own it or to conserve a frame, so
//! that an unlock never needs anything.

use crate::error::LockError;
use crate::id::{ObjectId, TaskId};
use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::sharing::UNLOCKED_FRAMES;
use crate::units::{FrameCount, PageCount, PageIndex};

/// Programs without a reservation lock one page of so many of the pool, together.
const POOL_PART: u32 = 8;

impl Memory {
    /// Admits that a task's program locks so many pages more. O(reservations).
    ///
    /// # Errors
    /// [`LockError::TooLarge`], [`LockError::PoolShare`], [`LockError::Stale`]; nothing has changed then.
    pub fn admit_program_lock(&mut self, task: TaskId, pages: PageCount) -> Result<(), LockError> {
        let holder = self.locker(task).ok_or(LockError::Stale)?;
        let account = self.account_of(holder);
        if !account.policy.is_promised() {
            let available = (self.frames.total / POOL_PART).saturating_sub(account.locks.admitted());
            // Who locks goes on to need frames, and is not the only one without a reservation.
            let available = available.min(self.unpromised().saturating_sub(UNLOCKED_FRAMES));
            if pages.get() > available {
                let available = FrameCount::new(available);
                return Err(LockError::PoolShare { available });
            }
        } else {
            let needed = account.capacity_to_lock(pages.get());
            if needed.get() > account.capacity {
                return Err(LockError::TooLarge { needed });
            }
        }
        self.account(holder).locks.admit(pages.get());
        Ok(())
    }

    /// Gives back what was admitted, as far as no page is locked for it any more. O(1).
    pub fn return_program_lock(&mut self, task: TaskId, pages: PageCount) {
        if let Some(holder) = self.locker(task) {
            self.account(holder).locks.give_back(pages.get());
        }
    }

    /// Locks a page that a task's program has locked, as far as that was admitted; whether it is locked now. A page
    /// that is not there, or that the task's holder does not have, is not. O(sharers of the page).
    pub fn lock_in_place(&mut self, task: TaskId, object: ObjectId, page: PageIndex) -> bool {
        let Some((holder, index)) = self.entry_of(task, object, page) else {
            return false;
        };
        if self.entries[index].place == Place::Locked {
            return true;
        }
        let locks = &self.account_of(holder).locks;
        let may = locks.by_programs() < locks.admitted() && self.entries[index].marks.has(Marks::SETTLED);
        if may {
            self.relink(index, Place::Locked);
            self.entries[index].marks.set(Marks::SELF_PAID);
            self.account(holder).locks.count_locked();
        }
        may
    }

    /// Ends what [`lock_in_place`](Self::lock_in_place) began: the page is on the active list. O(sharers of the page).
    pub fn unlock_in_place(&mut self, task: TaskId, object: ObjectId, page: PageIndex) {
        if let Some((_, index)) = self.entry_of(task, object, page)
            && self.entries[index].place == Place::Locked
            && self.entries[index].marks.has(Marks::SELF_PAID)
        {
            self.relink(index, Place::Active);
        }
    }

    fn locker(&self, task: TaskId) -> Option<HolderIndex> {
        let holder = self.tasks.get(task.index(), task.generation())?.holder;
        (!self.account_of(holder).has_ended()).then_some(holder)
    }

    /// What a task's holder has of a page that can be locked.
    fn entry_of(&self, task: TaskId, object: ObjectId, page: PageIndex) -> Option<(HolderIndex, EntryIndex)> {
        let holder = self.locker(task)?;
        let found = self.objects.get(object.index(), object.generation())?;
        let plain = found.base.is_none() && found.views == 0 && found.regime != Regime::Unmanaged;
        if !plain || page.get() >= found.pages {
            return None;
        }
        let index = self.find_entry(holder, PageNumber(found.first + page.get()))?;
        Some((holder, index))
    }
}
