//! Private pages on their way out: orders to the client's agent, and what follows once it has answered.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::objects::Content;
use crate::engine::orders::{About, Follow, Outstanding};
use crate::engine::private_memory::Where;
use crate::engine::tasks::Pending;
use freehold_core::effect::Holder;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_driver::End;
use freehold_protocol::channel::{Action, Outcome};

impl Engine {
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
    pub(in crate::engine) fn demote_private(&mut self, page: PageRef) {
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

    /// The page is evicted before wait slots for which it was granted could have it: they fault again.
    fn take_back_grants(&mut self, page: PageRef) {
        let Some(client) = self.private_client(page).and_then(|id| self.client(id)) else {
            return;
        };
        for key in client.tasks.clone() {
            let Some(task) = self.tasks.at_mut(key.index()) else {
                continue;
            };
            for wait_slot in &mut task.wait_slots {
                let same = |pending: &Pending| pending.object == page.object() && pending.page == page.page();
                if let Some(pending) = wait_slot
                    .pending
                    .take_if(|pending| same(pending) && pending.mapped.is_some())
                {
                    self.step.again.push_back(pending.fault);
                }
            }
        }
    }

    pub(in crate::engine) fn change_follow(&mut self, page: PageRef, change: impl FnOnce(&mut Follow)) {
        self.change_follow_at(page.object(), page.page().get(), change);
    }

    pub(in crate::engine) fn change_follow_at(
        &mut self,
        object: ObjectId,
        page: u32,
        change: impl FnOnce(&mut Follow),
    ) {
        let Some(Content::Private { client, .. }) = self.object(object).map(|row| &row.content) else {
            return;
        };
        let id = *client;
        if let Some(client) = self.client_mut(id) {
            client.outbox.change(object, page, change);
        }
    }

    /// A page is evicted, and has been written.
    pub(in crate::engine) fn write_private(&mut self, page: PageRef, holder: Holder) {
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
    pub(in crate::engine) fn is_left_behind(&self, page: PageRef) -> bool {
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
    pub(in crate::engine) fn discard_private(&mut self, page: PageRef) {
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
    pub(in crate::engine) fn surrendered(
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
            // Dropped: the store has it.
            (Outcome::Done | Outcome::Dropped, None) => Where::Nowhere,
            (Outcome::Zero, _) => Where::Blank,
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
            (Follow::WriteBack(_), Where::Blank) => self.evict_zeros(page),
            (Follow::WriteBack(_) | Follow::Discard, _) => {
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
}
