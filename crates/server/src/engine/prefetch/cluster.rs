//! Pages in the transfer memory that are mapped with one that is wanted: a fault by message is too dear for each.
//!
//! Those of a pool that restores are the ones that were touched next the last time, and count as touched. All others
//! were read back ahead. To the core these are as new pages are, whose first touch counts for nothing: they leave
//! unless they are touched again after their reference bit was cleared.

use crate::engine::Engine;
use crate::engine::faults::Which;
use crate::engine::keys::ClientId;
use crate::engine::prefetch::{Kind, Neighbours};
use crate::engine::private_memory::Where;
use freehold_core::effect::Protection;
use freehold_core::units::PageIndex;
use freehold_core::{Memory, ReadAhead};
use freehold_linux::PageRange;

/// Pages that are looked at onwards, at most.
const ONWARDS: u32 = 16;

impl Engine {
    /// What comes along with a page of a client's private memory that was there, or was read back. A pool that restores
    /// is to hear of what is touched: of its pages only those come that were touched next the last time.
    pub(super) fn around(&self, client: ClientId) -> Option<Kind> {
        if self.has_restorer(client) {
            Some(Kind::Onwards)
        } else if self.core.read_ahead() != ReadAhead::NONE || self.core.reads_on() {
            Some(Kind::Read)
        } else {
            None
        }
    }

    fn has_restorer(&self, client: ClientId) -> bool {
        let tasks = self.client(client).map_or(&[][..], |client| &client.tasks);
        let mut pools = tasks.iter().filter_map(|key| self.tasks.at(key.index())?.pinned);
        pools.any(|pool| self.restores(pool))
    }

    /// Maps the pages that jobs went on to from this one the last time, as far as they are in the transfer memory.
    pub(super) fn map_onwards(&mut self, near: &Neighbours) {
        let mut page = PageIndex::new(near.page);
        for _ in 0..ONWARDS {
            let Some(next) = self
                .core
                .onwards(near.mapping, page)
                .filter(|next| next.get() != near.page)
            else {
                return;
            };
            match self.place_at(near.object, next.get()) {
                Some(Where::Slot(slot)) => {
                    self.prefetcher.run.clear();
                    let there = self.core.touch_onwards(self.step.now, near.mapping, next);
                    self.drain();
                    if there != Ok(true) || !self.map_granted(near, next.get(), slot) {
                        return;
                    }
                }
                // It is touched without a fault.
                Some(Where::Client) => {}
                _ => return,
            }
            page = next;
        }
    }

    /// Maps the pages that may have been read back along with this one, are in the transfer memory, and count as used
    /// to the core. In a run they are written if the first is: to be told of each would cost a fault for each.
    pub(super) fn map_around(&mut self, near: &Neighbours) {
        let Some(pages) = self.object(near.object).map(|object| object.pages) else {
            return;
        };
        let write = near.write && self.core.reads_on();
        for page in self.read_along_with(near.page, pages) {
            let Some(Where::Slot(slot)) = self.place_at(near.object, page) else {
                continue;
            };
            self.prefetcher.run.clear();
            let at = PageIndex::new(page);
            let granted = self.core.map_ahead(self.step.now, near.mapping, at, write);
            self.drain();
            if granted == Ok(true) {
                self.map_granted(near, page, slot);
            }
        }
    }

    /// The other pages that may have come with one of an object of so many.
    fn read_along_with(&self, page: u32, pages: u32) -> impl Iterator<Item = u32> + use<> {
        let cluster = self.core.read_ahead().pages();
        let first = page / cluster * cluster;
        let on = if self.core.reads_on() {
            Memory::most_read_on()
        } else {
            0
        };
        let end = pages.min((first + cluster).max(page + 1 + on));
        (first..end).filter(move |other| *other != page)
    }

    /// Maps a page that the core has just granted; false where that cannot be.
    fn map_granted(&mut self, near: &Neighbours, page: u32, slot: u32) -> bool {
        let Some(&(_, protection)) = self.prefetcher.run.first() else {
            return false;
        };
        self.give_before(near.client, near.object, page);
        let owed = self.is_owed(near.client, near.object, page);
        let mapped = !owed && self.map_slot(near, page, slot, protection);
        if mapped {
            self.set_place(near.object, page, Where::Client);
        }
        mapped
    }

    /// Where it cannot be mapped it stays where it is, and is faulted on.
    fn map_slot(&self, near: &Neighbours, page: u32, slot: u32, protection: Protection) -> bool {
        let Some(client) = self.client(near.client) else {
            return false;
        };
        let address = self.address_of(near.object, page);
        let can_be = |at: &u64| !client.outbox.takes_from(*at) && self.has_room_for(near.client, 1);
        let Some(address) = address.filter(can_be) else {
            return false;
        };
        let (Some(userfault), Ok(address)) = (client.userfault(Which::Private), usize::try_from(address)) else {
            return false;
        };
        let source = client.slots.memory().alias();
        let protect = protection == Protection::ReadOnly;
        userfault
            .copy_pages(address, source, PageRange::single(slot as usize), protect)
            .is_ok()
    }
}
