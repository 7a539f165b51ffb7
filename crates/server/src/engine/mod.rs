//! The engine: the core, all page state, and everything that is known of clients.

mod keys;

pub use keys::{
    ClientId, ClientRole, Handover, MapKey, MapRequest, NewClient, ObjectKey, Opened, RegionRequest, TaskKey,
};

use crate::error::EngineError;
use crate::settings::Settings;
use crate::view::EngineView;
use freehold_core::Memory;
use freehold_core::id::ReservationId;
use freehold_core::limits::{Limits, PageRange, Regime, ReservationSpec};
use freehold_core::view::TaskCounts;
use rustix::fd::OwnedFd;
use std::time::Duration;

/// The server's one state machine. Every method is a short step that waits for nobody.
#[derive(Debug)]
pub struct Engine {
    core: Memory,
}

const fn not_yet<T>(what: &'static str) -> Result<T, EngineError> {
    Err(EngineError::NotYet { what })
}

impl Engine {
    /// Makes all tables, the store and the reserve.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn new(settings: &Settings) -> Result<Self, EngineError> {
        let core = Limits {
            frames: settings.frames,
            pages: settings.pages,
            reservations: settings.reservations,
            objects: settings.objects,
            tasks: settings.tasks,
            mappings: settings.mappings,
            compared_pages: settings.compared_pages,
            shared_locks: settings.shared_locks,
        }
        .seal()?;
        Ok(Self { core })
    }

    /// Takes in a process. The descriptors are checked; its faults are served from now on.
    ///
    /// # Errors
    /// [`EngineError::Descriptor`], [`EngineError::Limit`], [`EngineError::System`].
    pub fn add_client(&mut self, client: NewClient) -> Result<(ClientId, Handover), EngineError> {
        let _ = client;
        not_yet("clients")
    }

    /// The child of a fork has connected: gives it the userfaultfds that the kernel made for it, shared then private.
    /// `parent_pid` is the process id of its parent, as the server sees it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`]; [`EngineError::WouldWait`] until the kernel has told of the fork.
    pub fn forked(&mut self, client: ClientId, parent_pid: u32) -> Result<Vec<OwnedFd>, EngineError> {
        let _ = (client, parent_pid);
        not_yet("fork")
    }

    /// A client is gone, or is to be treated as gone: everything it had returns. Idempotent.
    pub fn remove_client(&mut self, client: ClientId) {
        let _ = client;
    }

    /// Whether the client is still there: it ends also when its process does.
    #[must_use]
    pub fn has_client(&self, client: ClientId) -> bool {
        let _ = client;
        false
    }

    /// Admits a reservation. It is kept until [`release`](Self::release) is called and its last task is gone.
    ///
    /// # Errors
    /// [`EngineError::WouldWait`]: its frames are being gathered; ask again soon, or call
    /// [`stop_gathering`](Self::stop_gathering). [`EngineError::Admit`].
    pub fn admit(&mut self, name: &str, spec: ReservationSpec) -> Result<ReservationId, EngineError> {
        let _ = name;
        Ok(self.core.admit(spec)?)
    }

    /// Whoever waited for an admission has given up.
    pub fn stop_gathering(&mut self) {
        self.core.stop_gathering();
    }

    /// Nobody holds the reservation any more: it ends with its last task. Idempotent.
    pub fn release(&mut self, reservation: ReservationId) {
        let _ = reservation;
    }

    /// Makes a task. The client's private memory belongs to its first.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::Create`].
    pub fn add_task(
        &mut self,
        client: ClientId,
        reservation: Option<ReservationId>,
        urgency: u8,
        name: &str,
    ) -> Result<TaskKey, EngineError> {
        let _ = (client, reservation, urgency, name);
        not_yet("tasks")
    }

    /// Ends a task; its mappings go.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn remove_task(&mut self, client: ClientId, task: TaskKey) -> Result<(), EngineError> {
        let _ = (client, task);
        not_yet("tasks")
    }

    /// Changes how urgent a task is.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn set_urgency(&mut self, client: ClientId, task: TaskKey, urgency: u8) -> Result<(), EngineError> {
        let _ = (client, task, urgency);
        not_yet("tasks")
    }

    /// Opens the object of a file's content; `file` is the client's descriptor, `path` only for reports. The answer
    /// holds a read-only descriptor.
    ///
    /// # Errors
    /// [`EngineError::Descriptor`] where it is not a regular file open for reading, or empty.
    pub fn open_file(&mut self, file: OwnedFd, regime: Regime, path: &str) -> Result<Opened, EngineError> {
        let _ = (file, regime, path);
        not_yet("file objects")
    }

    /// Opens a region, the named one if it is there. The answer holds a descriptor to read and write. Whether the peer
    /// may have it is the caller's to judge: see [`region_owner`](Self::region_owner).
    ///
    /// # Errors
    /// [`EngineError::Differs`], [`EngineError::Create`], [`EngineError::System`].
    pub fn open_region(&mut self, request: &RegionRequest<'_>) -> Result<Opened, EngineError> {
        let _ = request;
        not_yet("regions")
    }

    /// The user whose region has this name.
    #[must_use]
    pub fn region_owner(&self, name: &str) -> Option<u32> {
        let _ = name;
        None
    }

    /// Ends one opening of an object. It is forgotten when it was opened by nobody else and nobody maps it.
    pub fn close_object(&mut self, object: ObjectKey) {
        let _ = object;
    }

    /// A client has mapped and registered an object, or a part of it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`], [`EngineError::NoSuchObject`], [`EngineError::Range`], [`EngineError::Overlap`],
    /// [`EngineError::Create`].
    pub fn map(&mut self, client: ClientId, request: &MapRequest) -> Result<MapKey, EngineError> {
        let _ = (client, request);
        not_yet("mappings")
    }

    /// A client has unmapped.
    ///
    /// # Errors
    /// [`EngineError::NoSuchMapping`], [`EngineError::Remove`].
    pub fn unmap(&mut self, client: ClientId, mapping: MapKey) -> Result<(), EngineError> {
        let _ = (client, mapping);
        not_yet("mappings")
    }

    /// Begins to lock pages; ask [`is_locked`](Self::is_locked) when that has happened.
    ///
    /// # Errors
    /// [`EngineError::Lock`], [`EngineError::NoSuchObject`].
    pub fn lock(&mut self, reservation: ReservationId, object: ObjectKey, range: PageRange) -> Result<(), EngineError> {
        let _ = (reservation, object, range);
        not_yet("locks")
    }

    /// Whether the reservation's last lock is complete.
    ///
    /// # Errors
    /// [`EngineError::LockFailed`], [`EngineError::NoSuchReservation`].
    pub fn is_locked(&mut self, reservation: ReservationId) -> Result<bool, EngineError> {
        let _ = reservation;
        not_yet("locks")
    }

    /// Unlocks pages.
    ///
    /// # Errors
    /// [`EngineError::Unlock`], [`EngineError::NoSuchObject`].
    pub fn unlock(
        &mut self,
        reservation: ReservationId,
        object: ObjectKey,
        range: PageRange,
    ) -> Result<(), EngineError> {
        let _ = (reservation, object, range);
        not_yet("locks")
    }

    /// Leaves private memory where it is from now on.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::Range`].
    pub fn keep(&mut self, client: ClientId, address: u64, length: u64) -> Result<(), EngineError> {
        let _ = (client, address, length);
        not_yet("keeping")
    }

    /// What happened to a task so far.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn counts(&self, client: ClientId, task: TaskKey) -> Result<TaskCounts, EngineError> {
        let _ = (client, task);
        not_yet("counts")
    }

    /// A periodic task has ended a job.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn job_end(
        &mut self,
        client: ClientId,
        task: TaskKey,
        response: Duration,
        missed: bool,
    ) -> Result<(), EngineError> {
        let _ = (client, task, response, missed);
        not_yet("jobs")
    }

    /// Samples which shared pages a client references in each period; zero ends it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`].
    pub fn sample(&mut self, client: ClientId, period: Duration) -> Result<(), EngineError> {
        let _ = (client, period);
        not_yet("sampling")
    }

    /// Everything at this moment. O(everything): not for the fault path.
    ///
    /// # Errors
    /// [`EngineError::System`] where the kernel does not count resident pages.
    pub fn view(&self) -> Result<EngineView, EngineError> {
        not_yet("views")
    }

    /// The core, for questions that the view does not answer.
    #[must_use]
    pub fn core(&self) -> &Memory {
        &self.core
    }
}
