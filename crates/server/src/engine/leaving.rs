//! Shared pages on their way out. Neighbours share system calls: one for a batch costs a quarter of one for each.
//!
//! Protecting and copying wait until the core wants nothing more at once, dropping until something is to be brought in
//! or the step ends. Nobody sees a difference: a page that leaves is nobody's until its eviction has ended.
//!
//! While an address space is changing (fork, `mremap`, `munmap`), the kernel protects no page of it. What was copied
//! out then could still be written, and would be dropped with what was written. So such a page is put off: once the
//! events of its clients have been read it is protected again, wherever it is mapped by then. A page that cannot be
//! protected for as long as clients may leave orders unanswered stays, and another leaves in its place.

use crate::engine::rows::Content;
use crate::engine::{Engine, Zap};
use freehold_core::effect::Holder;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::{End, for_runs};
use freehold_linux::userfault::Userfault;
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, PageRange};

/// What is still to be done.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Mappings to be dropped by who has them, at the end of the step.
    pub(super) zaps: Vec<Zap>,
    /// Mappings to be protected against writes.
    pub(super) protects: Vec<Zap>,
    /// Pages to be copied out, when those are protected.
    writes: Vec<Write>,
    /// Pages that could not be protected.
    put_off: Vec<Write>,
    /// Pages whose frames go.
    drops: Vec<(ObjectId, u32)>,
    /// The same of memory that clients may write to by system calls.
    holes: Vec<PageRef>,
}

/// A page to be copied out.
#[derive(Clone, Copy, Debug)]
struct Write {
    page: PageRef,
    holder: Holder,
    /// When it was to be protected at first.
    since: Instant,
}

impl Leaving {
    /// Whether pages have left of which holes are to be made.
    pub(super) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Whether pages wait to be protected again.
    pub(super) fn has_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }
}

impl Engine {
    /// A page is to be written to the store.
    pub(super) fn write_soon(&mut self, page: PageRef, holder: Holder) {
        let since = self.now;
        self.leaving.writes.push(Write { page, holder, since });
    }

    /// A page has left: its frame goes, for everybody, and the core is told.
    pub(super) fn drop_evicted(&mut self, page: PageRef) {
        let content = self.object(page.object()).map(|object| &object.content);
        if matches!(content, Some(Content::Region { .. })) && !self.pace.is_held() {
            self.leaving.holes.push(page);
            return;
        }
        self.leaving.drops.push((page.object(), page.page().get()));
        self.end(page, Request::Evict, End::Done);
    }

    /// Protects what is to be protected, and copies out what is to be written.
    pub(super) fn write_out(&mut self) {
        if self.leaving.protects.is_empty() && self.leaving.writes.is_empty() {
            return;
        }
        let refused = self.protect_all();
        let mut writes = std::mem::take(&mut self.leaving.writes);
        if !refused.is_empty() {
            self.put_off_writes(&mut writes, &refused);
        }
        let populated = self.populate(&writes);
        for write in writes.drain(..) {
            self.write_shared(write.page, write.holder, populated);
        }
        self.leaving.writes = writes;
    }

    /// Protects what is to be protected; the pages of which a mapping is not, sorted.
    fn protect_all(&mut self) -> Vec<(ObjectId, u32)> {
        let mut protects = std::mem::take(&mut self.leaving.protects);
        protects.sort_unstable();
        let mut refused = Vec::new();
        for_runs(&protects, Zap::place, |zap, run| {
            if self.protect(zap, run) {
                return;
            }
            // A hole in the middle is no reason to leave what is behind it.
            for page in 0..run as u64 {
                let address = zap.address + page * crate::PAGE;
                let zap = Zap { address, ..*zap };
                if !self.protect(&zap, 1) {
                    refused.extend(self.shown_at(&zap));
                }
            }
        });
        refused.sort_unstable();
        protects.clear();
        self.leaving.protects = protects;
        refused
    }

    /// The page that a mapping shows.
    fn shown_at(&self, zap: &Zap) -> Option<(ObjectId, u32)> {
        let segment = self.client(zap.client)?.space.get(&zap.segment)?;
        Some((segment.object, segment.page_at(zap.segment, zap.address)))
    }

    /// Puts off those of `writes` that could be written meanwhile.
    fn put_off_writes(&mut self, writes: &mut Vec<Write>, refused: &[(ObjectId, u32)]) {
        let place = |write: &Write| (write.page.object(), write.page.page().get());
        let late = writes.extract_if(.., |write| refused.binary_search(&place(write)).is_ok());
        self.leaving.put_off.extend(late);
        if !self.in_round {
            // Pager threads that sleep do not know of it.
            self.ends.ring(0);
        }
    }

    /// Has pages protected again that could not be, and keeps those that have waited too long.
    pub(super) fn protect_again(&mut self) {
        for write in std::mem::take(&mut self.leaving.put_off) {
            let Write { page, since, .. } = write;
            if self.now.get().saturating_sub(since.get()) > self.bound() {
                self.cannot_leave(page);
            } else if self.is_doomed(page.object()) {
                self.drop_evicted(page);
            } else {
                self.protect_everywhere(page);
                self.leaving.writes.push(write);
            }
        }
    }

    /// Has the pages in the server's own mappings, to be copied; whether all of them are.
    fn populate(&self, writes: &[Write]) -> bool {
        let place = |write: &Write| (write.page.object(), u64::from(write.page.page().get()));
        let mut all = true;
        for_runs(writes, place, |Write { page, .. }, run| {
            let memory = self.object(page.object()).and_then(|object| object.memory());
            let range = PageRange::new(page.page().get() as usize, run);
            all &= memory.is_some_and(|memory| memory.populate(range).is_ok());
        });
        all
    }

    /// Protects a run of pages; false where a part of it may still be written.
    fn protect(&self, zap: &Zap, pages: usize) -> bool {
        let userfault = self.client(zap.client).and_then(|client| client.shared.as_deref());
        let range = usize::try_from(zap.address)
            .ok()
            .and_then(|address| AddressRange::new(address, pages * PAGE_SIZE));
        match (userfault, range) {
            (Some(userfault), Some(range)) => is_protected(userfault, range),
            _ => true,
        }
    }

    /// Gives the frames back of what has left.
    pub(super) fn drop_frames(&mut self) {
        if !self.leaving.holes.is_empty() {
            let mut holes = std::mem::take(&mut self.leaving.holes);
            self.make_holes(&mut holes);
            self.leaving.holes = holes;
        }
        if self.leaving.drops.is_empty() {
            return;
        }
        let mut drops = std::mem::take(&mut self.leaving.drops);
        drops.sort_unstable();
        self.offer_victims(&drops);
        let mut failed = false;
        for_runs(
            &drops,
            |(object, page)| (*object, u64::from(*page)),
            |&(object, page), run| {
                let memory = self.object(object).and_then(|object| object.memory());
                let range = PageRange::new(page as usize, run);
                failed |= memory.is_some_and(|memory| memory.punch(range).is_err());
            },
        );
        if failed {
            self.notice("a frame could not be given back");
        }
        drops.clear();
        self.leaving.drops = drops;
    }
}

/// Whether no page of a range can be written any more without its being told.
fn is_protected(userfault: &Userfault, range: AddressRange) -> bool {
    match userfault.write_protect(range, true) {
        Ok(()) | Err(Errno::SRCH) => true,
        // What is not mapped any more cannot be written either; of a run, the rest may be.
        Err(Errno::NOENT) => range.length() == PAGE_SIZE,
        Err(_) => false,
    }
}
