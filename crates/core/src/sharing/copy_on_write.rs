//! Copy-on-write views of file objects: pages are the base's, shared and conserved like any others, until a task
//! writes one. The copy takes the place of the base page on its holder's lists, so a write costs no victim whether the
//! holder is alone or in company (law 0): a shared base page gives back the frame conserved for it, and one that
//! nobody else has turns into the copy itself.

use crate::effect::{Effect, Resolution, Scope, UnmapReason};
use crate::fact::Access;
use crate::index::{EntryIndex, HolderIndex, PageNumber, TaskIndex};
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::task::Waiting;
use crate::view::PageState;

impl Memory {
    /// A fault on a page of a view that has no content of its own yet.
    pub(crate) fn fault_on_view(
        &mut self,
        task: TaskIndex,
        mapping: u16,
        page: PageNumber,
        base: PageNumber,
        access: Access,
    ) {
        if access == Access::Read {
            self.fault_on(task, mapping, base, access);
            return;
        }
        let holder = self.task_holder(task);
        let found = self.find_entry(holder, base);
        match found.map(|index| (index, self.entries[index])) {
            Some((_, entry)) if !entry.marks.has(Marks::SETTLED) => self.start_waiting(task, base, mapping, access),
            Some((index, entry)) if entry.place != Place::Locked => {
                if self.is_shared(index) {
                    self.unshare(index, UnmapReason::Copied);
                    self.copy_into_freed_frame(task, mapping, page, holder, access);
                } else {
                    self.take_base(task, mapping, page, index, access);
                }
            }
            // Not on the holder's lists, or locked there: the copy is a page like any other.
            _ => {
                self.pages[page].marks.set(PageMarks::OWN);
                self.start_waiting(task, page, mapping, access);
                self.claim(task, holder, page);
            }
        }
    }

    /// The frame that sharing the base page kept aside becomes the copy's.
    fn copy_into_freed_frame(
        &mut self,
        task: TaskIndex,
        mapping: u16,
        page: PageNumber,
        holder: HolderIndex,
        access: Access,
    ) {
        self.pages[page].marks.set(PageMarks::OWN);
        self.start_waiting(task, page, mapping, access);
        let Some(index) = self.entries.make(holder, page) else {
            return;
        };
        self.append_sharer(index);
        self.link(index, Place::Active);
        if let Some(waiting) = self.tasks.at_mut(task.slot()).and_then(|task| task.waiting.as_mut()) {
            waiting.claim = index;
        }
        self.give_frame(index);
    }

    /// The base page is clean and nobody else has it: its frame and content become the copy.
    fn take_base(&mut self, task: TaskIndex, mapping: u16, page: PageNumber, index: EntryIndex, access: Access) {
        let base = self.entries[index].page;
        self.emit_unmap(base, Scope::Everyone, UnmapReason::Copied);
        let effect = Effect::Take {
            from: self.page_ref(base),
            to: self.page_ref(page),
        };
        self.step.effects.push(effect);
        // Off its list while it still names the base page: a pinned entry is on a list of that page's pool.
        self.unlink(index);
        self.remove_sharer(index);
        let stored = self.pages[base].marks.has(PageMarks::STORED);
        self.set_state(base, if stored { PageState::Stored } else { PageState::Empty });
        self.count_resident(base, -1);
        self.entries[index].page = page;
        self.append_sharer(index);
        self.link(index, Place::Active);
        self.set_state(page, PageState::Resident);
        self.pages[page].marks.set(PageMarks::OWN);
        self.pages[page].marks.set(PageMarks::SEEN);
        self.count_resident(page, 1);
        let (since, claim) = (self.step.clock, EntryIndex::NONE);
        self.grant(
            task,
            &Waiting {
                page,
                mapping,
                access,
                since,
                claim,
                resolution: Resolution::Copy,
            },
        );
        self.wake(base);
    }
}
