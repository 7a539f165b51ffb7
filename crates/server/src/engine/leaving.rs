//! Shared pages on their way out. Neighbours share system calls: one for a batch costs a quarter of one for each.
//!
//! Protecting and copying wait until the core wants nothing more at once, dropping until something is to be brought in
//! or the step ends. Nobody sees a difference: a page that leaves is nobody's until its eviction has ended.

use crate::engine::{Engine, Zap};
use freehold_core::effect::Holder;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_driver::for_runs;
use freehold_linux::{AddressRange, PAGE_SIZE, PageRange};

/// What is still to be done.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Mappings to be dropped by who has them, at the end of the step.
    pub(super) zaps: Vec<Zap>,
    /// Mappings to be protected against writes.
    pub(super) protects: Vec<Zap>,
    /// Pages to be copied out, when those are protected.
    writes: Vec<(PageRef, Holder)>,
    /// Pages whose frames go.
    drops: Vec<(ObjectId, u32)>,
}

impl Engine {
    /// A page is to be written to the store.
    pub(super) fn write_soon(&mut self, page: PageRef, holder: Holder) {
        self.leaving.writes.push((page, holder));
    }

    /// A page's frame goes, for everybody.
    pub(super) fn drop_soon(&mut self, page: PageRef) {
        self.leaving.drops.push((page.object(), page.page().get()));
    }

    /// Protects what is to be protected, and copies out what is to be written.
    pub(super) fn write_out(&mut self) {
        if self.leaving.protects.is_empty() && self.leaving.writes.is_empty() {
            return;
        }
        let mut protects = std::mem::take(&mut self.leaving.protects);
        protects.sort_unstable();
        for_runs(&protects, Zap::place, |zap, run| self.protect(zap, run));
        protects.clear();
        self.leaving.protects = protects;
        let mut writes = std::mem::take(&mut self.leaving.writes);
        let populated = self.populate(&writes);
        for (page, holder) in writes.drain(..) {
            self.write_shared(page, holder, populated);
        }
        self.leaving.writes = writes;
    }

    /// Has the pages in the server's own mappings, to be copied; whether all of them are.
    fn populate(&self, writes: &[(PageRef, Holder)]) -> bool {
        let place = |(page, _): &(PageRef, Holder)| (page.object(), u64::from(page.page().get()));
        let mut all = true;
        for_runs(writes, place, |(page, _), run| {
            let memory = self.object(page.object()).and_then(|object| object.memory());
            let range = PageRange::new(page.page().get() as usize, run);
            all &= memory.is_some_and(|memory| memory.populate(range).is_ok());
        });
        all
    }

    fn protect(&self, zap: &Zap, pages: usize) {
        let userfault = self.client(zap.client).and_then(|client| client.shared.as_ref());
        let range = usize::try_from(zap.address)
            .ok()
            .and_then(|address| AddressRange::new(address, pages * PAGE_SIZE));
        if let (Some(userfault), Some(range)) = (userfault, range) {
            // What is not mapped any more cannot be written either.
            let _ = userfault.write_protect(range, true);
        }
    }

    /// Gives the frames back of what has left.
    pub(super) fn drop_frames(&mut self) {
        if self.leaving.drops.is_empty() {
            return;
        }
        let mut drops = std::mem::take(&mut self.leaving.drops);
        drops.sort_unstable();
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
