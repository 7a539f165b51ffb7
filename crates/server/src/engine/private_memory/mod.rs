//! Private memory: pages that are in a client's page table, in its transfer memory, or in the store.
//!
//! A page in a client's page table leaves it only through the client's agent. Once it has arrived in the transfer
//! memory the server needs the client no more: it can be written to the store, dropped, or mapped again from there.

pub(super) mod booked;
pub(super) mod booking;
mod charging;
mod client_memory;
mod eviction;
pub(super) mod lending;
pub(super) mod program_locks;
pub(super) mod relinquish;
pub(super) mod transfer_memory;
pub(super) mod unseen_writes;

use crate::engine::Engine;
use crate::engine::faults::FaultMessage;
use crate::engine::faults::fault_completion::{Installed, judge, unprotect, wake};
use crate::engine::keys::ClientId;
use crate::engine::objects::{Content, Object};
use crate::engine::orders::Follow;
use crate::engine::tasks::{Pending, WaitSlotName};
pub(crate) use client_memory::{PrivateMemory, Where};
use freehold_core::effect::Protection;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::limits::PageRange as CoreRange;
use freehold_core::units::{PageCount, PageIndex};
use freehold_core::view::PageState;
use freehold_linux::{Errno, PAGE_SIZE, PageRange};

impl Engine {
    /// Whose private memory a page is.
    pub(super) fn private_client(&self, page: PageRef) -> Option<ClientId> {
        self.object(page.object())?.private_client()
    }

    pub(super) fn place_at(&self, object: ObjectId, page: u32) -> Option<Where> {
        match &self.object(object)?.content {
            Content::Private { pages, .. } => pages.get(page as usize).copied(),
            _ => None,
        }
    }

    fn whereabouts(&self, page: PageRef) -> Option<(ClientId, Where)> {
        let client = self.private_client(page)?;
        Some((client, self.place_at(page.object(), page.page().get())?))
    }

    /// Notes where a page is now; a slot that it leaves is free.
    pub(super) fn set_private(&mut self, page: PageRef, to: Where) {
        self.set_place(page.object(), page.page().get(), to);
    }

    pub(super) fn set_place(&mut self, object: ObjectId, page: u32, to: Where) {
        let Some(row) = self.object_mut(object) else { return };
        let Content::Private { client, pages, .. } = &mut row.content else {
            return;
        };
        let Some(place) = pages.get_mut(page as usize) else {
            return;
        };
        let (id, from) = (*client, std::mem::replace(place, to));
        let Some(client) = self.client_mut(id) else { return };
        if let Where::Slot(slot) = from
            && to != from
        {
            client.slots.free(slot);
            if client.slots.are_hot() {
                self.backing.holes.note_hot(id);
            }
        }
        let Some(client) = self.client_mut(id) else { return };
        if from != to && (from == Where::Lent || to == Where::Lent) {
            client.memory.lent.note(object, page, to == Where::Lent);
        }
        let inside = |place: Where| matches!(place, Where::Client | Where::Leaving | Where::Lent);
        match (inside(from), inside(to)) {
            (false, true) => client.memory.resident += 1,
            (true, false) => client.memory.resident = client.memory.resident.saturating_sub(1),
            _ => {}
        }
        match (from, to) {
            (Where::Blank, Where::Blank) => {}
            (Where::Blank, _) => client.memory.blank = client.memory.blank.saturating_sub(1),
            (_, Where::Blank) => client.memory.blank += 1,
            _ => {}
        }
        if to == Where::Client && !client.memory.program_locks.is_empty() {
            self.lock_arrived(object, page);
        }
    }

    /// What was forgotten while it was read is nowhere after all.
    pub(super) fn drop_if_forgotten(&mut self, page: PageRef) {
        let state = self.core.page(page.object(), page.page()).map(|view| view.state);
        if state != Some(PageState::Resident) && self.is_private(page) {
            self.set_private(page, Where::Nowhere);
        }
    }

    /// The page is zeros, in a frame by the books.
    pub(super) fn blank(&mut self, page: PageRef) {
        // What was there before may still be on its way out: until it has gone nothing new can be mapped.
        if !matches!(self.whereabouts(page), Some((_, Where::Leaving))) {
            self.set_private(page, Where::Blank);
        }
    }

    /// What was read from the store; whether there was room for it.
    pub(super) fn place_private(&mut self, page: PageRef, content: &[u8; PAGE_SIZE]) -> bool {
        let Some(client) = self.private_client(page).and_then(|id| self.client_mut(id)) else {
            // Nobody will look at it any more.
            return true;
        };
        let Some(slot) = client.slots.take() else { return false };
        if client.slots.memory().write(slot as usize, content).is_err() {
            client.slots.free(slot);
            return false;
        }
        let id = client.id;
        self.set_private(page, Where::Slot(slot));
        // It may be forgotten in the next moment.
        self.give_before(id, page.object(), page.page().get());
        true
    }

    /// Maps a private page for the fault of a wait slot.
    pub(super) fn map_private(&mut self, name: WaitSlotName, pending: Pending, page: PageRef, protection: Protection) {
        let fault = pending.fault;
        let Some((_, place)) = self.whereabouts(page) else {
            self.end_fault(name, fault, Installed::Gone);
            return;
        };
        let address = fault.address & !(crate::PAGE - 1);
        let taken = self
            .client(fault.client)
            .is_some_and(|client| client.outbox.takes_from(address));
        if place == Where::Leaving || taken {
            // It is mapped when it has arrived, or when what was at its address before has left.
            let task = self.tasks.at_mut(name.task.index());
            if let Some(wait_slot) = task.and_then(|task| task.wait_slots.get_mut(usize::from(name.wait_slot))) {
                wait_slot.pending = Some(Pending {
                    mapped: Some(protection),
                    ..pending
                });
            }
            return;
        }
        self.give_before(fault.client, page.object(), page.page().get());
        if self.is_owed(fault.client, page.object(), page.page().get()) {
            self.end_fault(name, fault, Installed::Later);
            return;
        }
        let is_there = place == Where::Client && fault.protected;
        if !is_there && !self.finds_room(fault.client) {
            self.end_fault(name, fault, Installed::Later);
            return;
        }
        let installed = self.install(&fault, place, protection == Protection::Writable);
        if installed == Installed::Yes {
            self.set_private(page, Where::Client);
        }
        self.end_fault(name, fault, installed);
    }

    /// Brings a private page into the page table.
    pub(super) fn install(&self, fault: &FaultMessage, place: Where, writable: bool) -> Installed {
        let Some(client) = self.client(fault.client) else {
            return Installed::Gone;
        };
        let (Some(userfault), Ok(address)) = (client.userfaults.private.as_ref(), usize::try_from(fault.address))
        else {
            return Installed::Gone;
        };
        if place == Where::Client && fault.protected {
            if writable {
                return unprotect(userfault, fault.address);
            }
            wake(userfault, fault.address);
            return Installed::Yes;
        }
        let copy = || match place {
            Where::Slot(slot) => {
                let slot = PageRange::single(slot as usize);
                userfault.copy_pages(address, client.slots.memory().alias(), slot, !writable)
            }
            // In the page table by the books, but missing: the program has dropped it, and the kernel will tell or has
            // told. What it finds there is zeros.
            Where::Client | Where::Lent | Where::Blank | Where::Nowhere | Where::Leaving => {
                userfault.copy_zeros(address, &self.backing.sources.zeros, 1, !writable)
            }
        };
        let mut result = copy();
        if result.is_err_and(|stopped| stopped.errno == Errno::NOMEM) && self.give_way() {
            result = copy();
        }
        judge(userfault, fault.address, writable, result)
    }

    /// Where a private page is in its client's address space.
    pub(super) fn address_of(&self, object: ObjectId, page: u32) -> Option<u64> {
        let segments = self.object(object)?.segments.iter();
        // No two segments show the same page.
        let at = segments.filter(|at| at.first <= page).max_by_key(|at| at.first)?;
        let segment = self.client(at.client)?.space.get(&at.start)?;
        let address = at.start + u64::from(page - at.first) * crate::PAGE;
        (address < segment.end).then_some(address)
    }

    /// Wait slots for which the core has decided while their page was on its way, or another at its address.
    pub(super) fn map_arrived(&mut self, id: ClientId, page: PageRef, address: u64) {
        let forgotten = self.place_at(page.object(), page.page().get()) == Some(Where::Nowhere);
        let mut found = Vec::new();
        for key in self.client(id).map(|client| client.tasks.clone()).unwrap_or_default() {
            let Some(task) = self.tasks.at_mut(key.index()) else {
                continue;
            };
            for wait_slot in &mut task.wait_slots {
                let Some((pending, protection)) =
                    wait_slot.pending.and_then(|pending| Some((pending, pending.mapped?)))
                else {
                    continue;
                };
                let same = pending.object == page.object() && pending.page == page.page();
                if same && !forgotten {
                    found.push((wait_slot.core, protection));
                } else if same || pending.fault.address & !(crate::PAGE - 1) == address {
                    // What the core decided may have changed meanwhile.
                    wait_slot.pending = None;
                    self.step.again.push_back(pending.fault);
                }
            }
        }
        for (wait_slot, protection) in found {
            self.map_page(wait_slot, page, protection);
        }
    }

    /// The content of private pages is gone: the program has unmapped or dropped it.
    pub(super) fn forget_private(&mut self, object: ObjectId, first: u32, count: u32) {
        let client = match self.object(object).map(|row| &row.content) {
            Some(Content::Private { client, .. }) => *client,
            _ => return,
        };
        self.look_before(client, object, first, count);
        for at in first..first.saturating_add(count) {
            self.give_owed(client, object, at);
            match self.place_at(object, at) {
                Some(Where::Leaving) => self.change_follow_at(object, at, |follow| {
                    let asked = matches!(
                        follow,
                        Follow::WriteBack(_) | Follow::Discard | Follow::Forget { asked: true }
                    );
                    *follow = Follow::Forget { asked };
                }),
                // Its end frees the slot.
                Some(Where::Slot(_)) if self.is_under_way(object, at) => {}
                Some(Where::Nowhere) | None => {}
                Some(_) => self.set_place(object, at, Where::Nowhere),
            }
        }
        let range = CoreRange {
            first: PageIndex::new(first),
            count: PageCount::new(count),
        };
        self.drain();
        self.step.moved += count as usize;
        if let Err(error) = self.core.forget(object, range) {
            self.notice(format!("the core would not forget pages: {error}"));
        }
        self.drain();
    }

    /// An object of private memory is gone; what its pages took is free.
    pub(super) fn drop_private(&mut self, object: &Object) {
        let Content::Private { client, pages, .. } = &object.content else {
            return;
        };
        let Some(client) = self.client_mut(*client) else { return };
        client.memory.bookings.close(object.id);
        client.memory.bookings.objects = client.memory.bookings.objects.saturating_sub(1);
        client.memory.bookings.pages = client.memory.bookings.pages.saturating_sub(object.pages);
        client.memory.lent.forget(object.id);
        for place in pages {
            match place {
                Where::Slot(slot) => client.slots.free(*slot),
                Where::Client | Where::Leaving | Where::Lent => {
                    client.memory.resident = client.memory.resident.saturating_sub(1);
                }
                Where::Blank => client.memory.blank = client.memory.blank.saturating_sub(1),
                Where::Nowhere => {}
            }
        }
    }
}
