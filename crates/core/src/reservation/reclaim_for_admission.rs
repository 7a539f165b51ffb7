//! Reclaim for admission: frames for a reservation that is about to be admitted, from the pool's pages and its loans.
//!
//! Nobody has a claim to these frames, but somebody may be using them. During the reclaim the pool lends nothing,
//! and tasks without a reservation wait, so the frames that come back stay. So `n` frames are there after at most `n`
//! requests and one batch, whatever other tasks do. Debts come first. A bounded number of requests is under way at a
//! time, so a step stays short, and tasks with a reservation fault as ever.

use crate::error::AdmitError;
use crate::index::HolderIndex;
use crate::memory::Memory;
use crate::units::FrameCount;

/// Requests for what is reclaimed are begun while fewer are under way: as many as keep a store and an agent busy.
const AT_ONCE: u32 = 128;

impl Memory {
    /// Begins to reclaim frames in the pool, for an [`admit`](Self::admit) that was refused because they are in
    /// use. Returns how many are missing still: they come as requests end, and `admit` takes them when all are there.
    ///
    /// Until then, or until [`stop_reclaim`](Self::stop_reclaim), nothing is lent to firm reservations and tasks
    /// without a reservation wait for frames. A second call changes what is wanted, and begins anew what failed.
    /// O(frames that are free or begun at once: at most 128 and a batch).
    ///
    /// # Errors
    /// [`AdmitError::Overcommitted`] where so many frames are promised to others.
    pub fn reclaim_for_admission(&mut self, wanted: FrameCount) -> Result<FrameCount, AdmitError> {
        let available = FrameCount::new(self.unpromised());
        if wanted > available {
            return Err(AdmitError::Overcommitted { wanted, available });
        }
        self.begin(None);
        self.admission_reclaim.frames = wanted.get();
        self.admission_reclaim.in_vain = false;
        self.call_for_service(HolderIndex::POOL);
        self.end();
        Ok(FrameCount::new(
            wanted.get().saturating_sub(self.pool().held.free.len()),
        ))
    }

    /// Gives the reclaim up: what is free may be lent again, and tasks without a reservation go on.
    pub fn stop_reclaim(&mut self) {
        self.begin(None);
        self.admission_reclaim.frames = 0;
        self.call_for_service(HolderIndex::POOL);
        self.end();
    }

    /// Begins requests until as many frames are free or on their way as are wanted and owed: first what was lent,
    /// then the pool's own pages. What is too much at once, or finds no room among the effects, is begun as others end.
    /// Where every page stays it is over until [`reclaim_for_admission`](Self::reclaim_for_admission) is called again.
    pub(crate) fn reclaim_more(&mut self) {
        let wanted = self.admission_reclaim.frames.saturating_add(self.credit.owed);
        while !self.step.store_failed && !self.admission_reclaim.in_vain && self.room_for_batch() {
            let under_way = self.pool().leaving + self.credit.loans.returning();
            let coming = self.pool().held.free.len() + under_way;
            let at_once = AT_ONCE.max(self.credit.owed);
            if coming >= wanted || under_way >= at_once {
                return;
            }
            let returning = self.credit.loans.returning();
            let taken = self.take_back((wanted - coming).min(at_once - under_way));
            if taken > 0 || self.credit.loans.returning() > returning {
                continue;
            }
            if self.pool().lists.listed_pages() + self.pinned.adaptive == 0 {
                return;
            }
            self.evict_batch(HolderIndex::POOL);
        }
    }
}
