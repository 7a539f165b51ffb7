//! Shared pages on their way out. Neighbours share system calls: one for a batch costs a quarter of one for each.
//!
//! While an address space is changing (fork, `mremap`, `munmap`), the kernel protects no page of it. What was copied
//! out then could still be written, and would be dropped with what was written. So such a page is put off: once the
//! events of its clients have been read it is protected again, wherever it is mapped by then. A page that cannot be
//! protected for as long as clients may leave orders unanswered stays, and another leaves in its place.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::objects::Content;
use crate::engine::orders::zaps::{Shown, Zap};
use freehold_core::effect::Holder;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::{End, Run, for_runs};
use freehold_linux::userfault::Userfault;
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, PageRange};

/// What is still to be done.
#[derive(Debug, Default)]
pub(in crate::engine) struct EvictionBatch {
    /// Mappings to be dropped by who has them, at the end of the step.
    pub(in crate::engine) zaps: Vec<Zap>,
    /// Pages of the batch that are to be copied out.
    writes: Vec<PageRef>,
    /// The server's own mappings show all of them.
    populated: bool,
    /// Pages of the batch of which a mapping could not be protected.
    refused: Vec<(ObjectId, u32)>,
    /// Pages to be copied out that could not be protected.
    put_off: Vec<Write>,
    /// Pages that have left memory to which clients may write by system calls.
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

impl EvictionBatch {
    /// Whether pages have left of which holes are to be made.
    pub(in crate::engine) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Whether pages wait to be protected again.
    pub(in crate::engine) fn has_put_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    fn is_refused(&self, page: PageRef) -> bool {
        self.refused.contains(&(page.object(), page.page().get()))
    }
}

impl Engine {
    /// A batch is about to be carried out by which these pages are written.
    pub(super) fn prepare_writes(&mut self, pages: &mut dyn Iterator<Item = PageRef>) {
        let mut writes = std::mem::take(&mut self.backing.eviction_batch.writes);
        writes.clear();
        writes.extend(pages.filter(|page| !self.is_private(*page) && !self.is_doomed(page.object())));
        self.backing.eviction_batch.populated = self.populate(&writes);
        self.backing.eviction_batch.writes = writes;
        self.backing.eviction_batch.refused.clear();
    }

    /// Pages are about to be copied out, or to be dropped: until then nobody may write them. In lockstep nobody may
    /// read them either: in the simulator they are unmapped.
    pub(super) fn protect_everywhere(&mut self, run: Run) {
        let mut eviction_batch = std::mem::take(&mut self.backing.eviction_batch);
        for shown in self.shown(run) {
            if shown.writable {
                let refused = self.protect(&shown).into_iter();
                eviction_batch
                    .refused
                    .extend(refused.map(|page| (run.first.object(), page)));
            }
            if self.io.lockstep.is_held() {
                eviction_batch.zaps.extend(shown.zaps());
            }
        }
        self.backing.eviction_batch = eviction_batch;
    }

    /// Writes a shared page of the batch to the store.
    pub(super) fn write_protected(&mut self, page: PageRef, holder: Holder) {
        if self.is_doomed(page.object()) {
            // Nobody will look for what it held.
            if !self.leaves_a_hole(page) {
                self.drop_frames(Run { first: page, count: 1 });
                self.end(page, Request::Evict, End::Done);
            }
            return;
        }
        let since = self.step.now;
        self.write_or_put_off(Write { page, holder, since }, self.backing.eviction_batch.populated);
    }

    fn write_or_put_off(&mut self, write: Write, populated: bool) {
        if !self.backing.eviction_batch.is_refused(write.page) {
            self.write_shared(write.page, write.holder, populated);
            return;
        }
        self.backing.eviction_batch.put_off.push(write);
    }

    /// Has pages protected again that could not be, and keeps those that have waited too long.
    pub(in crate::engine) fn protect_again(&mut self) {
        for write in std::mem::take(&mut self.backing.eviction_batch.put_off) {
            let Write { page, since, .. } = write;
            if self.step.now.get().saturating_sub(since.get()) > self.bound() {
                self.cannot_leave(page);
            } else if self.is_doomed(page.object()) {
                self.drop_evicted(page);
            } else {
                self.backing.eviction_batch.refused.clear();
                self.protect_everywhere(Run { first: page, count: 1 });
                self.write_or_put_off(write, false);
            }
        }
    }

    /// Has the pages in the server's own mappings, to be copied; whether all of them are.
    fn populate(&self, writes: &[PageRef]) -> bool {
        let place = |page: &PageRef| (page.object(), u64::from(page.page().get()));
        let mut all = true;
        for_runs(writes, place, |page, run| {
            let memory = self.object(page.object()).and_then(|object| object.memory());
            let range = PageRange::new(page.page().get() as usize, run);
            all &= memory.is_some_and(|memory| memory.populate(range).is_ok());
        });
        all
    }

    /// Protects pages where a client has them mapped; those that may still be written there.
    fn protect(&self, shown: &Shown) -> Vec<u32> {
        if self.protect_range(shown.client, shown.address, shown.pages) {
            return Vec::new();
        }
        // A hole in the middle is no reason to leave what is behind it.
        let refused = |page: &u32| !self.protect_range(shown.client, shown.address_of(*page), 1);
        (0..shown.pages)
            .filter(refused)
            .map(|page| shown.first + page)
            .collect()
    }

    /// Protects a run of pages; false where a part of it may still be written.
    fn protect_range(&self, client: ClientId, address: u64, pages: u32) -> bool {
        let userfault = self
            .client(client)
            .and_then(|client| client.userfaults.shared.as_deref());
        let range = usize::try_from(address)
            .ok()
            .and_then(|address| AddressRange::new(address, pages as usize * PAGE_SIZE));
        match (userfault, range) {
            (Some(userfault), Some(range)) => is_protected(userfault, range),
            _ => true,
        }
    }

    /// Notes that a page leaves memory to which clients may write by system calls, if it does: its frame is given back
    /// without the engine, and the core told then.
    pub(super) fn leaves_a_hole(&mut self, page: PageRef) -> bool {
        let content = self.object(page.object()).map(|object| &object.content);
        let apart = matches!(content, Some(Content::Region { .. })) && !self.io.lockstep.is_held();
        if apart {
            self.backing.eviction_batch.holes.push(page);
        }
        apart
    }

    /// Has holes made where pages have left such memory.
    pub(super) fn make_holes_left(&mut self) {
        if !self.backing.eviction_batch.holes.is_empty() {
            let mut holes = std::mem::take(&mut self.backing.eviction_batch.holes);
            self.make_holes(&mut holes);
            self.backing.eviction_batch.holes = holes;
        }
    }

    /// Gives the frames of pages back that have left.
    pub(super) fn drop_frames(&mut self, run: Run) {
        self.offer_victims(run);
        let memory = self.object(run.first.object()).and_then(|object| object.memory());
        let range = PageRange::new(run.first.page().get() as usize, run.count);
        if memory.is_some_and(|memory| memory.punch(range).is_err()) {
            self.notice("a frame could not be given back");
        }
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
