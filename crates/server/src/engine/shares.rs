//! What one user may take of tables that all users share.
//!
//! Private memory, forked children and threads that wait at the same time take places in the tables without anybody
//! asking: by faults and forks. So that one user leaves something for others, each has a share of those tables, of
//! which the settings say how large it is. Root and the server's own user may take everything.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::rows::Client;

/// What one user has, of what there is.
#[derive(Clone, Copy, Debug)]
struct Use {
    has: usize,
    limit: usize,
}

impl Use {
    fn has_room_for(self, more: usize) -> bool {
        self.has.saturating_add(more) <= self.limit
    }
}

impl Engine {
    fn is_exempt(&self, uid: u32) -> bool {
        uid == 0 || uid == self.shares.own
    }

    /// The part of a table that one user may have; no bound but the table itself for who is exempt.
    fn share_of(&self, uid: u32, table: usize) -> usize {
        if self.is_exempt(uid) {
            return usize::MAX;
        }
        // Both are far below 2^32 on machines with 64 bits.
        table.saturating_mul(usize::from(self.shares.percent)) / 100
    }

    fn clients_of(&self, uid: u32) -> impl Iterator<Item = &Client> {
        let clients = self.clients.iter().map(|(_, client)| client);
        clients.filter(move |client| client.uid == uid)
    }

    /// Whether a user may have one client more. O(clients).
    pub(super) fn may_join(&self, uid: u32) -> bool {
        let clients = Use {
            has: self.clients_of(uid).count(),
            limit: self.share_of(uid, self.shares.clients),
        };
        clients.has_room_for(1)
    }

    /// Whether a client's user may have so many pages of private memory more, in one object. O(clients).
    pub(super) fn may_manage(&self, id: ClientId, pages: u32) -> bool {
        let Some(uid) = self.client(id).map(|client| client.uid) else {
            return false;
        };
        let sum =
            |what: fn(&Client) -> u32| -> usize { self.clients_of(uid).map(|client| what(client) as usize).sum() };
        let has = Use {
            has: sum(|client| client.bookings.pages),
            limit: self.share_of(uid, self.shares.pages),
        };
        let objects = Use {
            has: sum(|client| client.bookings.objects),
            limit: self.share_of(uid, self.objects.len()),
        };
        has.has_room_for(pages as usize) && objects.has_room_for(1)
    }

    /// How many pages of objects a client's user may yet have, and of how many in all. O(clients).
    pub(super) fn pages_left(&self, id: ClientId) -> (u32, u32) {
        let (left, all) = (self.records.left(), self.tables.pages);
        let Some(uid) = self
            .client(id)
            .map(|client| client.uid)
            .filter(|uid| !self.is_exempt(*uid))
        else {
            return (left, all);
        };
        let share = u32::try_from(self.share_of(uid, self.shares.pages)).unwrap_or(u32::MAX);
        let has: u32 = self.clients_of(uid).map(|client| client.bookings.pages).sum();
        (left.min(share.saturating_sub(has)), all.min(share))
    }

    /// Whether a client's user may have one task of the core more. O(tasks): asked where one is to be made, or where
    /// every lane waits and there are fewer than a task may have.
    pub(super) fn may_wait(&self, id: ClientId) -> bool {
        let Some(uid) = self.client(id).map(|client| client.uid) else {
            return false;
        };
        if self.is_exempt(uid) {
            return true;
        }
        let keys = self.clients_of(uid).flat_map(|client| &client.tasks);
        let tasks = keys.filter_map(|key| self.tasks.get(key.index(), key.generation()));
        let lanes = Use {
            has: tasks.map(|task| task.lanes.len()).sum(),
            limit: self.share_of(uid, self.lanes.len()),
        };
        lanes.has_room_for(1)
    }
}

/// Sizes of tables, and the part of one user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// The server's own user.
    own: u32,
    percent: u8,
    clients: usize,
    pages: usize,
}

impl Shares {
    pub(super) fn new(settings: &crate::Settings) -> Self {
        Self {
            own: rustix::process::geteuid().as_raw(),
            percent: settings.user_share.min(100),
            clients: usize::from(settings.clients),
            pages: settings.pages.get() as usize,
        }
    }
}
