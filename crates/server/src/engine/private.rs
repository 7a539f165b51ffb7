//! Private memory: pages that are in a client's page table, in its transfer memory, or in the store.
//!
//! A page in a client's page table leaves it only through the client's agent. Once it has arrived in the transfer
//! memory the server needs the client no more: it can be written to the store, dropped, or mapped again from there.

use crate::engine::Engine;
use crate::engine::claims::{Installed, judge, unprotect, wake};
use crate::engine::keys::ClientId;
use crate::engine::outbox::{About, Follow, Outstanding};
use crate::engine::rows::{Claim, Content, LaneName, Object, Pending, Where};
use freehold_core::effect::{Holder, Protection};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::limits::PageRange as CoreRange;
use freehold_core::units::{PageCount, PageIndex};
use freehold_core::view::PageState;
use freehold_driver::End;
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use freehold_protocol::channel::{Action, Outcome};

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

    /// Maps a private page for the fault of a lane.
    pub(super) fn map_private(&mut self, name: LaneName, pending: Pending, page: PageRef, protection: Protection) {
        let claim = pending.claim;
        let Some((_, place)) = self.whereabouts(page) else {
            self.end_claim(name, claim, Installed::Gone);
            return;
        };
        let address = claim.address & !(crate::PAGE - 1);
        let taken = self
            .client(claim.client)
            .is_some_and(|client| client.outbox.takes_from(address));
        if place == Where::Leaving || taken {
            // It is mapped when it has arrived, or when what was at its address before has left.
            let task = self.tasks.at_mut(name.task.index());
            if let Some(lane) = task.and_then(|task| task.lanes.get_mut(usize::from(name.lane))) {
                lane.pending = Some(Pending {
                    mapped: Some(protection),
                    ..pending
                });
            }
            return;
        }
        self.give_before(claim.client, page.object(), page.page().get());
        let installed = self.install(&claim, place, protection == Protection::Writable);
        if installed == Installed::Yes {
            self.set_private(page, Where::Client);
        }
        self.end_claim(name, claim, installed);
    }

    /// Brings a private page into the page table.
    pub(super) fn install(&self, claim: &Claim, place: Where, writable: bool) -> Installed {
        let Some(client) = self.client(claim.client) else {
            return Installed::Gone;
        };
        let (Some(userfault), Ok(address)) = (client.userfaults.private.as_ref(), usize::try_from(claim.address))
        else {
            return Installed::Gone;
        };
        if place == Where::Client && claim.protected {
            if writable {
                return unprotect(userfault, claim.address);
            }
            wake(userfault, claim.address);
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
        judge(userfault, claim.address, writable, result)
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

    /// Orders the client to take a page out of its page table; false where that cannot be.
    fn order_out(&mut self, page: PageRef, follow: Follow) -> bool {
        let since = self.step.now;
        let Some(address) = self.address_of(page.object(), page.page().get()) else {
            return false;
        };
        let Some(client) = self.private_client(page).and_then(|id| self.client_mut(id)) else {
            return false;
        };
        let stays = client
            .memory
            .kept
            .iter()
            .any(|(start, end)| (*start..*end).contains(&address));
        if !client.has_agent() || stays || client.family.relinquished.takes(address) {
            return false;
        }
        let (action, slot) = match follow {
            Follow::Discard => (Action::Drop, None),
            _ => match client.slots.take() {
                Some(slot) => (Action::Surrender, Some(slot)),
                None => return false,
            },
        };
        let about = About::Private { page, slot, follow };
        client.outbox.order(action, 1, Outstanding { about, address, since });
        let id = client.id;
        self.announce_later(id);
        self.set_private(page, Where::Leaving);
        true
    }

    /// A page has moved to the inactive list: it leaves the page table, so that its use shows.
    pub(super) fn demote_private(&mut self, page: PageRef) {
        if let Some((_, Where::Client)) = self.whereabouts(page) {
            // What cannot leave stays mapped, and looks unused.
            let _ = self.order_out(page, Follow::Demote);
        }
    }

    /// Whether what is on its way out was forgotten: the page as the core knows it is another, of zeros.
    fn is_forgotten(&self, page: PageRef) -> bool {
        let client = self.private_client(page).and_then(|id| self.client(id));
        let follow = client.and_then(|client| client.outbox.follow(page.object(), page.page().get()));
        matches!(follow, Some(Follow::Forget { .. }))
    }

    /// The page is evicted before lanes for which it was granted could have it: they fault again.
    fn take_back_grants(&mut self, page: PageRef) {
        let Some(client) = self.private_client(page).and_then(|id| self.client(id)) else {
            return;
        };
        for key in client.tasks.clone() {
            let Some(task) = self.tasks.at_mut(key.index()) else {
                continue;
            };
            for lane in &mut task.lanes {
                let same = |pending: &Pending| pending.object == page.object() && pending.page == page.page();
                if let Some(pending) = lane
                    .pending
                    .take_if(|pending| same(pending) && pending.mapped.is_some())
                {
                    self.step.again.push_back(pending.claim);
                }
            }
        }
    }

    pub(super) fn change_follow(&mut self, page: PageRef, change: impl FnOnce(&mut Follow)) {
        self.change_follow_at(page.object(), page.page().get(), change);
    }

    fn change_follow_at(&mut self, object: ObjectId, page: u32, change: impl FnOnce(&mut Follow)) {
        let Some(Content::Private { client, .. }) = self.object(object).map(|row| &row.content) else {
            return;
        };
        let id = *client;
        if let Some(client) = self.client_mut(id) {
            client.outbox.change(object, page, change);
        }
    }

    /// A page is evicted, and has been written.
    pub(super) fn write_private(&mut self, page: PageRef, holder: Holder) {
        if self.evict_left_behind(page) {
            return;
        }
        self.take_back_grants(page);
        match self.whereabouts(page) {
            Some((_, Where::Slot(slot))) => self.write_slot(page, holder, slot),
            Some((id, Where::Client)) => self.order_eviction(id, page, Follow::WriteBack(holder)),
            Some((_, Where::Leaving)) if self.is_forgotten(page) => {
                let written = self.write_zeros(page);
                self.end(page, Request::Evict, if written { End::Done } else { End::Failed });
            }
            Some((_, Where::Leaving)) => self.change_follow(page, |follow| *follow = Follow::WriteBack(holder)),
            // Not on the core's lists any more.
            Some((_, Where::Lent)) => self.end(page, Request::Evict, End::Done),
            Some((_, Where::Blank | Where::Nowhere)) | None => self.evict_zeros(page),
        }
    }

    /// Evicts a page whose client has gone, if it has: the object goes when nothing of it is under way, and nobody will
    /// look for what it held.
    fn evict_left_behind(&mut self, page: PageRef) -> bool {
        let left = self.is_left_behind(page);
        if left && matches!(self.whereabouts(page), Some((id, Where::Leaving)) if self.client(id).is_some()) {
            self.change_follow(page, |follow| *follow = Follow::Forget { asked: true });
        } else if left {
            self.set_private(page, Where::Nowhere);
            self.end(page, Request::Evict, End::Done);
        }
        left
    }

    /// Whether a page is one of a client that has gone, or that the client has given up.
    pub(super) fn is_left_behind(&self, page: PageRef) -> bool {
        let Some(id) = self.private_client(page) else {
            return false;
        };
        self.client(id).is_none()
            || self.is_given_up(page.object())
            || self.address_of(page.object(), page.page().get()).is_none()
    }

    fn order_eviction(&mut self, id: ClientId, page: PageRef, follow: Follow) {
        if !self.order_out(page, follow) {
            self.note_refusal(id, Outcome::Refused);
            if self.lend_page(page) {
                self.end(page, Request::Evict, End::Done);
            } else {
                self.cannot_leave(page);
            }
        }
    }

    fn evict_zeros(&mut self, page: PageRef) {
        let written = self.write_zeros(page);
        if written {
            self.set_private(page, Where::Nowhere);
        }
        self.end(page, Request::Evict, if written { End::Done } else { End::Failed });
    }

    /// A page is evicted whose content is elsewhere.
    pub(super) fn discard_private(&mut self, page: PageRef) {
        if self.evict_left_behind(page) {
            return;
        }
        self.take_back_grants(page);
        match self.whereabouts(page) {
            Some((id, Where::Client)) => self.order_eviction(id, page, Follow::Discard),
            Some((_, Where::Leaving)) if self.is_forgotten(page) => self.end(page, Request::Evict, End::Done),
            Some((_, Where::Leaving)) => self.change_follow(page, |follow| *follow = Follow::Discard),
            _ => {
                self.set_private(page, Where::Nowhere);
                self.end(page, Request::Evict, End::Done);
            }
        }
    }

    /// The client has answered the order to take a page out.
    pub(super) fn surrendered(
        &mut self,
        id: ClientId,
        page: PageRef,
        slot: Option<u32>,
        follow: Follow,
        outcome: Outcome,
    ) {
        if self.whereabouts(page) != Some((id, Where::Leaving)) {
            // Its object is gone.
            let arrived = slot.filter(|_| matches!(outcome, Outcome::Done | Outcome::Dropped));
            self.give_late(id, page.object(), page.page().get(), arrived);
            if let (Some(slot), Some(client)) = (slot, self.client_mut(id)) {
                client.slots.free(slot);
            }
            return;
        }
        let place = match (outcome, slot) {
            (Outcome::Done | Outcome::Dropped, Some(slot)) => Where::Slot(slot),
            (Outcome::Done | Outcome::Dropped | Outcome::Zero, _) => Where::Blank,
            (Outcome::Busy | Outcome::Refused | Outcome::Absent, _) => Where::Client,
        };
        self.note_refusal(id, outcome);
        if let Some(slot) = slot.filter(|slot| place != Where::Slot(*slot))
            && let Some(client) = self.client_mut(id)
        {
            client.slots.free(slot);
        }
        self.set_private(page, place);
        self.give_before(id, page.object(), page.page().get());
        // The agent may have had it out, and put it back.
        let follow = if outcome == Outcome::Refused {
            self.note_written(page, follow)
        } else {
            follow
        };
        match (follow, place) {
            (Follow::Demote, _) => {}
            (Follow::WriteBack(_) | Follow::Discard, Where::Client) => {
                let end = if self.lend_page(page) { End::Done } else { End::Kept };
                self.end(page, Request::Evict, end);
            }
            (Follow::WriteBack(holder), Where::Slot(slot)) => self.write_slot(page, holder, slot),
            (Follow::WriteBack(_), _) => self.evict_zeros(page),
            (Follow::Discard, _) => {
                self.set_private(page, Where::Nowhere);
                self.end(page, Request::Evict, End::Done);
            }
            (Follow::Forget { asked }, _) => {
                self.set_private(page, Where::Nowhere);
                if asked {
                    self.end(page, Request::Evict, End::Done);
                }
            }
        }
    }

    /// Lanes for which the core has decided while their page was on its way, or another at its address.
    pub(super) fn map_arrived(&mut self, id: ClientId, page: PageRef, address: u64) {
        let forgotten = self.place_at(page.object(), page.page().get()) == Some(Where::Nowhere);
        let mut found = Vec::new();
        for key in self.client(id).map(|client| client.tasks.clone()).unwrap_or_default() {
            let Some(task) = self.tasks.at_mut(key.index()) else {
                continue;
            };
            for lane in &mut task.lanes {
                let Some((pending, protection)) = lane.pending.and_then(|pending| Some((pending, pending.mapped?)))
                else {
                    continue;
                };
                let same = pending.object == page.object() && pending.page == page.page();
                if same && !forgotten {
                    found.push((lane.core, protection));
                } else if same || pending.claim.address & !(crate::PAGE - 1) == address {
                    // What the core decided may have changed meanwhile.
                    lane.pending = None;
                    self.step.again.push_back(pending.claim);
                }
            }
        }
        for (lane, protection) in found {
            self.map_page(lane, page, protection);
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
