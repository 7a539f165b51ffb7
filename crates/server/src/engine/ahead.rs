//! Neighbours of a page that was faulted on, brought along from frames that are free anyway.
//!
//! Only for programs: what the library's clients touch is theirs to say, page by page. One system call for a run.

use crate::engine::Engine;
use crate::engine::claims::page_range;
use crate::engine::keys::{ClientId, ClientRole};
use crate::engine::rows::{Content, Where, Which};
use freehold_core::effect::{Protection, Resolution};
use freehold_core::fact::PageRef;
use freehold_core::id::{MappingId, ObjectId};
use freehold_core::limits::PageRange as CoreRange;
use freehold_core::units::{PageCount, PageIndex};
use freehold_linux::userfault::{Stopped, Userfault};
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, PageRange};

/// Pages taken up around a fault, if the one before it was elsewhere.
const FEWEST: u32 = 16;
/// Pages taken up while faults come in order, at most.
const MOST: u32 = 64;
/// Pages that are found mapped already before a run is given up.
const FOUND: u32 = 4;

/// Where a client faulted last, and how much was taken up then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    next: u64,
    window: u32,
}

/// A fault whose neighbours are to be brought along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    client: ClientId,
    mapping: MappingId,
    object: ObjectId,
    page: u32,
    address: u64,
    write: bool,
}

/// What the engine keeps for that.
#[derive(Debug, Default)]
pub(super) struct Along {
    /// The fault that was served last: client, address, whether it writes.
    pub(super) last_claim: Option<(ClientId, u64, bool)>,
    /// Faults whose neighbours are to come along.
    pub(super) neighbours: Vec<Neighbours>,
    /// Pages that may be mapped ahead, in order.
    pub(super) run: Vec<(u32, Protection)>,
}

impl Engine {
    /// A fault ends so: are its neighbours to come along?
    pub(super) fn consider_neighbours(&mut self, mapping: MappingId, page: PageRef, resolution: Resolution) {
        let Some(object) = self.object(page.object()) else {
            return;
        };
        let wanted = matches!(
            (&object.content, resolution),
            (Content::Private { .. }, Resolution::ZeroFill)
                | (Content::File { .. }, Resolution::Soft | Resolution::FileRead)
        );
        let Some((client, address, write)) = self.along.last_claim.filter(|_| wanted) else {
            return;
        };
        if self
            .client(client)
            .is_some_and(|client| client.role == ClientRole::Program)
        {
            self.along.neighbours.push(Neighbours {
                client,
                mapping,
                object: page.object(),
                page: page.page().get(),
                address,
                write,
            });
        }
    }

    /// Brings the neighbours of a fault along.
    pub(super) fn take_neighbours(&mut self, near: Neighbours) {
        let Some((count, private)) = self.window(&near) else {
            return;
        };
        let range = CoreRange {
            first: PageIndex::new(near.page + 1),
            count: PageCount::new(count),
        };
        if self.core.fill_ahead(self.now, near.mapping, range).is_err() {
            return;
        }
        self.drain();
        while let Some(ended) = self.ended.pop_front() {
            self.tell(ended);
            self.drain();
        }
        self.along.run.clear();
        for page in near.page + 1..=near.page + count {
            let fresh = self.place_at(near.object, page) == Some(Where::Blank);
            if private && !fresh {
                continue;
            }
            let write = near.write && private;
            if self
                .core
                .map_ahead(self.now, near.mapping, PageIndex::new(page), write)
                .is_err()
            {
                break;
            }
            self.drain();
        }
        self.map_run(&near, private);
    }

    /// How many pages after the fault's are looked at, and whether they are private.
    fn window(&mut self, near: &Neighbours) -> Option<(u32, bool)> {
        let private = matches!(self.object(near.object)?.content, Content::Private { .. });
        let pages = self.object(near.object)?.pages;
        let client = self.client_mut(near.client)?;
        let (_, segment) = client.segment(near.address)?;
        let in_order = client.ahead.next == near.address;
        let window = if in_order {
            client.ahead.window.saturating_mul(2)
        } else {
            FEWEST
        };
        let window = window.clamp(FEWEST, MOST);
        let left = (segment.end - near.address) / crate::PAGE - 1;
        let count = window
            .min(u32::try_from(left).unwrap_or(u32::MAX))
            .min(pages - near.page - 1);
        client.ahead = Ahead {
            next: near.address + (u64::from(count) + 1) * crate::PAGE,
            window,
        };
        (count > 0 && segment.object == near.object).then_some((count, private))
    }

    /// Maps what the core has granted, neighbouring pages together.
    fn map_run(&mut self, near: &Neighbours, private: bool) {
        let run = std::mem::take(&mut self.along.run);
        let mut rest = &run[..];
        while let Some(&(first, protection)) = rest.first() {
            let follows = |(at, (page, other)): &(u32, &(u32, Protection))| *page == first + at && *other == protection;
            let count = (0..).zip(rest).take_while(follows).count();
            self.map_pages(near, first, count, protection, private);
            rest = rest.get(count..).unwrap_or_default();
        }
        self.along.run = run;
    }

    fn map_pages(&mut self, near: &Neighbours, first: u32, count: usize, protection: Protection, private: bool) {
        let which = if private { Which::Private } else { Which::Shared };
        let address = near.address + u64::from(first - near.page) * crate::PAGE;
        let (mut done, mut found) = (0, 0);
        while done < count && found < FOUND {
            let Some(userfault) = self.client(near.client).and_then(|client| client.userfault(which)) else {
                return;
            };
            let start = address + done as u64 * crate::PAGE;
            let count = match (private, self.client(near.client)) {
                (true, Some(client)) => done + client.outbox.left_alone(start, count - done),
                _ => count,
            };
            if done >= count {
                return;
            }
            let protect = protection == Protection::ReadOnly;
            let result = match private {
                true => self.copy_zeros(userfault, start, count - done, protect),
                false => continue_pages(userfault, start, count - done),
            };
            let (mapped, errno) = match result {
                Ok(()) => (count - done, None),
                Err(Stopped { done, errno }) => (done / PAGE_SIZE, Some(errno)),
            };
            // A page that is there already counts as mapped.
            let there = mapped + usize::from(errno == Some(Errno::EXIST));
            if private {
                for page in first..first + u32::try_from(done + there).unwrap_or(0) {
                    self.set_place(near.object, page, Where::Client);
                }
            }
            done += there;
            found += 1;
            if errno.is_some_and(|errno| errno != Errno::EXIST) {
                if private {
                    self.take_back(near, first, done, count);
                }
                return;
            }
        }
    }

    /// Pages that the core has granted where the program has no memory: a chunk may reach over holes, and over what is
    /// not the program's. Nothing is in them. Kept, they would hold frames, and a forked child would be given them,
    /// zeros where the agent's marks for forked children are for one.
    fn take_back(&mut self, near: &Neighbours, first: u32, done: usize, count: usize) {
        let (Ok(done), Ok(count)) = (u32::try_from(done), u32::try_from(count)) else {
            return;
        };
        self.forget_private(near.object, first + done, count - done);
    }

    fn copy_zeros(&self, userfault: &Userfault, start: u64, count: usize, protect: bool) -> Result<(), Stopped> {
        let zeros = PageRange::new(0, count.min(super::ZEROS));
        let start = usize::try_from(start).unwrap_or(0);
        userfault.copy_pages(start, self.zeros.alias(), zeros, protect)
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
