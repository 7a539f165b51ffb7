//! Memory objects come and go.

use core::ops::Range;

use crate::error::CreateError;
use crate::fault::runs::Run;
use crate::id::ObjectId;
use crate::index::{PageNumber, PinnedIndex};
use crate::limits::{ObjectKind, ObjectSpec, PageRange, Regime};
use crate::memory::Memory;
use crate::pages::object::{Base, Object};
use crate::pages::page::PageMarks;
use crate::units::PageCount;
use crate::view::PageState;

impl Memory {
    /// Makes a memory object; all its pages are absent. O(objects + pages of the object); where the table of pages has
    /// only gaps between others left, O(objects) for each object between the last one made and the next gap.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn create_object(&mut self, spec: ObjectSpec) -> Result<ObjectId, CreateError> {
        let object = Object {
            kind: spec.kind,
            regime: spec.regime,
            first: 0,
            pages: spec.pages.get(),
            first_taken: 0,
            base: None,
            mappings: 0,
            views: 0,
            resident: 0,
            removed: 0,
            pinner: PinnedIndex::NONE,
            run: Run::default(),
        };
        self.place_object(object)
    }

    /// Makes a copy-on-write view of a file object: as large, its pages the base's until they are written. The base
    /// cannot be written while it has views.
    ///
    /// # Errors
    /// [`CreateError::BadBase`] where the base is not a file object under conservation, and the others of
    /// [`create_object`](Self::create_object).
    pub fn create_view(&mut self, base: ObjectId) -> Result<ObjectId, CreateError> {
        let found = *self
            .objects
            .get(base.index(), base.generation())
            .ok_or(CreateError::Stale)?;
        if found.removed > 0 {
            return Err(CreateError::Stale);
        }
        if found.kind != ObjectKind::File || found.base.is_some() || found.regime != Regime::Conserve {
            return Err(CreateError::BadBase);
        }
        let written = (found.first..found.first + found.pages)
            .any(|page| self.pages[PageNumber(page)].marks.has(PageMarks::DIRTY));
        if written {
            return Err(CreateError::BadBase);
        }
        let slot = u16::try_from(base.index()).unwrap_or(u16::MAX);
        let base_of = Base {
            object: slot,
            first: found.first,
        };
        let view = Object {
            kind: ObjectKind::Private,
            base: Some(base_of),
            mappings: 0,
            views: 0,
            resident: 0,
            removed: 0,
            pinner: PinnedIndex::NONE,
            run: Run::default(),
            ..found
        };
        let id = self.place_object(view)?;
        if let Some(found) = self.objects.at_mut(base.index()) {
            found.views += 1;
        }
        Ok(id)
    }

    fn place_object(&mut self, mut object: Object) -> Result<ObjectId, CreateError> {
        let wanted = PageCount::new(object.pages);
        if wanted.is_zero() {
            return Err(CreateError::Empty);
        }
        if self.objects.next_vacant().is_none() {
            return Err(CreateError::TableFull);
        }
        let room = |from, taken: &dyn Fn(&Object) -> (u32, u32), limit| self.next_gap(from, object.pages, taken, limit);
        let pages = |other: &Object| (other.first, other.pages);
        // The next gap is found sooner than the lowest, behind all that is taken.
        object.first = self
            .gap_behind_last(object.pages)
            .or_else(|| room(self.pages.behind_last, &pages, self.pages.len()))
            .or_else(|| room(0, &pages, self.pages.len()))
            .ok_or(CreateError::PagesFull { wanted })?;
        if object.regime == Regime::Unmanaged {
            let rows = |other: &Object| {
                let pages = if other.regime == Regime::Unmanaged {
                    other.pages
                } else {
                    0
                };
                (other.first_taken, pages)
            };
            let limit = self.limits.compared_pages.get();
            object.first_taken = room(0, &rows, limit).ok_or(CreateError::PagesFull { wanted })?;
            let first = object.first_taken as usize;
            let end = first + object.pages as usize;
            self.pages.taken.resize(self.pages.taken.len().max(end), 0);
            self.pages.taken[first..end].fill(0);
        }
        let (slot, generation) = self.objects.insert(object).ok_or(CreateError::TableFull)?;
        let (state, marks) = match object.kind {
            ObjectKind::File => (PageState::Stored, PageMarks::STORED),
            ObjectKind::Private | ObjectKind::Shared => (PageState::Empty, PageMarks::NONE),
        };
        self.pages.assign(object.first, object.pages, slot, state, marks);
        self.pages.behind_last = object.first + object.pages;
        Ok(ObjectId::new(slot, generation))
    }

    /// The place behind the object made last, if that is free: the usual case costs one pass. O(objects).
    fn gap_behind_last(&self, count: u32) -> Option<u32> {
        let start = self.pages.behind_last;
        let end = start.checked_add(count).filter(|&end| end <= self.pages.len())?;
        let clash = |object: &Object| object.first < end && start < object.first + object.pages;
        (!self.objects.iter().any(|(_, object)| clash(object))).then_some(start)
    }

    /// The lowest place between `from` and `limit` where `count` rows are taken by no object. O(objects²).
    fn next_gap(&self, from: u32, count: u32, taken: &dyn Fn(&Object) -> (u32, u32), limit: u32) -> Option<u32> {
        let mut start = from;
        loop {
            let end = start.checked_add(count).filter(|&end| end <= limit)?;
            let clash = self
                .objects
                .iter()
                .map(|(_, object)| taken(object))
                .filter(|&(first, pages)| pages > 0 && first < end && start < first + pages)
                .map(|(first, pages)| first + pages)
                .max();
            match clash {
                Some(after) => start = after,
                None => return Some(start),
            }
        }
    }

    /// A range of an object as positions in the page table.
    pub(crate) fn numbers(object: &Object, range: PageRange) -> Option<Range<u32>> {
        let first = range.first.get();
        let end = first.checked_add(range.count.get())?;
        (!range.count.is_zero() && end <= object.pages).then(|| object.first + first..object.first + end)
    }
}
