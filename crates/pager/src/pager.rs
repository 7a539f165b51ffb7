//! The pager as its user sees it: commands, made by any thread, one at a time.

use crate::backing::frames_to_back;
use crate::completion_queue::Ends;
use crate::config::{Config, Pace, StoreMedium, StoreShape};
use crate::context::Context;
use crate::error::{CreateObjectError, LockPagesError, ReserveError, StartError};
use crate::install;
use crate::locked_backing::LockedBacking;
use crate::object::Object;
use crate::pinned::Pinned;
use crate::recorder::Events;
use crate::shared::{Control, LOCK_DONE, LOCK_FAILED, LOCK_OPEN, Objects, Pacing, Room, Shared, TaskRow};
use crate::task::{Local, TaskHandle};
use crate::transfer_table::Transfers;
use freehold_core::Memory;
use freehold_core::effect::Holder;
use freehold_core::error::{AdmitError, CreateError, RemoveError, UnlockError};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{ObjectId, ReservationId, TaskId};
use freehold_core::law::Violation;
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, PageRange, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};
use freehold_driver::{HolderRow, WHEN_TOLD};
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::userfault::{Features, Userfault};
use freehold_store::{
    CompressedConfig, CompressedStore, FileConfig, FileStore, MemoryStore, Record, SetupError, Slot, Store,
    StoreConfig, Urgency,
};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Transfers of other tasks that may end first while the frames of an admission are reclaimed.
const OTHERS_TRANSFERS: u32 = 10_000;

/// How often an admission whose frames are in use looks again while nothing that it could end is under way.
const IDLE_LOOKS: u32 = 1_000;

/// How long a command that waits for another thread sleeps before it looks again.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_micros(50);

/// How long a command waits for the store to tell of an end before it looks again.
const LONGEST_LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// The live driver of the core, embedded in the program.
///
/// Commands may be given by any thread and at any time; they are carried out one after the other. When the last pager,
/// task and guard is gone everything is given back: handler, mappings, memfds, locked memory, the userfaultfd.
///
/// ```
/// use freehold_pager::core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
/// use freehold_pager::core::units::{FrameCount, PageCount};
/// use freehold_pager::{Config, Pager};
///
/// let pager = Pager::new(Config::new(Limits {
///     frames: FrameCount::new(64),
///     pages: PageCount::new(128),
///     reservations: 2,
///     objects: 2,
///     tasks: 2,
///     mappings: 4,
///     compared_pages: PageCount::ZERO,
///     shared_locks: PageCount::ZERO,
/// }))?;
/// let reservation = pager.reserve(ReservationSpec {
///     capacity: FrameCount::new(16),
///     kind: ReservationKind::Hard,
/// })?;
/// let object = pager.create_object(ObjectSpec {
///     kind: ObjectKind::Private,
///     pages: PageCount::new(100),
///     regime: Regime::Conserve,
/// })?;
/// let task = pager.add_task(Some(reservation))?;
/// let region = task.map(object)?;
/// let bound = task.enter()?;
/// // 100 pages in 16 frames: what does not fit goes to the store and comes back.
/// for page in 0..100 {
///     bound.write_word(&region, page * 512, 7)?;
/// }
/// for page in 0..100 {
///     assert_eq!(bound.read_word(&region, page * 512)?, 7);
/// }
/// assert_eq!(task.counts().zero_fills, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pager {
    shared: Arc<Shared>,
}

/// Whether a lock of pages is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Locking {
    /// All pages are resident and locked.
    Complete,
    /// Pages are on their way in; only in [`Pace::Manual`], where their transfers end when the coordinator says so.
    Pending,
}

impl Pager {
    /// Makes a pager: all tables are allocated, the handler is installed, the headroom is there.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left behind.
    pub fn new(config: Config) -> Result<Self, StartError> {
        let Config {
            limits,
            pace,
            store,
            medium,
            read_ahead,
            watch,
            files,
            events,
        } = config;
        let userfault = Userfault::open(Features::SELF_PAGING)?;
        let mut core = limits.seal().map_err(StartError::Core)?;
        core.set_read_ahead(read_ahead);
        let max_effects = core.max_effects();
        let tasks = usize::from(limits.tasks);
        let pages = limits.pages.get() as usize;
        let reservations = usize::from(limits.reservations);
        let rows: Arc<[TaskRow]> = (0..tasks).map(|_| TaskRow::default()).collect();
        let transfers = Arc::new(Transfers::new(most_transfers(&limits), pages, reservations + 1));
        let ends = Arc::new(Ends::new(Arc::clone(&transfers), Arc::clone(&rows)));
        let shared = Shared {
            store: open_store(limits.pages, store, medium, &ends)?,
            tasks: rows,
            objects: Objects {
                rows: (0..limits.objects).map(|_| OnceLock::new()).collect(),
                epochs: crate::epoch::Epochs::new(pages),
                files,
                #[cfg(feature = "canary")]
                copies_before_zapping: std::sync::atomic::AtomicBool::new(false),
            },
            transfers,
            ends,
            locked: LockedBacking::new(limits.frames.get() as usize, tasks)?,
            core: PiMutex::new(core),
            pacing: Pacing {
                pace,
                manual_now: AtomicU64::new(0),
                watch,
            },
            counters: crate::counters::Counters::default(),
            locks: (0..reservations).map(|_| AtomicU8::new(LOCK_DONE)).collect(),
            busy: (0..=tasks).map(|_| PiMutex::new(())).collect(),
            control: PiMutex::new(Control {
                context: Context::new(None, max_effects, tasks, events.as_ref()),
                pages_given: 0,
            }),
            room: Room {
                effects: max_effects,
                pages: limits.pages.get(),
                events,
            },
            userfault,
            _handler: install::share_handler()?,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Admits a reservation and backs its frames. Where frames that nobody has a claim to are in use, lent to firm
    /// reservations or by tasks without one, they are reclaimed first: at most one transfer for each frame, as many at
    /// a time as the store serves, and nobody whose frames they are has to do anything for it.
    ///
    /// # Errors
    /// See [`ReserveError`]; nothing is reserved then.
    pub fn reserve(&self, spec: ReservationSpec) -> Result<ReservationId, ReserveError> {
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        let mut admitted = self.shared.step(context, |core, _| core.admit(spec));
        if matches!(admitted, Err(AdmitError::InUse { .. })) {
            self.reclaim_for_admission(context, spec.capacity);
            admitted = self.shared.step(context, |core, _| core.admit(spec));
            if admitted.is_err() {
                self.shared.step(context, |core, _| core.stop_reclaim());
            }
        }
        let id = admitted?;
        if let Err(errno) = self.adjust(context) {
            // The tasks of a new reservation cannot be in the way.
            let _ = self.shared.step(context, |core, _| core.release(id));
            let _ = self.adjust(context);
            return Err(ReserveError::NoFrames(errno));
        }
        Ok(id)
    }

    /// Ends a reservation; its tasks must be gone.
    ///
    /// # Errors
    /// See [`RemoveError`].
    pub fn release(&self, reservation: ReservationId) -> Result<(), RemoveError> {
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        self.shared.step(context, |core, _| core.release(reservation))
    }

    /// Makes a memory object, which lives as long as the pager. The pages of an object of kind file are zeros that are
    /// read from the store at first touch; give them other content with [`Pager::load`].
    ///
    /// # Errors
    /// See [`CreateObjectError`]; nothing is made then.
    pub fn create_object(&self, spec: ObjectSpec) -> Result<ObjectId, CreateObjectError> {
        let mut control = self.shared.control.lock();
        let first = control.pages_given;
        let room = self.shared.room.pages - first;
        if spec.pages.get() > room {
            return Err(CreateError::PagesFull { wanted: spec.pages }.into());
        }
        let context = &mut control.context;
        let id = self.shared.step(context, |core, _| core.create_object(spec))?;
        let pages = spec.pages.get() as usize;
        let object = match Object::new(id, spec.kind, first, pages, self.shared.tasks.len()) {
            Ok(object) => object,
            Err(error) => {
                let _ = self.shared.step(context, |core, _| core.remove_object(id));
                return Err(error);
            }
        };
        if spec.kind == ObjectKind::File {
            for page in 0..spec.pages.get() {
                self.shared.store.seed(Slot::new(first + page), None)?;
            }
        }
        control.pages_given += spec.pages.get();
        // Vacant: objects are never removed, so the core gives out each index once.
        let _ = self.shared.objects.rows[id.index()].set(object);
        Ok(id)
    }

    /// Gives a page of an object of kind file its content, before any task has touched it.
    ///
    /// # Errors
    /// [`CreateObjectError::Refused`] if the object is unknown, not of kind file or has no such page;
    /// [`CreateObjectError::Content`].
    pub fn load(&self, object: ObjectId, page: PageIndex, content: &Record) -> Result<(), CreateObjectError> {
        let found = self.shared.object(object).ok_or(CreateError::Stale)?;
        if found.kind != ObjectKind::File || page.get() as usize >= found.pages() {
            return Err(CreateError::BadBase.into());
        }
        let slot = Slot::new(found.first + page.get());
        Ok(self.shared.store.seed(slot, Some(content))?)
    }

    /// Makes a task, in a reservation or without one.
    ///
    /// # Errors
    /// [`CreateError::TableFull`], or [`CreateError::Stale`] where the reservation is gone.
    pub fn add_task(&self, reservation: Option<ReservationId>) -> Result<TaskHandle, CreateError> {
        let holder = reservation.map_or(Holder::Pool, Holder::Reservation);
        self.make_task(holder, None, |core| core.add_task(reservation))
    }

    pub(crate) fn make_task(
        &self,
        holder: Holder,
        pinned: Option<Pinned>,
        make: impl FnOnce(&mut Memory) -> Result<TaskId, CreateError>,
    ) -> Result<TaskHandle, CreateError> {
        let mut control = self.shared.control.lock();
        let shared = &self.shared;
        let id = shared.step(&mut control.context, |core, _| make(core))?;
        let holder = HolderRow::from(holder);
        let row = &shared.tasks[id.index()];
        row.holder.store(holder.get(), Ordering::Release);
        row.set_urgency(Urgency::BACKGROUND);
        let local = row.local.get_or_init(|| {
            let me = u16::try_from(id.index()).ok();
            PiMutex::new(Local {
                task: id,
                holder,
                context: Context::new(me, shared.room.effects, shared.tasks.len(), shared.room.events.as_ref()),
                views: Vec::with_capacity(shared.objects.rows.len()),
                pinned: None,
            })
        });
        let mut local = local.lock();
        local.task = id;
        local.holder = holder;
        local.pinned = pinned;
        Ok(TaskHandle::new(Arc::clone(shared), id))
    }

    /// Locks pages for a reservation, one of whose tasks maps the object: they are brought in and stay.
    ///
    /// # Errors
    /// See [`LockPagesError`]; nothing is locked then.
    pub fn lock_pages(
        &self,
        reservation: ReservationId,
        object: ObjectId,
        range: PageRange,
    ) -> Result<Locking, LockPagesError> {
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        let state = &self.shared.locks[reservation.index()];
        state.store(LOCK_OPEN, Ordering::Release);
        self.shared
            .step(context, |core, _| core.lock(reservation, object, range))?;
        loop {
            match state.load(Ordering::Acquire) {
                LOCK_DONE => return Ok(Locking::Complete),
                LOCK_FAILED => return Err(LockPagesError::NotFilled),
                _ if self.shared.pacing.pace == Pace::Manual => return Ok(Locking::Pending),
                _ if self.pass_transfer(context) => {}
                // The transfer is in the hands of a task's thread, which may be preempted.
                _ => {
                    self.shared.lend_priority();
                    clock::sleep_until(clock::now().saturating_add(LOOK_AGAIN));
                }
            }
        }
    }

    /// Unlocks pages; they stay resident until they are evicted like others.
    ///
    /// # Errors
    /// See [`UnlockError`].
    pub fn unlock_pages(
        &self,
        reservation: ReservationId,
        object: ObjectId,
        range: PageRange,
    ) -> Result<(), UnlockError> {
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        self.shared
            .step(context, |core, _| core.unlock(reservation, object, range))
    }

    /// Ends all transfers under way, waiting for each, and makes the backing exact. Afterwards, if no task runs, the
    /// frames that the kernel counts are those of the books. In [`Pace::Manual`] transfers are left to the coordinator.
    ///
    /// # Errors
    /// The kernel's refusal of frames for the backing.
    pub fn settle(&self) -> Result<(), freehold_linux::Errno> {
        let mut control = self.shared.control.lock();
        let context = &mut control.context;
        if self.shared.pacing.pace == Pace::Clock {
            while self.pass_transfer(context) {}
        }
        self.adjust(context)
    }

    /// Makes the backing follow the books now, while tasks run and transfers are under way: what they change meanwhile
    /// is not in it.
    ///
    /// # Errors
    /// The kernel's refusal of frames for the backing.
    pub fn adjust_reserve(&self) -> Result<(), freehold_linux::Errno> {
        self.adjust(&mut self.shared.control.lock().context)
    }

    /// In [`Pace::Manual`]: ends one transfer, as a failure if so told. False if it is not under way.
    pub fn complete(&self, page: PageRef, request: Request, failed: bool) -> bool {
        let number = u32::try_from(self.shared.number(page)).unwrap_or(u32::MAX);
        let known = self.shared.transfers.under_way(number) == Some((page, request));
        let mut control = self.shared.control.lock();
        known && self.shared.finish_page(&mut control.context, number, failed)
    }

    /// All transfers under way, earliest due time first.
    #[must_use]
    pub fn outstanding(&self) -> Vec<(PageRef, Request)> {
        self.shared.transfers.list()
    }

    /// The transfer of a page, if one is under way.
    #[must_use]
    pub fn outstanding_of(&self, object: ObjectId, page: PageIndex) -> Option<(PageRef, Request)> {
        let found = self.shared.object(object)?;
        let inside = (page.get() as usize) < found.pages();
        let number = found.first.checked_add(page.get()).filter(|_| inside)?;
        self.shared.transfers.under_way(number)
    }

    /// In [`Pace::Manual`]: sets the core's clock, which never goes back.
    pub fn set_now(&self, now: Instant) {
        self.shared.pacing.manual_now.fetch_max(now.get(), Ordering::AcqRel);
    }

    /// The store, for its counts and for failures to inject.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    /// Looks at the core under its lock: getters only, and briefly, because faults wait meanwhile.
    pub fn inspect<R>(&self, look: impl FnOnce(&Memory) -> R) -> R {
        look(&self.shared.core.lock())
    }

    /// Checks every law on the core's books.
    ///
    /// # Errors
    /// The first law that is broken.
    pub fn check_laws(&self) -> Result<(), Violation> {
        self.inspect(Memory::check_laws)
    }

    /// Takes out what was recorded since this was last called; none if [`Config::events`] asked for nothing. Sorts and
    /// allocates; a task that faults meanwhile may wait for that.
    #[must_use]
    pub fn take_events(&self) -> Option<Events> {
        self.shared.take_events()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Ends transfers until `wanted` frames are free, or until that is hopeless: transfers fail, or nothing moves.
    fn reclaim_for_admission(&self, context: &mut Context, wanted: FrameCount) {
        // One for each frame, as many again for what had to be repeated, and whatever others do meanwhile.
        let mut transfers = wanted.get().saturating_mul(2).saturating_add(OTHERS_TRANSFERS);
        let mut idle = 0;
        while transfers > 0 && idle < IDLE_LOOKS {
            let missing = self.shared.step(context, |core, _| core.reclaim_for_admission(wanted));
            if missing.is_ok_and(|missing| missing.is_zero()) || missing.is_err() {
                return;
            }
            if self.pass_transfer(context) {
                (transfers, idle) = (transfers - 1, 0);
            } else {
                // They are in the hands of tasks' threads, which may be preempted.
                self.shared.lend_priority();
                clock::sleep_until(clock::now().saturating_add(LOOK_AGAIN));
                idle += 1;
            }
        }
    }

    /// Waits for the earliest transfer and ends it; false if there is none, or no more.
    fn pass_transfer(&self, context: &mut Context) -> bool {
        let shared = &self.shared;
        loop {
            let seen = shared.ends.seen();
            let Some(next) = shared.transfers.earliest() else {
                return false;
            };
            if shared.pacing.pace == Pace::Manual {
                return shared.finish_page(context, next.number, false);
            }
            if next.due == WHEN_TOLD {
                shared.ends.wait(seen, clock::now().saturating_add(LONGEST_LOOK));
            } else if next.due > shared.now() {
                clock::sleep_until(MonotonicTime::from_nanos(next.due.get()));
            }
            if shared.finish_page_due(context, next.number, shared.now()) {
                return true;
            }
        }
    }

    fn adjust(&self, context: &mut Context) -> Result<(), freehold_linux::Errno> {
        let used = self.shared.step(context, |core, _| frames_to_back(core));
        self.shared.locked.adjust(used)
    }
}

fn open_store(
    pages: PageCount,
    shape: StoreShape,
    medium: StoreMedium,
    ends: &Arc<Ends>,
) -> Result<Box<dyn Store>, SetupError> {
    let (slots, parallel) = (pages.get(), shape.parallel);
    Ok(match medium {
        StoreMedium::Memory => Box::new(MemoryStore::new(StoreConfig {
            slots,
            latency: shape.latency,
            parallel,
        })?),
        StoreMedium::Compressed(capacity) => Box::new(CompressedStore::new(CompressedConfig { slots, capacity })?),
        StoreMedium::File(config) => {
            let config = FileConfig {
                slots,
                parallel,
                ..config
            };
            Box::new(FileStore::new(&config, Arc::clone(ends) as _)?)
        }
    })
}

/// A page under way has a frame; so there are at most as many as frames, and never more than pages.
fn most_transfers(limits: &Limits) -> usize {
    let pages: PageCount = limits.pages;
    (limits.frames.get()).min(pages.get()) as usize
}
