//! Clients that do not answer (law 9): nobody waits for them longer than the bound.
//!
//! Processes of one user in one reservation harm nobody else when they wait for each other. Where there are more of
//! them than CPUs, one may wait for a lock of its address space while who has it does not run: they are patient.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::orders::{About, Outstanding};
use crate::settings::Reaction;
use freehold_core::id::ReservationId;
use freehold_core::units::Instant;
use freehold_protocol::channel::Outcome;
use rustix::process::Signal;

/// By so much longer than others a user's own processes in the same reservation wait.
const FAMILY: u64 = 30;

/// Who waits for a client's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiters {
    Nobody,
    /// Processes of the same user, in the same reservation.
    Family,
    Others,
}

impl Engine {
    pub(in crate::engine) fn bound(&self) -> u64 {
        u64::try_from(self.clients.unresponsive.bound.as_nanos()).unwrap_or(u64::MAX)
    }

    /// An order was given: it is to be answered within the bound, if anybody waits then.
    pub(in crate::engine) fn watch_from_now(&mut self) {
        if self.clients.watch_at.is_none() {
            self.clients.watch_at = Some(self.step.now.get().saturating_add(self.bound()));
        }
    }

    /// When to look at them again.
    pub(in crate::engine) fn watch_due(&self) -> Option<u64> {
        self.clients.watch_at
    }

    /// Stops clients that leave an order unanswered for longer than the bound while somebody else waits, and ends those
    /// that have not said in that time why they end.
    pub(in crate::engine) fn watch(&mut self) {
        if self.clients.watch_at.is_none_or(|at| at > self.step.now.get()) {
            return;
        }
        let mut next = None;
        let (mut late, mut dying) = (Vec::new(), Vec::new());
        for (_, client) in self.clients.iter() {
            if self.keeps_what_it_borrowed(client) {
                late.push(client.id);
                continue;
            }
            if client.standing.refusing > 0 && self.reservations.reclaiming {
                let soon = self.step.now.get().saturating_add(self.bound() / 4 + 1);
                next = Some(next.map_or(soon, |next: u64| next.min(soon)));
            }
            let Some(oldest) = client.outbox.oldest().map(Instant::get) else {
                continue;
            };
            let patience = self.bound();
            let due = oldest.saturating_add(patience);
            let is_late = due <= self.step.now.get();
            if let Some(shortage) = is_late.then(|| client.outbox.death()).flatten() {
                dying.push((client.id, shortage));
                continue;
            }
            let soon = self.step.now.get().saturating_add(patience / 4 + 1);
            let is_too_late = oldest.saturating_add(patience.saturating_mul(FAMILY)) <= self.step.now.get();
            let look_again = match is_late.then(|| self.who_waits_for(client)) {
                Some(Waiters::Family) if !is_too_late => soon,
                Some(Waiters::Nobody) => soon,
                Some(_) => {
                    late.push(client.id);
                    continue;
                }
                None => due,
            };
            next = Some(next.map_or(look_again, |next: u64| next.min(look_again)));
        }
        self.clients.watch_at = next;
        for id in late {
            self.stop(id);
        }
        for (id, shortage) in dying {
            self.expel(id, shortage.text());
        }
        self.settle();
    }

    /// Whether somebody waits to be admitted, and this client has borrowed frames and refused to give up any page for
    /// longer than the bound.
    fn keeps_what_it_borrowed(&self, client: &Client) -> bool {
        let refuses = client.standing.refusing > 0
            && client.standing.refusing.saturating_add(self.bound()) <= self.step.now.get();
        if !refuses || !self.reservations.reclaiming || client.standing.frozen {
            return false;
        }
        let tasks = client.tasks.iter().filter_map(|key| self.tasks.at(key.index()));
        let mut reservations = tasks.filter_map(|task| self.core.reservation(task.reservation?));
        reservations.any(|lists| lists.borrowed.get() > 0)
    }

    /// Whether a thread of another client, or an admission, waits for frames that this client may have to give up.
    fn who_waits_for(&self, client: &Client) -> Waiters {
        let mut orders = client.outbox.outstanding();
        if !orders.any(|order| matches!(order.about, About::Private { .. })) {
            // Mappings of shared objects: nobody needs their going.
            return Waiters::Nobody;
        }
        if self.reservations.reclaiming {
            return Waiters::Others;
        }
        let tasks = client.tasks.iter().filter_map(|key| self.tasks.at(key.index()));
        let own: Vec<Option<ReservationId>> = tasks.map(|task| task.reservation).collect();
        let mut waiting = Waiters::Nobody;
        for (_, task) in self.tasks.iter().filter(|(_, task)| task.client != client.id) {
            if !task.wait_slots.iter().any(|wait_slot| wait_slot.pending.is_some()) {
                continue;
            }
            let is_akin = self
                .client(task.client)
                .is_some_and(|other| other.process.uid == client.process.uid);
            match task.reservation {
                None => return Waiters::Others,
                shared if own.contains(&shared) && !is_akin => return Waiters::Others,
                shared if own.contains(&shared) => waiting = Waiters::Family,
                Some(_) => {}
            }
        }
        waiting
    }

    fn stop(&mut self, id: ClientId) {
        self.journal.tally.stopped += 1;
        match self.clients.unresponsive.reaction {
            Reaction::Kill => self.expel(id, "it left orders unanswered, or gave up nothing, while others waited"),
            Reaction::Freeze => self.freeze(id),
        }
    }

    /// Stops a client for good: its pages stay with it, others do without them.
    ///
    /// Its agent was stopped anywhere between two instructions: what it was to take out may be in the page table or
    /// not, and a slot may yet be written to. So none of those slots is used again, and should somebody continue the
    /// client, none of its faults is served: it would find zeros where its agent had been.
    fn freeze(&mut self, id: ClientId) {
        let Some(client) = self.client_mut(id) else { return };
        let text = format!(
            "process {} ({}) is stopped: it left orders unanswered, or gave up nothing, while others waited; if it is \
             continued and answers them, it is killed",
            client.process.pid, client.process.name
        );
        client.process.signal(Signal::STOP);
        client.standing.frozen = true;
        client.waiting.parked.clear();
        client.waiting.deferred.clear();
        client.family.held.clear();
        for key in client.tasks.clone() {
            self.forget_faults(key);
        }
        self.lose_orders(id);
        let orders = self.client_mut(id).map(|client| client.outbox.abandon());
        for Outstanding { about, .. } in orders.unwrap_or_default() {
            if let About::Private { page, slot, follow } = about {
                if let (Some(_), Some(client)) = (slot, self.client_mut(id)) {
                    client.slots.lose();
                }
                self.surrendered(id, page, None, follow, Outcome::Refused);
            }
        }
        self.notice(text);
    }

    /// Whoever waits in a task of a client that was stopped for good waits for ever.
    fn forget_faults(&mut self, key: TaskKey) {
        let Some(task) = self.tasks.get_mut(key.index(), key.generation()) else {
            return;
        };
        task.queued.clear();
        for wait_slot in &mut task.wait_slots {
            wait_slot.pending = None;
        }
    }
}
