//! What one connection holds: each thing has a handle, and returns what its user is charged for it when it goes.

use crate::control::accounts::Charge;
use crate::control::handles::Handles;
use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::engine::{MapKey, Membership, ObjectKey, TaskKey};
use freehold_core::id::ReservationId;
use freehold_core::limits::PageRange;
use freehold_protocol::message::Refusal;

/// Most handles of one connection.
pub(super) const MEMBERSHIPS: usize = 16;
const TASKS: usize = 64;
const OBJECTS: usize = 1_024;
const MAPPINGS: usize = 4_096;
const LOCKS: usize = 1_024;

/// Something that a connection holds as long as it lives or until it gives it up.
#[derive(Debug)]
pub(super) struct Grant<T> {
    pub(super) what: T,
    /// Dropped with it, they return.
    _charges: Vec<Charge>,
}

impl<T> Grant<T> {
    /// For these.
    pub(super) fn new(what: T, charges: Vec<Charge>) -> Self {
        Self {
            what,
            _charges: charges,
        }
    }
}

/// An object opened on this connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenObject {
    pub(super) key: ObjectKey,
    /// A region; file objects are never written.
    pub(super) writable: bool,
    /// How often it was opened again and not yet closed as often.
    pub(super) again: u64,
}

impl OpenObject {
    /// An object opened for the first time.
    pub(super) fn new(key: ObjectKey, writable: bool) -> Self {
        Self {
            key,
            writable,
            again: 0,
        }
    }
}

/// Pages locked on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Locked {
    pub(super) reservation: ReservationId,
    pub(super) object: ObjectKey,
    pub(super) range: PageRange,
}

/// All that a connection holds.
#[derive(Debug)]
pub(super) struct Grants {
    /// Reservations and pinned page pools, under one set of handles. Who made them is charged, until nobody holds them.
    pub(super) memberships: Handles<Membership>,
    pub(super) tasks: Handles<Grant<TaskKey>>,
    pub(super) objects: Handles<Grant<OpenObject>>,
    /// What the last file that was to be opened is called; 0 where it was not opened.
    pub(super) opened_last: u32,
    pub(super) mappings: Handles<Grant<MapKey>>,
    pub(super) locks: Vec<Locked>,
}

impl Grants {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            memberships: Handles::new(MEMBERSHIPS),
            tasks: Handles::new(TASKS),
            objects: Handles::new(OBJECTS),
            opened_last: 0,
            mappings: Handles::new(MAPPINGS),
            locks: Vec::new(),
        }
    }

    /// The reservation of a handle.
    pub(super) fn reservation(&self, handle: u32) -> Result<ReservationId, Refused> {
        match self.membership(handle)? {
            Membership::Reservation(id) => Ok(id),
            Membership::Pinned(_) => {
                let text = format!("{handle} is a pinned page pool, and this request is for reservations");
                Err(Refused::new(Refusal::State, text))
            }
        }
    }

    /// The reservation or pinned page pool of a handle.
    pub(super) fn membership(&self, handle: u32) -> Result<Membership, Refused> {
        let found = self.memberships.get(handle).copied();
        found.ok_or_else(|| Refused::handle("reservation or pinned page pool", handle))
    }

    /// The task of a handle.
    pub(super) fn task(&self, handle: u32) -> Result<TaskKey, Refused> {
        let found = self.tasks.get(handle).map(|task| task.what);
        found.ok_or_else(|| Refused::handle("task", handle))
    }

    /// The object of a handle.
    pub(super) fn object(&self, handle: u32) -> Result<OpenObject, Refused> {
        let found = self.objects.get(handle).map(|object| object.what);
        found.ok_or_else(|| Refused::handle("object", handle))
    }

    /// The handle of an object that is open already, which has been opened again.
    pub(super) fn open_again(&mut self, key: ObjectKey) -> Option<u32> {
        let (handle, _) = self.objects.iter().find(|(_, object)| object.what.key == key)?;
        self.objects.get_mut(handle)?.what.again += 1;
        Some(handle)
    }

    /// An object is closed once. Its key, and its handle is nobody's, where it was opened no more often.
    pub(super) fn close(&mut self, handle: u32) -> Result<Option<ObjectKey>, Refused> {
        let unknown = || Refused::handle("object", handle);
        let open = &mut self.objects.get_mut(handle).ok_or_else(unknown)?.what;
        if open.again > 0 {
            open.again -= 1;
            return Ok(None);
        }
        Ok(self.objects.remove(handle).map(|object| object.what.key))
    }

    /// Whether more pages can be locked.
    pub(super) fn may_lock(&self) -> Result<(), Refused> {
        if self.locks.len() >= LOCKS {
            return Err(Refused::limit("locked ranges of one connection", LOCKS as u64));
        }
        Ok(())
    }

    /// Unlocks everything. What cannot be unlocked now ends with the reservation.
    pub(super) fn unlock(&mut self, registry: &Registry) {
        let mut engine = registry.shared.engine();
        for locked in self.locks.drain(..) {
            let _ = engine.unlock(locked.reservation, locked.object, locked.range);
        }
    }

    /// Gives everything up, and the client is gone: with it went its tasks and mappings. `keeps`: what it reserved
    /// stays.
    pub(super) fn end(&mut self, registry: &Registry, keeps: bool) {
        for object in self.objects.drain() {
            registry.shared.engine().close_object(object.what.key);
        }
        self.mappings.drain().for_each(drop);
        self.tasks.drain().for_each(drop);
        let memberships = self.memberships.drain();
        memberships
            .filter(|_| !keeps)
            .for_each(|membership| registry.let_go(membership));
    }
}
