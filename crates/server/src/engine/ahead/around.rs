//! Pages that were read back ahead, mapped with one that is wanted: a fault by message is too dear for each of them.
//!
//! To the core they are as new pages are, whose first touch counts for nothing: they leave unless they are touched
//! again after their reference bit was cleared.

use super::Neighbours;
use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::rows::{Content, Object, Where, Which};
use freehold_core::ReadAhead;
use freehold_core::effect::{Protection, Resolution};
use freehold_core::units::PageIndex;
use freehold_linux::PageRange;

impl Engine {
    /// Whether pages around one of this object that is mapped now may have been read ahead. A pool that restores is to
    /// hear of every touch.
    pub(super) fn reads_around(&self, object: &Object, resolution: Resolution) -> bool {
        let read = matches!(resolution, Resolution::Soft | Resolution::SwapIn { .. });
        match object.content {
            Content::Private { client, .. } if read && self.core.read_ahead() != ReadAhead::NONE => {
                !self.has_restorer(client)
            }
            _ => false,
        }
    }

    fn has_restorer(&self, client: ClientId) -> bool {
        let tasks = self.client(client).map_or(&[][..], |client| &client.tasks);
        let mut pools = tasks.iter().filter_map(|key| self.tasks.at(key.index())?.pinned);
        pools.any(|pool| self.restored(pool).1 > 0)
    }

    /// Maps the pages of the same cluster that are in the transfer memory and that the core counts as used.
    pub(super) fn map_around(&mut self, near: &Neighbours) {
        let cluster = self.core.read_ahead().pages();
        let first = near.page / cluster * cluster;
        let Some(pages) = self.object(near.object).map(|object| object.pages) else {
            return;
        };
        for page in (first..pages.min(first + cluster)).filter(|page| *page != near.page) {
            let Some(Where::Slot(slot)) = self.place_at(near.object, page) else {
                continue;
            };
            self.along.run.clear();
            let at = PageIndex::new(page);
            let granted = self.core.map_ahead(self.now, near.mapping, at, false);
            self.drain();
            if granted != Ok(true) {
                continue;
            }
            let Some(&(_, protection)) = self.along.run.first() else {
                continue;
            };
            self.give_before(near.client, near.object, page);
            if self.map_slot(near, page, slot, protection) {
                self.set_place(near.object, page, Where::Client);
            }
        }
    }

    /// Where it cannot be mapped it stays where it is, and is faulted on.
    fn map_slot(&self, near: &Neighbours, page: u32, slot: u32, protection: Protection) -> bool {
        let Some(client) = self.client(near.client) else {
            return false;
        };
        let address = near.address_of(page);
        let same = client
            .segment(address)
            .is_some_and(|(start, segment)| segment.object == near.object && segment.page_at(start, address) == page);
        if !same || client.outbox.takes_from(address) {
            return false;
        }
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
