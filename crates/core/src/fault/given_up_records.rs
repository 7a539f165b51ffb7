//! What the store has of pages that need it no longer, where it has no room left.

use crate::id::ObjectId;
use crate::index::PageNumber;
use crate::limits::ObjectKind;
use crate::memory::Memory;
use crate::pages::page::PageMarks;
use crate::units::PageIndex;
use crate::view::PageState;

impl Memory {
    /// The store would give up what it has of a page, for the room. Whether it may: the page is in a frame, and is
    /// written again before that is given up, or it holds nothing. A file's pages, and those on their way in or out,
    /// keep what they have. O(1).
    pub fn give_up_record(&mut self, object: ObjectId, page: PageIndex) -> bool {
        let Some(found) = self.objects.get(object.index(), object.generation()) else {
            return false;
        };
        if found.kind == ObjectKind::File || page.get() >= found.pages {
            return false;
        }
        let found = &mut self.pages[PageNumber(found.first + page.get())];
        match found.state {
            PageState::Resident => {
                if found.marks.has(PageMarks::STORED) {
                    found.marks.set(PageMarks::DIRTY);
                }
                true
            }
            PageState::Empty => true,
            PageState::Stored | PageState::Filling | PageState::Leaving => false,
        }
    }
}
