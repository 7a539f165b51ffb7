//! What one holder locks: by the eviction lock, and by programs for themselves.

use core::ops::Range;

use crate::index::PageNumber;

/// Locks of one holder.
#[derive(Debug)]
pub(crate) struct Locks {
    /// Of a lock that is bringing its pages in, those it has not come to, counted through all objects.
    coming: Option<Range<u32>>,
    /// Pages that programs may lock for themselves, as was admitted.
    admitted: u32,
    /// Pages that they do lock.
    by_programs: u32,
}

impl Locks {
    pub(crate) const NONE: Self = Self {
        coming: None,
        admitted: 0,
        by_programs: 0,
    };

    pub(crate) const fn is_in_progress(&self) -> bool {
        self.coming.is_some()
    }

    /// The next page that a lock in progress is to lock, if there is a lock and there is one.
    pub(crate) fn next(&self) -> Option<PageNumber> {
        let coming = self.coming.clone()?;
        (!coming.is_empty()).then_some(PageNumber(coming.start))
    }

    /// The last page of a lock in progress.
    pub(crate) fn last(&self) -> Option<PageNumber> {
        self.coming.as_ref().map(|coming| PageNumber(coming.end - 1))
    }

    /// Pages that a lock in progress is still to lock.
    pub(crate) const fn coming(&self) -> u32 {
        match &self.coming {
            Some(coming) => coming.end - coming.start,
            None => 0,
        }
    }

    pub(crate) fn begin(&mut self, pages: Range<u32>) {
        self.coming = Some(pages);
    }

    /// The next page is taken.
    pub(crate) fn advance(&mut self) {
        if let Some(coming) = &mut self.coming {
            coming.start += 1;
        }
    }

    /// A lock is in progress no more; whether one was.
    pub(crate) fn end(&mut self) -> bool {
        self.coming.take().is_some()
    }

    pub(crate) const fn admitted(&self) -> u32 {
        self.admitted
    }

    pub(crate) const fn by_programs(&self) -> u32 {
        self.by_programs
    }

    pub(crate) fn admit(&mut self, pages: u32) {
        self.admitted = self.admitted.saturating_add(pages);
    }

    /// Gives back what was admitted, as far as nothing is locked for it.
    pub(crate) fn give_back(&mut self, pages: u32) {
        self.admitted = self.admitted.saturating_sub(pages).max(self.by_programs);
    }

    pub(crate) fn count_locked(&mut self) {
        self.by_programs += 1;
    }

    pub(crate) fn count_unlocked(&mut self) {
        self.by_programs -= 1;
    }
}
