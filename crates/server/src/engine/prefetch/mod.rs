//! Neighbours of a page that was faulted on, brought along from frames that are free anyway.
//!
//! Only for programs: what the library's clients touch is theirs to say, page by page. One system call for a run.

mod bits;
mod cluster;
mod deferred;
mod startup_history;
mod streams;
mod wanted;

use crate::engine::Engine;
use crate::engine::faults::Which;
use crate::engine::faults::fault_completion::page_range;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::objects::Content;
use crate::engine::objects::file_reads::Gathered;
use crate::engine::private_memory::Where;
use crate::engine::spaces::Segment;
use freehold_core::Foresight;
use freehold_core::effect::{Protection, Resolution};
use freehold_core::fact::PageRef;
use freehold_core::id::{MappingId, ObjectId};
use freehold_core::limits::PageRange as CoreRange;
use freehold_core::units::{PageCount, PageIndex};
use freehold_linux::userfault::{Stopped, Userfault};
use freehold_linux::{AddressRange, Errno, PAGE_SIZE};
use std::ops::Range;
pub(crate) use wanted::Prefetch;

use deferred::DeferredPrefetch;
pub(super) use startup_history::{Brought, StartupHistory};
use streams::Taken;
pub(super) use streams::{Streams, Stretch};

/// Pages that are found mapped already before a run is given up.
const FOUND: u32 = 4;

/// A fault whose neighbours are to be brought along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    client: ClientId,
    mapping: MappingId,
    object: ObjectId,
    page: u32,
    address: u64,
    write: bool,
    kind: Kind,
}

/// What the neighbours are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// In no frame yet, or of a file.
    New,
    /// Of private memory, read ahead: in the transfer memory.
    Read,
    /// Of private memory, in the transfer memory, and wanted next the last time.
    Onwards,
}

impl Neighbours {
    /// What is not about a fault, but about a segment of a file.
    fn at_start_of(client: ClientId, start: u64, segment: &Segment) -> Self {
        Self {
            client,
            mapping: segment.mapping,
            object: segment.object,
            page: segment.first,
            address: start,
            write: false,
            kind: Kind::New,
        }
    }

    /// Which page of the same object is there, in the same segment.
    fn page_of(&self, address: u64) -> Option<u32> {
        // Where page 0 would be, which need not be any address.
        let first = self.address.wrapping_sub(u64::from(self.page) * crate::PAGE);
        u32::try_from(address.wrapping_sub(first) / crate::PAGE).ok()
    }

    /// Where another page of the same object is, in the same segment.
    fn address_of(&self, page: u32) -> u64 {
        let page_at = |page: u32| u64::from(page) * crate::PAGE;
        self.address + page_at(page) - page_at(self.page)
    }
}

/// What the engine keeps for that.
#[derive(Debug, Default)]
pub(super) struct Prefetcher {
    /// The fault that was served last: client, address, whether it writes.
    pub(super) last_fault: Option<(ClientId, u64, bool)>,
    /// Faults whose neighbours are to come along.
    pub(super) neighbours: Vec<Neighbours>,
    /// Pages that may be mapped ahead, in order.
    pub(super) run: Vec<(u32, Protection)>,
    /// Pages of files that are on their way.
    pub(super) gathered: Gathered,
    /// What is to follow, for each pager thread.
    deferred: Vec<Option<DeferredPrefetch>>,
}

impl Prefetcher {
    /// For so many pager threads.
    pub(super) fn new(pagers: usize) -> Self {
        Self {
            deferred: (0..pagers).map(|_| None).collect(),
            ..Self::default()
        }
    }
}

impl Engine {
    /// A fault ends so: are its neighbours to come along?
    pub(super) fn consider_neighbours(&mut self, mapping: MappingId, page: PageRef, resolution: Resolution) {
        let Some(object) = self.object(page.object()) else {
            return;
        };
        let kind = match (&object.content, resolution) {
            (Content::Private { .. }, Resolution::ZeroFill)
            | (Content::File { .. }, Resolution::Soft | Resolution::FileRead) => Some(Kind::New),
            (Content::Private { client, .. }, Resolution::Soft | Resolution::SwapIn { .. }) => self.around(*client),
            _ => None,
        };
        let Some((kind, (client, address, write))) = kind.zip(self.prefetcher.last_fault) else {
            return;
        };
        if self
            .client(client)
            .is_some_and(|client| client.process.role == ClientRole::Program)
        {
            self.prefetcher.neighbours.push(Neighbours {
                client,
                mapping,
                object: page.object(),
                page: page.page().get(),
                address,
                write,
                kind,
            });
        }
    }

    /// Brings the neighbours of a fault along.
    pub(super) fn take_neighbours(&mut self, near: Neighbours) {
        match near.kind {
            Kind::New => self.take_new(&near),
            Kind::Read => self.map_around(&near),
            Kind::Onwards => self.map_onwards(&near),
        }
    }

    fn take_new(&mut self, near: &Neighbours) {
        if self.has_private(near.object) && self.core.is_short(near.mapping) {
            self.take_next(near);
            return;
        }
        let Some((taken, private)) = self.window(near) else {
            return;
        };
        let Some(pages) = self.pages_of_object(near, taken.now) else {
            return;
        };
        self.prefetcher.run.clear();
        let parts = [pages.start..near.page, near.page + 1..pages.end];
        if private {
            let mut parts = parts.into_iter().filter(|part| !part.is_empty());
            let all = parts.try_for_each(|part| self.take_up(near, part, Foresight::Guess));
            self.map_run(near, true);
            if let Some((way, later)) = taken.later
                && all.is_some()
                && self.are_mapped(near, &pages)
            {
                self.put_off(near, way, later);
            }
        } else {
            let mut parts = parts.into_iter().filter(|part| !part.is_empty());
            let _ = parts.try_for_each(|part| self.take_up(near, part, Foresight::Guess));
            self.map_run(near, false);
            self.map_used(near, &pages);
        }
    }

    /// Takes up new memory where the reservation has no frames for guesses: the next of a stream.
    fn take_next(&mut self, near: &Neighbours) {
        let Some((streams, bounds)) = self.streams(near) else {
            return;
        };
        let Some(stretch) = streams.follow_closely(near.address, bounds) else {
            return;
        };
        let Some(pages) = self.pages_of_object(near, stretch) else {
            return;
        };
        self.prefetcher.run.clear();
        let _ = self.take_up(near, near.page + 1..pages.end, Foresight::Stream);
        self.map_run(near, true);
        let is_there = |page: &u32| self.place_at(near.object, *page) == Some(Where::Client);
        let come = pages.start + u32::try_from(pages.take_while(is_there).count()).unwrap_or(0);
        let part = Stretch {
            low: near.address,
            high: near.address_of(come),
        };
        if let Some((streams, _)) = self.streams(near) {
            streams.goes_on(near.address, part);
        }
    }

    /// Whether all of some pages are where the program has them. Whatever has kept one page from being mapped keeps
    /// others, and past a hole there may be memory that is not the program's.
    fn are_mapped(&self, near: &Neighbours, pages: &Range<u32>) -> bool {
        let mut pages = pages.clone();
        pages.all(|page| self.place_at(near.object, page) == Some(Where::Client))
    }

    /// Has the core take up pages and grant those that may be mapped; `None` where it has no more.
    fn take_up(&mut self, near: &Neighbours, pages: Range<u32>, why: Foresight) -> Option<()> {
        let private = self.has_private(near.object);
        let range = CoreRange {
            first: PageIndex::new(pages.start),
            count: PageCount::new(pages.end - pages.start),
        };
        self.core.fill_ahead(self.step.now, near.mapping, range, why).ok()?;
        self.gather_reads();
        self.drain();
        self.read_gathered();
        while let Some(ended) = self.step.completions.next_end() {
            self.tell(ended);
            self.drain();
        }
        for page in pages {
            let fresh = self.place_at(near.object, page) == Some(Where::Blank);
            if private && !fresh {
                continue;
            }
            let (at, write) = (PageIndex::new(page), near.write && private);
            self.core.map_ahead(self.step.now, near.mapping, at, write).ok()?;
            self.drain();
        }
        Some(())
    }

    /// What is looked at, the page of the fault included, and whether it is private.
    fn window(&mut self, near: &Neighbours) -> Option<(Taken, bool)> {
        let private = self.has_private(near.object);
        let (streams, bounds) = self.streams(near)?;
        Some((streams.follow(near.address, bounds, !private), private))
    }

    /// Whether an object is private memory of a client.
    pub(super) fn has_private(&self, object: ObjectId) -> bool {
        let content = self.object(object).map(|object| &object.content);
        matches!(content, Some(Content::Private { .. }))
    }

    /// The streams that a fault may belong to, and where the memory around it ends.
    fn streams(&mut self, near: &Neighbours) -> Option<(&mut Streams, Stretch)> {
        let private = self.has_private(near.object);
        let client = self.client_mut(near.client)?;
        let (start, segment) = client.segment(near.address)?;
        if segment.object != near.object {
            return None;
        }
        let bounds = Stretch {
            low: start,
            high: segment.end,
        };
        Some(if private {
            let bounds = client.family.relinquished.clip(near.address, bounds);
            (&mut client.prefetch.streams, bounds)
        } else {
            (&mut client.prefetch.text, bounds)
        })
    }

    fn pages_of_object(&self, near: &Neighbours, stretch: Stretch) -> Option<Range<u32>> {
        let pages = self.object(near.object)?.pages;
        Some(near.page_of(stretch.low)?..pages.min(near.page_of(stretch.high)?))
    }

    /// Maps what the core has granted, neighbouring pages together.
    fn map_run(&mut self, near: &Neighbours, private: bool) {
        let run = std::mem::take(&mut self.prefetcher.run);
        let mut rest = &run[..];
        while let Some(&(first, protection)) = rest.first() {
            let follows = |(at, (page, other)): &(u32, &(u32, Protection))| *page == first + at && *other == protection;
            let count = (0..).zip(rest).take_while(follows).count();
            self.map_pages(near, first, count, protection, private);
            rest = rest.get(count..).unwrap_or_default();
        }
        self.prefetcher.run = run;
    }

    fn map_pages(&mut self, near: &Neighbours, first: u32, count: usize, protection: Protection, private: bool) {
        let address = near.address_of(first);
        let page = |past: usize| first + u32::try_from(past).unwrap_or(0);
        let (mut done, mut found, mut most) = (0, 0, count);
        while done < count && found < FOUND {
            let start = address + done as u64 * crate::PAGE;
            let wanted = most.min(count - done);
            let Some((wanted, result)) = self.map_some(near, start, wanted, protection, private) else {
                return;
            };
            let (mapped, errno) = match result {
                Ok(()) => (wanted, None),
                Err(Stopped { done, errno }) => (done / PAGE_SIZE, Some(errno)),
            };
            // A page that is there already counts as mapped.
            let there = mapped + usize::from(errno == Some(Errno::EXIST));
            self.note_mapped(near, page(done)..page(done + there), private);
            done += there;
            match errno {
                None => most = most.saturating_mul(2),
                Some(Errno::EXIST) => found += 1,
                // The kernel takes nothing of a range that reaches past an end of a mapping.
                Some(Errno::NOENT) if wanted > 1 && (!private || first > near.page) => {
                    most = wanted / 2;
                }
                Some(Errno::NOENT) if wanted > 1 => {
                    // What is nearer to the fault may be there.
                    let half = done + wanted / 2;
                    self.take_back(near, first, done, half);
                    done = half;
                }
                Some(errno) => {
                    if errno == Errno::NOENT && private {
                        self.note_hole(near, address + done as u64 * crate::PAGE);
                    }
                    self.take_back(near, first, done, count);
                    return;
                }
            }
        }
    }

    fn note_mapped(&mut self, near: &Neighbours, pages: Range<u32>, private: bool) {
        if private {
            for page in pages {
                self.set_place(near.object, page, Where::Client);
            }
        } else {
            for page in pages {
                self.lock_mapped(near.client, near.address_of(page));
            }
        }
    }

    /// Maps up to `wanted` pages at `start`: how many were tried, and what came of it. `None` where nothing can be
    /// mapped now.
    fn map_some(
        &self,
        near: &Neighbours,
        start: u64,
        wanted: usize,
        protection: Protection,
        private: bool,
    ) -> Option<(usize, Result<(), Stopped>)> {
        let client = self.client(near.client)?;
        if !private {
            let userfault = client.userfault(Which::Shared)?;
            return Some((wanted, continue_pages(userfault, start, wanted)));
        }
        let wanted = client.outbox.left_alone(start, wanted);
        let can_be = wanted > 0 && self.has_room_for(near.client, wanted);
        let userfault = client.userfault(Which::Private).filter(|_| can_be)?;
        let protect = protection == Protection::ReadOnly;
        Some((wanted, self.copy_zeros(userfault, start, wanted, protect)))
    }

    /// Private memory of a client from `start` to `end` is gone, or what was in it.
    pub(super) fn lose_streams(&mut self, id: ClientId, start: u64, end: u64) {
        if let Some(client) = self.client_mut(id) {
            client.prefetch.streams.lose(Stretch { low: start, high: end });
        }
    }

    /// There is no memory of the client at an address up to which there was some.
    fn note_hole(&mut self, near: &Neighbours, address: u64) {
        if let Some(client) = self.client_mut(near.client).filter(|_| address > near.address) {
            client.prefetch.streams.ends(near.address, address);
        }
    }

    /// Pages that the core has granted where the program has no memory: a chunk may reach over holes, and over what is
    /// not the program's. Nothing is in them. Kept, they would hold frames, and a forked child would be given them,
    /// zeros where the agent's marks for forked children are for one.
    fn take_back(&mut self, near: &Neighbours, first: u32, done: usize, count: usize) {
        let (Ok(done), Ok(count)) = (u32::try_from(done), u32::try_from(count)) else {
            return;
        };
        let (start, end) = (near.address_of(first + done), near.address_of(first + count));
        self.carve_private(near.client, start, end);
    }

    fn copy_zeros(&self, userfault: &Userfault, start: u64, count: usize, protect: bool) -> Result<(), Stopped> {
        let start = usize::try_from(start).unwrap_or(0);
        userfault.copy_zeros(
            start,
            &self.backing.sources.zeros,
            count.min(self.backing.sources.zeros.pages()),
            protect,
        )
    }
}

fn continue_pages(userfault: &Userfault, start: u64, count: usize) -> Result<(), Stopped> {
    let refused = Stopped {
        done: 0,
        errno: Errno::INVAL,
    };
    let first = page_range(start).ok_or(refused)?;
    let range = AddressRange::new(first.start(), count * PAGE_SIZE).ok_or(refused)?;
    // Through such mappings the object is never written.
    userfault.continue_(range, false)
}
