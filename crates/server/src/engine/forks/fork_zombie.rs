//! Clients that end while their children are still being given their pages.
//!
//! A process may fork and end at once, or be killed. What its children are to have and what is not in their page tables
//! is in its transfer memory or in the store, so its row, the private objects of which a child may want pages and its
//! slots stay until the last child has everything. All else of it is given up at once.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::orders::About;
use crate::engine::private_memory::Where;
use crate::engine::spaces::{Segment, SegmentKind};

impl Engine {
    /// A client ends: at once, or when its children have what they inherit. Idempotent.
    pub(in crate::engine) fn dismiss(&mut self, id: ClientId) {
        self.cease_relinquishing(id);
        let Some(client) = self.client(id).filter(|client| !client.family.gone) else {
            return;
        };
        if client.family.fork_children == 0 {
            self.end_client(id);
        } else {
            self.become_zombie(id);
        }
    }

    fn become_zombie(&mut self, id: ClientId) {
        self.end_program_locks(id);
        // What its agent carried out before it ended has arrived.
        let now = self.step.now;
        while let Some(client) = self.client_mut(id)
            && let Ok(Some((order, outcome))) = client.outbox.answer(now)
        {
            self.answered(id, order, outcome);
        }
        let Some(client) = self.client_mut(id) else { return };
        client.family.gone = true;
        client.family.held.clear();
        client.waiting.parked.clear();
        client.waiting.deferred.clear();
        if let Some(client) = self.client(id) {
            self.listen_no_more(client);
        }
        self.lose_orders(id);
        self.give_up_all_but_fork_copies(id);
        self.abandon_orders(id);
        if self.client(id).is_some_and(|client| client.family.fork_children == 0) {
            self.fork_children.zombies.push(id);
        }
    }

    /// What its agent had not brought out of its page table when it ended or was stopped: a child that was forked
    /// before has it.
    pub(in crate::engine) fn lose_orders(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let lost = client.outbox.outstanding().filter_map(|order| match order.about {
            About::Private { page, .. } => Some((page.object(), page.page().get())),
            About::Shared | About::Error(..) | About::Death(_) | About::Loss(_) | About::Room => None,
        });
        for (object, page) in lost.collect::<Vec<_>>() {
            self.lose(id, object, page);
        }
    }

    /// Gives up all private objects of which no child may want a page.
    fn give_up_all_but_fork_copies(&mut self, id: ClientId) {
        let kept = self.objects_with_fork_copies(id);
        let Some(client) = self.client(id) else { return };
        let private = client.space.iter().filter(|(_, row)| row.kind == SegmentKind::Private);
        let unwanted = private.filter(|(_, row)| !kept.contains(&row.object));
        let unwanted: Vec<(u64, Segment)> = unwanted.map(|(start, row)| (*start, *row)).collect();
        for (start, segment) in unwanted {
            if let Some(client) = self.client_mut(id) {
                client.space.remove(&start);
            }
            let Some(row) = self.object_mut(segment.object) else {
                continue;
            };
            row.segments.retain(|at| (at.client, at.start) != (id, start));
            if row.segments.is_empty() {
                self.give_up_object(id, &segment);
            }
        }
    }

    fn abandon_orders(&mut self, id: ClientId) {
        let Some(client) = self.client_mut(id) else { return };
        for order in client.outbox.abandon() {
            if let About::Private { page, .. } = order.about
                && self.place_at(page.object(), page.page().get()) == Some(Where::Leaving)
            {
                // The slot is not used again: a process that is being killed may still write to it.
                self.set_private(page, Where::Nowhere);
            }
            self.answered_by_nobody(order.about);
        }
    }
}
