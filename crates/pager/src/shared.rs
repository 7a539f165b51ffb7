//! What all threads of a pager share, and the way to the core.
//!
//! The core is behind a PI mutex. Under it a thread hands in one fact or command and drains every effect into its own
//! buffers, which were allocated for the most there can be; answers to faults are posted to mailboxes. Everything else
//! (copying, zapping, punching, waking) happens after the lock is released.

use crate::completion_queue::{Ends, Waits};
use crate::config::Pace;
use crate::context::Context;
use crate::counters::{Counters, TaskCounters};
use crate::epoch::Epochs;
use crate::file_cache::FileCache;
use crate::locked_backing::LockedBacking;
use crate::mailbox::{Answer, Mailbox};
use crate::object::Object;
use crate::task::Local;
use crate::transfer_table::Transfers;
use crate::watch::Watch;
use freehold_core::Memory;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::{EventCapacity, HolderRow};
use freehold_linux::clock;
use freehold_linux::fault::Installed;
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use freehold_linux::userfault::Userfault;
use freehold_store::{Store, Urgency};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One task's row.
#[derive(Debug, Default)]
pub(crate) struct TaskRow {
    pub(crate) mailbox: Mailbox,
    pub(crate) counters: TaskCounters,
    pub(crate) holder: AtomicU32,
    pub(crate) waits: Waits,
    urgency: AtomicU8,
    /// Some thread acts as the task.
    pub(crate) bound: AtomicBool,
    /// Buffers and mappings, locked by the task's thread while it is in the handler.
    pub(crate) local: OnceLock<PiMutex<Local>>,
}

impl TaskRow {
    /// How much the task hurries.
    pub(crate) fn urgency(&self) -> Urgency {
        Urgency::new(self.urgency.load(Ordering::Relaxed))
    }

    pub(crate) fn set_urgency(&self, urgency: Urgency) {
        self.urgency.store(urgency.get(), Ordering::Relaxed);
    }
}

/// How a reservation's lock of pages ended.
pub(crate) const LOCK_OPEN: u8 = 0;
pub(crate) const LOCK_DONE: u8 = 1;
pub(crate) const LOCK_FAILED: u8 = 2;

/// The pager. Fields are dropped in this order: first the handler is removed (no task is bound any more, so nobody
/// needs it), then the store ends what it has under way in pages of objects, then mappings and objects go, then the
/// backing, and the userfaultfd last, so that no registered mapping ever outlives it and reads zeros where pages were.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) _handler: Arc<Installed>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) tasks: Arc<[TaskRow]>,
    pub(crate) objects: Objects,
    pub(crate) transfers: Arc<Transfers>,
    pub(crate) ends: Arc<Ends>,
    pub(crate) locked: LockedBacking,
    pub(crate) core: PiMutex<Memory>,
    pub(crate) room: Room,
    pub(crate) pacing: Pacing,
    pub(crate) counters: Counters,
    /// By reservation slot.
    pub(crate) locks: Box<[AtomicU8]>,
    /// Of each task, and last of commands: held while what was drained is carried out.
    pub(crate) busy: Box<[PiMutex<()>]>,
    /// Buffers for commands; one command at a time.
    pub(crate) control: PiMutex<Control>,
    pub(crate) userfault: Userfault,
}

/// Objects, and what is done to their pages without the core's lock. Mappings go before what they are of.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) rows: Box<[OnceLock<Object>]>,
    pub(crate) epochs: Epochs,
    pub(crate) files: Option<Arc<dyn FileCache>>,
    #[cfg(feature = "canary")]
    pub(crate) copies_before_zapping: AtomicBool,
}

/// What everything was made large enough for.
#[derive(Debug)]
pub(crate) struct Room {
    /// The most effects one fact leaves.
    pub(crate) effects: usize,
    /// Pages of all objects.
    pub(crate) pages: u32,
    /// What each thread records.
    pub(crate) events: Option<EventCapacity>,
}

/// Who says when transfers end.
#[derive(Debug)]
pub(crate) struct Pacing {
    pub(crate) pace: Pace,
    /// The time in manual pace.
    pub(crate) manual_now: AtomicU64,
    pub(crate) watch: Option<Arc<dyn Watch>>,
}

/// What commands use.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) context: Context,
    /// Pages given to objects so far.
    pub(crate) pages_given: u32,
}

impl Shared {
    /// The present, as the core is to see it.
    pub(crate) fn now(&self) -> Instant {
        match self.pacing.pace {
            Pace::Clock => Instant::new(clock::now().as_nanos()),
            Pace::Manual => Instant::new(self.pacing.manual_now.load(Ordering::Acquire)),
        }
    }

    /// The present, or so nearly that nothing but decisions lies between.
    pub(crate) fn lately(&self, context: &Context) -> Instant {
        match self.pacing.pace {
            Pace::Clock => context.looked,
            Pace::Manual => self.now(),
        }
    }

    /// Hands one fact or command to the core and carries out all that follows from it.
    pub(crate) fn step<R>(&self, context: &mut Context, fact: impl FnOnce(&mut Memory, Instant) -> R) -> R {
        let _busy = self.busy(context);
        let result = self.submit(context, fact);
        self.run(context);
        result
    }

    /// To be held while anything drained into `context` is not carried out yet.
    pub(crate) fn busy(&self, context: &Context) -> PiGuard<'_, ()> {
        let row = context.me.map_or(self.tasks.len(), usize::from);
        self.busy[row].lock()
    }

    /// Waits until whoever is carrying something out right now has done so, and lends each its priority meanwhile. The
    /// caller must not be busy itself.
    pub(crate) fn lend_priority(&self) {
        for busy in &self.busy {
            if busy.try_lock().is_none() {
                drop(busy.lock());
            }
        }
    }

    /// Hands one fact or command to the core and drains what follows from it.
    pub(crate) fn submit<R>(&self, context: &mut Context, fact: impl FnOnce(&mut Memory, Instant) -> R) -> R {
        self.hold_core(context, |shared, core, context, now| {
            let result = fact(core, now);
            shared.drain(core, context);
            result
        })
    }

    /// Does something with the core under its lock, and writes down how long that was held.
    pub(crate) fn hold_core<R>(
        &self,
        context: &mut Context,
        work: impl FnOnce(&Self, &mut Memory, &mut Context, Instant) -> R,
    ) -> R {
        let waited_before = context.lock_wait;
        let mut core = self.lock_core(context);
        let begun = clock::now();
        if let Some(recorder) = &mut context.recorder {
            recorder.asked(begun.as_nanos());
        }
        let now = match self.pacing.pace {
            Pace::Clock => Instant::new(begun.as_nanos()),
            Pace::Manual => self.now(),
        };
        let result = work(self, &mut core, context, now);
        let ended = clock::now();
        drop(core);
        context.looked = Instant::new(ended.as_nanos());
        let held = ended.as_nanos() - begun.as_nanos();
        self.counters.core_locks.add(1);
        self.counters.longest_hold.raise(held);
        if let Some(recorder) = &mut context.recorder {
            let waited = context.lock_wait - waited_before;
            recorder.lock_hold(begun.as_nanos(), ended.as_nanos(), waited);
        }
        result
    }

    fn lock_core(&self, context: &mut Context) -> PiGuard<'_, Memory> {
        if let Some(core) = self.core.try_lock() {
            return core;
        }
        let begun = clock::now().as_nanos();
        let core = self.core.lock();
        let waited = clock::now().as_nanos() - begun;
        self.counters.longest_wait.raise(waited);
        context.lock_wait += waited;
        core
    }

    pub(crate) fn drain(&self, core: &mut Memory, context: &mut Context) {
        self.with_batch(context, |batch, hands| batch.drain(hands, |_| core.poll_effect()));
    }

    pub(crate) fn post(&self, task: usize, answer: Answer, context: &mut Context) {
        self.tasks[task].mailbox.post(answer);
        let task = u16::try_from(task).unwrap_or(u16::MAX);
        if context.me != Some(task) {
            context.wakes.push(task);
        }
    }

    /// The object with this id.
    pub(crate) fn object(&self, id: ObjectId) -> Option<&Object> {
        self.objects
            .rows
            .get(id.index())?
            .get()
            .filter(|object| object.id == id)
    }

    /// The object that an effect names: the core names only objects that it has, and it has only ours.
    pub(crate) fn object_at(&self, index: usize) -> &Object {
        self.objects.rows[index]
            .get()
            .expect("the core names an object that was made")
    }

    /// The number of a page among all pages.
    pub(crate) fn number(&self, page: PageRef) -> usize {
        self.object_at(page.object().index()).number(Object::page_of(page))
    }

    pub(crate) fn holder_of(&self, task: usize) -> HolderRow {
        HolderRow::new(self.tasks[task].holder.load(Ordering::Acquire))
    }
}
