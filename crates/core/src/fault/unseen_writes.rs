//! Pages that are written without a fault.

use crate::id::ObjectId;
use crate::index::PageNumber;
use crate::limits::ObjectKind;
use crate::memory::Memory;
use crate::pages::page::PageMarks;
use crate::units::PageIndex;
use crate::view::PageState;

impl Memory {
    /// A private page has been written, or may have been, and no fault told of it: it is written to the store before
    /// its frame is given up. O(1).
    ///
    /// Returns whether that holds. It does not for a page that is in no frame, or none of private memory, and not for
    /// one on its way out that is not being written: such an eviction has to end with
    /// [`handle_kept`](Self::handle_kept) first.
    pub fn handle_written(&mut self, object: ObjectId, page: PageIndex) -> bool {
        let Some(found) = self.objects.get(object.index(), object.generation()) else {
            return false;
        };
        if found.kind != ObjectKind::Private || page.get() >= found.pages {
            return false;
        }
        let found = &mut self.pages[PageNumber(found.first + page.get())];
        match found.state {
            PageState::Resident => {
                found.marks.set(PageMarks::DIRTY);
                true
            }
            PageState::Leaving => found.marks.has(PageMarks::DIRTY),
            PageState::Empty | PageState::Stored | PageState::Filling => false,
        }
    }
}
