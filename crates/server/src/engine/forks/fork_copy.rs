//! Pages for the children of forks, from wherever their parents' are.
//!
//! What a child cannot be given is an error for whoever touches it, never zeros. While the child's address space is
//! changing nothing can be copied to it: its events are read then, before it has everything, and what it dropped is not
//! given any more.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::faults::Which;
use crate::engine::faults::fault_completion::page_range;
use crate::engine::forks::LOOKED_AT;
use crate::engine::forks::fork_pending::ForkCopy;
use crate::engine::keys::ClientId;
use crate::engine::orders::Follow;
use crate::engine::private_memory::Where;
use crate::engine::spaces::forsaken::Forsaken;
use freehold_core::id::ObjectId;
use freehold_linux::userfault::Stopped;
use freehold_linux::{Errno, PageRange};
use freehold_store::PageLease;
use std::collections::BTreeSet;

/// Pages copied to a child in one dispatch.
const COPIES: usize = 32;

/// Children that are being given their pages.
#[derive(Debug, Default)]
pub(in crate::engine) struct ForkChildren {
    pub(in crate::engine) owed: Vec<ClientId>,
    /// Clients that have ended, and whose children have everything now.
    pub(in crate::engine) zombies: Vec<ClientId>,
    /// A page could not be copied to a child yet.
    pub(in crate::engine) stopped: bool,
    /// Of children that there is no room for: open until they end, or what they miss would be zeros.
    pub(in crate::engine) forsaken: Vec<Forsaken>,
    /// When to look for children that ended unconnected, and how long that was waited for; 0 for never.
    pub(super) look: (u64, u64),
}

impl Engine {
    /// Copies some pages to children. One child that has more is enough for a step.
    pub(in crate::engine) fn give_fork_copies(&mut self) {
        let (mut more, mut stopped) = (false, false);
        for fork_child in self.fork_children.owed.clone() {
            more = self.give_fork_copies_to(fork_child);
            stopped |= std::mem::take(&mut self.fork_children.stopped);
            if more {
                // The others come first next time.
                self.fork_children.owed.retain(|other| *other != fork_child);
                self.fork_children.owed.push(fork_child);
                break;
            }
        }
        self.fork_children.stopped = stopped;
        self.step.goes_on |= more;
    }

    pub(in crate::engine) fn give_fork_copies_to(&mut self, fork_child: ClientId) -> bool {
        self.look_through(fork_child, LOOKED_AT);
        let Some(client) = self.client_mut(fork_child) else {
            return false;
        };
        client.family.fork_pending.retry();
        for _ in 0..COPIES {
            let next = self
                .client_mut(fork_child)
                .and_then(|client| client.family.fork_pending.next());
            let Some(mut fork_copy) = next else { break };
            if !self.give(fork_child, &mut fork_copy)
                && let Some(client) = self.client_mut(fork_child)
            {
                client.family.fork_pending.put_off(&fork_copy);
            }
            if self.fork_children.stopped {
                break;
            }
        }
        self.look_if_done(fork_child);
        let more = |client: &Client| client.family.fork_pending.has_more();
        self.client(fork_child).is_some_and(more) && !self.fork_children.stopped
    }

    /// Gives one page to a child; false where it is not to be had yet.
    fn give(&mut self, fork_child: ClientId, fork_copy: &mut ForkCopy) -> bool {
        if fork_copy.reading {
            return false;
        }
        match self.place_at(fork_copy.object, fork_copy.page) {
            Some(Where::Slot(slot)) => self.give_slot(fork_child, fork_copy, slot),
            Some(Where::Leaving) if self.is_stored(fork_copy) => self.read_stored(fork_child, fork_copy),
            Some(Where::Leaving) => false,
            Some(Where::Nowhere) => self.read_stored(fork_child, fork_copy),
            // It was in the page table after all, and the child has it.
            Some(Where::Client | Where::Lent | Where::Blank) => true,
            None => {
                let owner = self
                    .client(fork_child)
                    .and_then(|client| self.client(client.family.from?));
                let coming = owner.and_then(|owner| owner.outbox.follow(fork_copy.object, fork_copy.page));
                coming.is_none() && self.poison_for(fork_child, fork_copy)
            }
        }
    }

    /// Whether the store has what a page on its way out held at the fork: it is dropped, and may have been by then.
    fn is_stored(&self, fork_copy: &ForkCopy) -> bool {
        let owner = self
            .object(fork_copy.object)
            .and_then(|row| self.client(row.private_client()?));
        let follow = owner.and_then(|owner| owner.outbox.follow(fork_copy.object, fork_copy.page));
        follow == Some(Follow::Discard)
    }

    /// Has a page read from the store for a child; false where it is not there yet.
    fn read_stored(&mut self, fork_child: ClientId, fork_copy: &mut ForkCopy) -> bool {
        if self.is_under_way(fork_copy.object, fork_copy.page) {
            return false;
        }
        fork_copy.reading = self.read_for(fork_child, fork_copy.object, fork_copy.page);
        !fork_copy.reading && self.poison_for(fork_child, fork_copy)
    }

    /// Copies a page of the transfer memory to a child; false where that cannot be yet.
    fn give_slot(&mut self, fork_child: ClientId, fork_copy: &ForkCopy, slot: u32) -> bool {
        if !self.finds_room(fork_child) {
            self.fork_children.stopped = true;
            return false;
        }
        let from = PageRange::single(slot as usize);
        let Some(client) = self.client(fork_child) else {
            return true;
        };
        let Some(owner) = client.family.from.and_then(|from| self.client(from)) else {
            return self.poison_for(fork_child, fork_copy);
        };
        let (Some(userfault), Ok(address)) = (client.userfaults.private.as_ref(), usize::try_from(fork_copy.address))
        else {
            return true;
        };
        let copy = || userfault.copy_pages(address, owner.slots.memory().alias(), from, false);
        let mut result = copy();
        if result.is_err_and(|stopped| stopped.errno == Errno::NOMEM) && self.give_way() {
            result = copy();
        }
        let given = self.is_given(fork_child, result);
        if given {
            self.count_filled(fork_child);
        }
        given
    }

    /// What could not be had for a child is an error for whoever touches it, and never zeros; false where that cannot
    /// be noted yet. A page that the child has stays.
    fn poison_for(&mut self, fork_child: ClientId, fork_copy: &ForkCopy) -> bool {
        let userfault = self
            .client(fork_child)
            .and_then(|client| client.userfaults.private.as_ref());
        let (Some(userfault), Some(range)) = (userfault, page_range(fork_copy.address)) else {
            return true;
        };
        let result = userfault.poison(range);
        if result.is_ok() {
            self.notice("a page that a child inherits is lost: whoever touches it gets an error");
            self.say_lost(fork_child, fork_copy.address);
        }
        self.is_given(fork_child, result)
    }

    /// Whether a child has a page, or has gone. Where its address space is changing, its events are to be read first.
    fn is_given(&mut self, fork_child: ClientId, result: Result<(), Stopped>) -> bool {
        let Err(Stopped {
            errno: Errno::AGAIN | Errno::NOMEM,
            ..
        }) = result
        else {
            return true;
        };
        self.fork_children.stopped = true;
        let heard = self
            .client_mut(fork_child)
            .map(|client| std::mem::replace(&mut client.family.heard, true));
        if heard == Some(false) {
            self.listen_to_userfault(fork_child, Which::Private, true);
        }
        false
    }

    pub(super) fn count_filled(&mut self, id: ClientId) {
        let inherits = |client: &&mut Client| !client.family.relinquished.is_own_fork_child();
        if let Some(client) = self.client_mut(id).filter(inherits) {
            client.family.filled += 1;
        }
    }

    /// A page was read from the store for a child.
    pub(in crate::engine) fn read_for_fork_child(
        &mut self,
        (fork_child, object, page): (ClientId, ObjectId, u32),
        read: Option<PageLease>,
    ) {
        let has_room = self.finds_room(fork_child);
        let Some(client) = self.client_mut(fork_child) else {
            return;
        };
        let Some(mut fork_copy) = client.family.fork_pending.take(object, page) else {
            return;
        };
        let mut given = true;
        match (read, client.userfaults.private.as_ref(), page_range(fork_copy.address)) {
            (Some(loan), Some(_), Some(_)) if !has_room => {
                self.fork_children.stopped = true;
                self.give_back(loan);
                given = false;
            }
            (Some(loan), Some(userfault), Some(range)) => {
                let result = userfault.copy(range.start(), loan.bytes(), false);
                given = self.is_given(fork_child, result);
                self.give_back(loan);
                self.count_filled(fork_child);
            }
            (Some(loan), ..) => self.give_back(loan),
            (None, ..) => given = self.poison_for(fork_child, &fork_copy),
        }
        if !given && let Some(client) = self.client_mut(fork_child) {
            // It is read once more.
            fork_copy.reading = false;
            client.family.fork_pending.put_off(&fork_copy);
        }
        self.look_if_done(fork_child);
    }

    fn look_if_done(&mut self, fork_child: ClientId) {
        let client = self.client(fork_child);
        if client.is_some_and(|client| client.family.fork_pending.is_over())
            && self.fork_children.owed.contains(&fork_child)
        {
            self.fork_copies_given(fork_child);
        }
    }

    /// A page of a parent that was to be given to its children is lost with it.
    pub(super) fn lose(&mut self, parent: ClientId, object: ObjectId, page: u32) {
        for fork_child in self.fork_children_of(parent) {
            self.look_through_before(fork_child, object, page, 1);
            let Some(client) = self.client_mut(fork_child) else {
                continue;
            };
            let Some(fork_copy) = client.family.fork_pending.take(object, page) else {
                continue;
            };
            // What the store has comes from there.
            let comes = fork_copy.reading || self.is_stored(&fork_copy);
            if (comes || !self.poison_for(fork_child, &fork_copy))
                && let Some(client) = self.client_mut(fork_child)
            {
                client.family.fork_pending.put_off(&fork_copy);
            }
            self.look_if_done(fork_child);
        }
    }

    /// The private objects of a client of which its children may want pages.
    pub(super) fn objects_with_fork_copies(&self, parent: ClientId) -> BTreeSet<ObjectId> {
        let fork_children = self.fork_children_of(parent);
        let clients = fork_children.iter().filter_map(|fork_child| self.client(*fork_child));
        clients
            .flat_map(|client| client.family.fork_pending.objects())
            .collect()
    }

    /// A child has dropped a range before it was given what it inherits there.
    pub(in crate::engine) fn cut_fork_copies(&mut self, id: ClientId, start: u64, end: u64) {
        self.look_through(id, u32::MAX);
        let Some(client) = self.client_mut(id) else { return };
        client.family.fork_pending.cut(start, end);
        self.look_if_done(id);
    }

    fn fork_children_of(&self, parent: ClientId) -> Vec<ClientId> {
        let its = |fork_child: &ClientId| {
            self.client(*fork_child)
                .is_some_and(|fork_child| fork_child.family.from == Some(parent))
        };
        self.fork_children.owed.iter().copied().filter(its).collect()
    }

    /// Pages of the parent are about to be forgotten: what they were at a fork is found out first.
    pub(in crate::engine) fn look_before(&mut self, parent: ClientId, object: ObjectId, first: u32, count: u32) {
        if self
            .client(parent)
            .is_none_or(|client| client.family.fork_children == 0)
        {
            return;
        }
        for fork_child in self.fork_children_of(parent) {
            self.look_through_before(fork_child, object, first, count);
        }
    }

    /// The parent is about to see a page, and may change it, or it is about to go: the children get it first.
    pub(in crate::engine) fn give_before(&mut self, parent: ClientId, object: ObjectId, page: u32) {
        self.look_before(parent, object, page, 1);
        self.give_owed(parent, object, page);
    }

    /// As [`give_before`](Self::give_before), of a page that was looked at.
    pub(in crate::engine) fn give_owed(&mut self, parent: ClientId, object: ObjectId, page: u32) {
        if self
            .client(parent)
            .is_none_or(|client| client.family.fork_children == 0)
        {
            return;
        }
        for fork_child in self.fork_children_of(parent) {
            let Some(client) = self.client_mut(fork_child) else {
                continue;
            };
            let Some(mut fork_copy) = client.family.fork_pending.take(object, page) else {
                continue;
            };
            if !self.give(fork_child, &mut fork_copy)
                && let Some(client) = self.client_mut(fork_child)
            {
                client.family.fork_pending.put_off(&fork_copy);
            }
            self.look_if_done(fork_child);
        }
    }

    /// Whether a child could not be given a page of its parent yet, which the parent must not change.
    pub(in crate::engine) fn is_owed(&self, parent: ClientId, object: ObjectId, page: u32) -> bool {
        let owes = self
            .client(parent)
            .is_some_and(|client| client.family.fork_children > 0);
        let awaits = |fork_child: ClientId| {
            self.client(fork_child)
                .is_some_and(|client| client.family.fork_pending.has(object, page))
        };
        owes && self.fork_children_of(parent).into_iter().any(awaits)
    }

    /// A page of a parent has arrived in the transfer memory after its object was forgotten.
    pub(in crate::engine) fn give_late(&mut self, parent: ClientId, object: ObjectId, page: u32, slot: Option<u32>) {
        for fork_child in self.fork_children_of(parent) {
            let Some(client) = self.client_mut(fork_child) else {
                continue;
            };
            let Some(fork_copy) = client.family.fork_pending.take(object, page) else {
                continue;
            };
            if let Some(slot) = slot
                && !self.give_slot(fork_child, &fork_copy, slot)
                && let Some(client) = self.client_mut(fork_child)
            {
                // The slot is free in a moment: what comes of it is an error.
                client.family.fork_pending.put_off(&fork_copy);
            }
            self.look_if_done(fork_child);
        }
    }

    /// The child has everything: it and its parent go on.
    fn fork_copies_given(&mut self, fork_child: ClientId) {
        self.fork_children.owed.retain(|other| *other != fork_child);
        self.finish_relinquishing(fork_child);
        let Some(client) = self.client_mut(fork_child) else {
            return;
        };
        let (from, heard) = (client.family.from, std::mem::take(&mut client.family.heard));
        let held = std::mem::take(&mut client.family.held);
        self.step.again.extend(held);
        if !heard {
            self.listen_to_userfault(fork_child, Which::Private, true);
        }
        self.release_parent(from);
    }

    pub(super) fn release_parent(&mut self, parent: Option<ClientId>) {
        if let Some(client) = parent.and_then(|parent| self.client_mut(parent)) {
            client.family.fork_children = client.family.fork_children.saturating_sub(1);
            if client.family.fork_children == 0 {
                let (id, gone) = (client.id, client.family.gone);
                let held = std::mem::take(&mut client.family.held);
                self.step.again.extend(held);
                if gone {
                    self.fork_children.zombies.push(id);
                }
            }
        }
    }
}
