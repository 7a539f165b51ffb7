//! Reservations and locks.

use crate::engine::Engine;
use crate::engine::keys::{Membership, ObjectKey};
use crate::engine::rows_of;
use crate::engine::tasks::Task;

use crate::error::EngineError;
use crate::settings::Settings;
use freehold_core::error::{AdmitError, LockError};
use freehold_core::frames::Frames;
use freehold_core::id::ReservationId;
use freehold_core::limits::ReservationKind;
use freehold_core::limits::{PageRange, ReservationSpec};
use freehold_core::units::{FrameCount, PageCount, PageIndex};

/// How a reservation's lock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    Idle,
    UnderWay,
    Failed,
}

/// A reservation.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) id: ReservationId,
    pub(crate) name: String,
    pub(crate) kind: ReservationKind,
    /// Tasks in it.
    pub(crate) tasks: u32,
    /// Nobody holds it any more: it ends with its last task.
    pub(crate) released: bool,
    pub(crate) locking: Locking,
    /// What its last lock is to lock, or what of that is still to be unlocked since it has failed.
    pub(crate) lock: Option<(ObjectKey, PageRange)>,
}

/// Pages that a lock brings in with one step: each may have to be copied from the page cache.
const LOCKED: PageCount = PageCount::new(16);

/// Pages of a lock that has failed which are unlocked with one step.
const UNLOCKED: u32 = 64;

/// All reservations.
#[derive(Debug)]
pub(super) struct Reservations {
    /// By the core's reservation slots.
    rows: Vec<Option<Reservation>>,
    /// Somebody waits for frames to be admitted.
    pub(super) reclaiming: bool,
    /// Frames that stay for tasks without one.
    left: FrameCount,
}

rows_of!(Reservations { rows: [Option<Reservation>] });

impl Reservations {
    /// None yet.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            left: settings.least_unreserved,
            rows: (0..settings.tables.reservations).map(|_| None).collect(),
            reclaiming: false,
        }
    }
}

impl Engine {
    pub(super) fn reservation(&self, id: ReservationId) -> Option<&Reservation> {
        self.reservations.get(id.index())?.as_ref().filter(|row| row.id == id)
    }

    pub(super) fn reservation_mut(&mut self, id: ReservationId) -> Option<&mut Reservation> {
        self.reservations
            .get_mut(id.index())?
            .as_mut()
            .filter(|row| row.id == id)
    }

    /// Whether a reservation or pinned page pool is still there.
    pub(crate) fn has_membership(&self, id: Membership) -> bool {
        match id {
            Membership::Reservation(id) => self.reservation(id).is_some(),
            Membership::Pinned(id) => self.pinned_pool(id).is_some(),
        }
    }

    /// Whether the pool has frames for a task without a reservation.
    ///
    /// # Errors
    /// [`EngineError::AllReserved`].
    pub(super) fn look_for_unreserved(&self) -> Result<(), EngineError> {
        if self.core.unreserved() < self.reservations.left {
            return Err(EngineError::AllReserved);
        }
        Ok(())
    }

    /// Whether reservations that take so many frames more leave some for the tasks that have none. What is more than
    /// there is, is for the core to refuse.
    fn look_for_left(&self, wanted: FrameCount) -> Result<(), EngineError> {
        let (admissible, left) = (self.core.admissible(), self.reservations.left);
        let leaves = admissible.saturating_sub(wanted);
        let has_none = |task: &Task| task.reservation.is_none() && !task.ending;
        let somebody = || self.tasks.iter().any(|(_, task)| has_none(task));
        if wanted <= admissible && leaves < left && somebody() {
            return Err(EngineError::LeavesNone {
                wanted,
                admissible,
                left,
            });
        }
        Ok(())
    }

    /// Admits a reservation. It is kept until [`release`](Self::release) is called and its last task is gone.
    ///
    /// # Errors
    /// [`EngineError::WouldWait`]: its frames are being reclaimed; ask again soon, or call
    /// [`stop_reclaim`](Self::stop_reclaim). [`EngineError::LeavesNone`]. [`EngineError::Admit`].
    pub fn admit(&mut self, name: &str, spec: ReservationSpec) -> Result<ReservationId, EngineError> {
        self.look_for_left(spec.capacity)?;
        let id = match self.step(|engine| engine.core.admit(spec)) {
            Ok(id) => id,
            Err(AdmitError::InUse { .. }) => {
                self.step(|engine| engine.core.reclaim_for_admission(spec.capacity))?;
                if !std::mem::replace(&mut self.reservations.reclaiming, true) {
                    // What a client refused before anybody waited does not count.
                    for (_, client) in self.clients.iter_mut() {
                        client.standing.refusing = 0;
                    }
                }
                return Err(EngineError::WouldWait);
            }
            Err(error) => return Err(error.into()),
        };
        self.reservations.reclaiming = false;
        if let Some(row) = self.reservations.get_mut(id.index()) {
            *row = Some(Reservation {
                id,
                name: name.to_owned(),
                kind: spec.kind,
                tasks: 0,
                released: false,
                locking: Locking::Idle,
                lock: None,
            });
        }
        self.use_spare();
        Ok(id)
    }

    /// Takes frames out of the pool for good, by the test that admits reservations.
    ///
    /// # Errors
    /// As of an admission.
    pub fn set_aside(&mut self, frames: FrameCount) -> Result<Frames, EngineError> {
        self.step(|engine| {
            let taken = engine.core.set_aside(frames);
            Ok(taken?)
        })
    }

    /// Whoever waited for an admission has given up.
    pub fn stop_reclaim(&mut self) {
        self.step(|engine| {
            engine.reservations.reclaiming = false;
            engine.core.stop_reclaim();
        });
    }

    /// Nobody holds the reservation any more: it ends with its last task. Idempotent.
    pub fn release(&mut self, reservation: ReservationId) {
        self.step(|engine| {
            if let Some(row) = engine.reservation_mut(reservation) {
                row.released = true;
            }
            engine.end_reservation(reservation);
        });
    }

    /// Begins to lock pages; ask [`is_locked`](Self::is_locked) when that has happened.
    ///
    /// # Errors
    /// [`EngineError::Lock`], [`EngineError::NoSuchReservation`].
    pub fn lock(&mut self, reservation: ReservationId, object: ObjectKey, range: PageRange) -> Result<(), EngineError> {
        // Whoever waited for the last one may be gone.
        while self.has_failed_lock(reservation) {
            if self.core.brings_locked_pages(reservation) {
                return Err(LockError::InProgress.into());
            }
            let _ = self.unlock_some(reservation);
        }
        self.step(|engine| {
            if engine.reservation(reservation).is_none() {
                return Err(EngineError::NoSuchReservation);
            }
            engine.core.allow_locking(LOCKED);
            engine.core.lock(reservation, object, range)?;
            if let Some(row) = engine.reservation_mut(reservation) {
                row.locking = Locking::UnderWay;
                row.lock = Some((object, range));
            }
            Ok(())
        })
    }

    /// One step of the locks in progress, by whoever has time for it; whether there is more to do.
    pub(crate) fn lock_some(&mut self) -> bool {
        if self.core.wants_locking() {
            self.step(|engine| engine.core.allow_locking(LOCKED));
            // What has come in has taken frames, and the backing has as many too much.
            if self.backing.locked.note(LOCKED.get() as usize) {
                let due = self.backing_due();
                self.backing.locked.follow(self.due_with_spare(due));
            }
        }
        self.core.wants_locking()
    }

    /// Whether the reservation's last lock is complete.
    ///
    /// # Errors
    /// [`EngineError::LockFailed`]: none of its pages is locked. [`EngineError::NoSuchReservation`].
    pub fn is_locked(&mut self, reservation: ReservationId) -> Result<bool, EngineError> {
        self.step(|engine| engine.core.allow_locking(LOCKED));
        let row = self
            .reservation_mut(reservation)
            .ok_or(EngineError::NoSuchReservation)?;
        match row.locking {
            Locking::Idle => Ok(true),
            Locking::UnderWay => Ok(false),
            Locking::Failed => self.unlock_some(reservation),
        }
    }

    fn has_failed_lock(&self, reservation: ReservationId) -> bool {
        self.reservation(reservation)
            .is_some_and(|row| row.locking == Locking::Failed)
    }

    /// Unlocks pages that a failed lock has locked; false as long as there are more.
    fn unlock_some(&mut self, reservation: ReservationId) -> Result<bool, EngineError> {
        if self.core.brings_locked_pages(reservation) {
            // They are locked when they come.
            return Ok(false);
        }
        let row = self.reservation_mut(reservation);
        let Some((object, pages)) = row.and_then(|row| row.lock.take()) else {
            if let Some(row) = self.reservation_mut(reservation) {
                row.locking = Locking::Idle;
            }
            return Err(EngineError::LockFailed);
        };
        let range = |first: u32, count: u32| PageRange {
            first: PageIndex::new(first),
            count: PageCount::new(count),
        };
        let (first, count) = (pages.first.get(), pages.count.get());
        let now = count.min(UNLOCKED);
        for page in first..first + now {
            // Those to which it has not come are not locked. Where frames lack to share one again, it stays so.
            let _ = self.unlock(reservation, object, range(page, 1));
        }
        if let Some(row) = self.reservation_mut(reservation).filter(|_| count > now) {
            row.lock = Some((object, range(first + now, count - now)));
        }
        Ok(false)
    }

    /// Unlocks pages.
    ///
    /// # Errors
    /// [`EngineError::Unlock`]. [`EngineError::LeavesNone`]: others keep the pages locked, and the frames to share them
    /// again would be the last ones that nobody reserved.
    pub fn unlock(
        &mut self,
        reservation: ReservationId,
        object: ObjectKey,
        range: PageRange,
    ) -> Result<(), EngineError> {
        // The pages are looked at twice only where frames are that short.
        let most = FrameCount::new(range.count.get());
        if self.core.admissible().saturating_sub(most) < self.reservations.left {
            let needed = self.core.frames_to_unlock(reservation, object, range)?;
            if needed > FrameCount::ZERO {
                self.look_for_left(needed)?;
            }
        }
        self.step(|engine| {
            engine.core.unlock(reservation, object, range)?;
            Ok(())
        })
    }
}
