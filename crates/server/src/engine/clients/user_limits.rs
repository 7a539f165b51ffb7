//! What one user may take of the engine's tables, which all users share: see [`crate::share`] for the rule.
//!
//! Private memory, forked children and threads that wait take places in the tables without anybody asking: by faults
//! and forks. Root and the server's own user may take everything. All is counted when somebody wants more, for the rule
//! looks at everybody; who may take everything is not counted for.

use crate::engine::Engine;
use crate::engine::clients::programs::Programs;
use crate::engine::keys::{ClientId, ClientRole, TaskKey};
use crate::share::Share;
use freehold_core::limits::ObjectKind;
use freehold_core::units::FrameCount;
use std::collections::BTreeMap;

/// A fork finds a place while so many are left: others may fork at the same time.
const SPARE: u64 = 4;
/// While no more than one in so many places are taken everybody finds one.
const FEW: usize = 8;

/// Of the pages that there are, and of a user's, one in so many may be files': whatever programs map, there is room for
/// private memory.
const FILE_SHARE: u32 = 2;

/// What users have of one table.
type Uses = BTreeMap<u32, u64>;

impl Engine {
    pub(super) fn is_exempt(&self, uid: u32) -> bool {
        uid == 0 || uid == self.clients.user_limits.own
    }

    /// Whether a user may have so much more of a table of `size` rows.
    fn allows(&self, uid: u32, more: u64, size: u64, mut uses: Uses) -> bool {
        uses.retain(|user, _| !self.is_exempt(*user));
        let has = uses.remove(&uid).unwrap_or(0);
        has.saturating_add(more) <= Share::of(size, self.clients.user_limits.percent).most(uses.into_values())
    }

    /// Whether somebody of a user's may connect; or what there are too many of. O(clients).
    pub(super) fn may_connect(&self, uid: u32, role: ClientRole) -> Result<(), &'static str> {
        let users = self.programs_of_users();
        let has_row = role == ClientRole::Program && users.get(&uid).is_some_and(|own| own.await_one());
        let more = u64::from(!has_row);
        if !self.has_places(more, &users) {
            Err("clients")
        } else if !self.has_programs_left(uid, more, &users) {
            Err("clients of one user")
        } else {
            Ok(())
        }
    }

    /// Whether a user's program may have one child more. O(clients).
    pub(in crate::engine) fn may_fork(&self, uid: u32) -> bool {
        let users = self.programs_of_users();
        self.has_places(1, &users) && self.has_programs_left(uid, 1, &users)
    }

    fn has_places(&self, more: u64, users: &BTreeMap<u32, Programs>) -> bool {
        let count: u64 = users.values().map(|programs| programs.count()).sum();
        count + more <= self.clients.user_limits.clients
    }

    fn has_programs_left(&self, uid: u32, more: u64, users: &BTreeMap<u32, Programs>) -> bool {
        let uses = || users.iter().map(|(user, programs)| (*user, programs.count())).collect();
        self.is_exempt(uid) || self.allows(uid, more, self.clients.user_limits.clients, uses())
    }

    fn programs_of_users(&self) -> BTreeMap<u32, Programs> {
        let mut users = BTreeMap::<u32, Programs>::new();
        for (_, client) in self.clients.iter() {
            users.entry(client.process.uid).or_default().add(client);
        }
        users
    }

    /// Tells every client whether there is a place for one more child of it: its agent refuses forks where there is
    /// none. O(clients), times users where many places are taken.
    pub(in crate::engine) fn tell_of_room(&mut self) {
        let count = self.clients.count();
        let before = std::mem::replace(&mut self.clients.told, count);
        if (before.max(count) * FEW) as u64 <= self.clients.user_limits.clients {
            return;
        }
        let mut users = self.programs_of_users();
        if !self.has_places(SPARE, &users) {
            self.end_unconnected_now();
            users = self.programs_of_users();
        }
        let has_places = self.has_places(SPARE, &users);
        let has_room = |uid: &u32| has_places && self.has_programs_left(*uid, SPARE, &users);
        let room: BTreeMap<u32, bool> = users.keys().map(|uid| (*uid, has_room(uid))).collect();
        for (_, client) in self.clients.iter() {
            let has_room = room.get(&client.process.uid).is_none_or(|room| *room);
            client.outbox.tell_of_room(has_room);
        }
    }

    /// Whether a user may have one object of so many pages more. O(objects).
    pub(in crate::engine) fn may_have(&self, uid: u32, pages: u32) -> bool {
        if self.is_exempt(uid) {
            return true;
        }
        let objects = || self.objects.iter().flatten();
        let each = sum(objects().map(|object| (object.payer, 1)));
        let all = sum(objects().map(|object| (object.payer, u64::from(object.pages))));
        self.allows(uid, 1, self.objects.len() as u64, each)
            && self.allows(uid, pages.into(), self.clients.user_limits.pages.into(), all)
    }

    /// Whether files may have so many pages more.
    pub(in crate::engine) fn has_room_for_file(&self, pages: u32) -> bool {
        self.objects.file_pages().saturating_add(pages) <= self.clients.user_limits.pages / FILE_SHARE
    }

    /// Whether a user's files may have so many pages more. O(objects).
    pub(in crate::engine) fn may_have_file(&self, uid: u32, pages: u32) -> bool {
        if self.is_exempt(uid) {
            return true;
        }
        let files = self
            .objects
            .iter()
            .flatten()
            .filter(|object| object.kind() == ObjectKind::File);
        let all = sum(files.map(|object| (object.payer, u64::from(object.pages))));
        let size = self.clients.user_limits.pages / FILE_SHARE;
        self.allows(uid, pages.into(), size.into(), all)
    }

    /// About how many pages of objects a client's user may yet have, and of how many in all. O(clients).
    pub(in crate::engine) fn pages_left(&self, id: ClientId) -> (u32, u32) {
        let (left, all) = (self.objects.pages_left(), self.clients.user_limits.pages);
        let Some(uid) = self.uid_of(id).filter(|uid| !self.is_exempt(*uid)) else {
            return (left, all);
        };
        let most = Share::of(all.into(), self.clients.user_limits.percent).most([]);
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let clients = self.clients.iter().filter(|(_, client)| client.process.uid == uid);
        let has: u32 = clients.map(|(_, client)| client.memory.bookings.pages).sum();
        (left.min(most.saturating_sub(has)), most)
    }

    /// Whether a task's user may have one mapping of the core more. O(tasks).
    pub(in crate::engine) fn may_map(&self, key: TaskKey) -> bool {
        let task = self.tasks.get(key.index(), key.generation());
        let Some(uid) = task.and_then(|task| self.uid_of(task.client)) else {
            return true;
        };
        if self.is_exempt(uid) {
            return true;
        }
        let tasks = self.tasks.iter().map(|(_, task)| task);
        let mappings = tasks.filter_map(|task| Some((self.uid_of(task.client)?, task.mappings.len() as u64)));
        self.allows(uid, 1, self.clients.user_limits.mappings, sum(mappings))
    }

    /// Whether a client's user may have one task of the core more. O(tasks): asked where one is to be made, or where
    /// every wait slot waits and there are fewer than a task may have.
    pub(in crate::engine) fn may_wait(&self, id: ClientId) -> bool {
        let Some(uid) = self.uid_of(id) else { return false };
        if self.is_exempt(uid) {
            return true;
        }
        let tasks = self.tasks.iter().map(|(_, task)| task);
        let wait_slots = tasks.filter_map(|task| Some((self.uid_of(task.client)?, task.wait_slots.len() as u64)));
        self.allows(uid, 1, self.tasks.most_wait_slots() as u64, sum(wait_slots))
    }

    pub(in crate::engine) fn uid_of(&self, id: ClientId) -> Option<u32> {
        self.client(id).map(|client| client.process.uid)
    }
}

fn sum(rows: impl Iterator<Item = (u32, u64)>) -> Uses {
    let mut uses = Uses::new();
    for (user, amount) in rows {
        *uses.entry(user).or_default() += amount;
    }
    uses
}

/// Sizes of tables, and the part of all users but root and the server's own.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct UserLimits {
    /// The server's own user.
    own: u32,
    percent: u8,
    clients: u64,
    mappings: u64,
    /// Pages of all objects.
    pages: u32,
    /// Frames of the pool.
    pub(in crate::engine) frames: FrameCount,
}

impl UserLimits {
    pub(super) fn new(settings: &crate::Settings) -> Self {
        Self {
            own: rustix::process::geteuid().as_raw(),
            percent: settings.tables.user_share.min(100),
            clients: settings.tables.clients.into(),
            mappings: settings.tables.mappings.into(),
            pages: settings.pages.get(),
            frames: settings.frames,
        }
    }
}
