//! What happened, event by event, for pictures and traces.
//!
//! Asked for by [`Config::events`](crate::Config::events). Every thread writes into buffers of its own, which are
//! allocated and touched when its task is made: recording takes no lock and allocates nothing while tasks run. A full
//! buffer keeps what it has, the first events, and counts the others. Without recording each of the places below costs
//! one branch on a value that never changes.
//!
//! Times are those of the monotonic clock, in [`Pace::Manual`](crate::Pace::Manual) too. A fault's time begins when
//! the handler has found whose page it is: the kernel's way there and back, about a microsecond each, is not in it.

use crate::context::Context;
use crate::mailbox::Answer;
use crate::request::Account;
use crate::shared::Shared;
use freehold_core::effect::{Effect, Holder, Resolution, Scope, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Duration, Instant, PageIndex};
use freehold_driver::HolderRow;
use freehold_linux::clock;

/// Events that each task's thread, and the thread that gives commands, can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCapacity {
    /// Faults.
    pub faults: usize,
    /// Waits for the store.
    pub waits: usize,
    /// Evictions.
    pub evictions: usize,
    /// Transfers.
    pub transfers: usize,
    /// Holds of the core's lock.
    pub lock_holds: usize,
    /// Holds shorter than this, for which nobody had to wait before, are counted only ([`Events::short_holds`]): every
    /// fault takes the lock several times.
    pub shortest_hold: Duration,
}

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEnd {
    /// The page was mapped, and the core counted it so.
    Resolved(Resolution),
    /// The access was let go to fault afresh; the next fault of the task is the same access again.
    Again,
    /// The access ended with an error.
    Failed,
}

/// A fault served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// When the handler began.
    pub from: Instant,
    /// When it was done.
    pub to: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// How it ended.
    pub end: FaultEnd,
}

/// A wait for the store, in the course of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEvent {
    /// From when.
    pub from: Instant,
    /// Until when: the transfer was due, or the task was told of something else.
    pub to: Instant,
    /// When the task ran again: in between it was ready, and had no CPU.
    pub resumed: Instant,
    /// Whether the task kept its CPU.
    pub spun: bool,
}

impl WaitEvent {
    /// A wait that ended at `now` and was to end at `due`, if nothing came before.
    pub(crate) fn new(from: u64, now: u64, due: Instant, spun: bool) -> Self {
        Self {
            from: Instant::new(from),
            to: Instant::new(now.min(due.get().max(from))),
            resumed: Instant::new(now),
            spun,
        }
    }
}

/// A page taken from its holder's lists; demotions are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionEvent {
    /// When that was decided.
    pub at: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// Whose it was, where that is one holder.
    pub holder: Option<Holder>,
    /// Why.
    pub reason: UnmapReason,
    /// Whether its content goes to the store.
    pub write_back: bool,
}

/// A page on its way from or to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferEvent {
    /// When the core asked for it.
    pub from: Instant,
    /// When it was ended. It may have been due before: nobody ends it before somebody needs it.
    pub to: Instant,
    /// The object ([`ObjectId::index`](freehold_core::id::ObjectId::index)).
    pub object: u16,
    /// The page.
    pub page: PageIndex,
    /// Which way.
    pub kind: Request,
    /// Whether it failed.
    pub failed: bool,
    /// The slot ([`TaskId::index`](freehold_core::id::TaskId::index)) of the task that waited for the page, or whose
    /// thread was told to write it back; none for commands.
    pub task: Option<u16>,
}

/// A hold of the core's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHoldEvent {
    /// When it was taken.
    pub from: Instant,
    /// When it was given back.
    pub to: Instant,
    /// The wait for it before.
    pub waited: Duration,
    /// The slot ([`TaskId::index`](freehold_core::id::TaskId::index)) of the task; none for commands.
    pub task: Option<u16>,
}

/// What one task did, each list ascending in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskEvents {
    /// Faults.
    pub faults: Vec<FaultEvent>,
    /// Waits.
    pub waits: Vec<WaitEvent>,
}

/// What happened since events were last taken, each list ascending in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// By slot ([`TaskId::index`](freehold_core::id::TaskId::index)).
    pub tasks: Vec<TaskEvents>,
    /// Evictions.
    pub evictions: Vec<EvictionEvent>,
    /// Transfers that have ended, by their begin.
    pub transfers: Vec<TransferEvent>,
    /// Holds of the core's lock.
    pub lock_holds: Vec<LockHoldEvent>,
    /// Holds that were too short to be kept one by one.
    pub short_holds: u64,
    /// Events that found no room.
    pub lost: u64,
}

/// One thread's events.
#[derive(Debug)]
pub(crate) struct Recorder {
    faults: Vec<FaultEvent>,
    waits: Vec<WaitEvent>,
    evictions: Vec<EvictionEvent>,
    transfers: Vec<TransferEvent>,
    lock_holds: Vec<LockHoldEvent>,
    shortest_hold: u64,
    short_holds: u64,
    lost: u64,
    /// When the core was last asked or told something.
    asked: Instant,
    /// How the fault being served ended.
    end: FaultEnd,
}

impl Recorder {
    /// Empty buffers, all of whose memory is there.
    pub(crate) fn new(capacity: &EventCapacity) -> Self {
        let (from, to, page) = (Instant::ZERO, Instant::ZERO, PageIndex::new(0));
        let (object, task) = (0, None);
        Self {
            faults: touched(
                capacity.faults,
                FaultEvent {
                    from,
                    to,
                    object,
                    page,
                    end: FaultEnd::Failed,
                },
            ),
            waits: touched(capacity.waits, WaitEvent::new(0, 0, to, false)),
            evictions: touched(
                capacity.evictions,
                EvictionEvent {
                    at: from,
                    object,
                    page,
                    holder: None,
                    reason: UnmapReason::Eviction,
                    write_back: false,
                },
            ),
            transfers: touched(
                capacity.transfers,
                TransferEvent {
                    from,
                    to,
                    object,
                    page,
                    kind: Request::Fill,
                    failed: false,
                    task,
                },
            ),
            lock_holds: touched(
                capacity.lock_holds,
                LockHoldEvent {
                    from,
                    to,
                    waited: Duration::ZERO,
                    task,
                },
            ),
            shortest_hold: capacity.shortest_hold.get(),
            short_holds: 0,
            lost: 0,
            asked: Instant::ZERO,
            end: FaultEnd::Failed,
        }
    }

    /// The core is asked or told something: what it decides is decided now.
    pub(crate) fn asked(&mut self, now: u64) {
        self.asked = Instant::new(now);
    }

    /// The fault being served has its answer.
    pub(crate) fn answered(&mut self, answer: Answer) {
        self.end = match answer {
            Answer::Map { resolution, .. } => FaultEnd::Resolved(resolution),
            Answer::Retry => FaultEnd::Again,
            Answer::Fail(_) => FaultEnd::Failed,
        };
    }

    /// The fault is served.
    pub(crate) fn fault(&mut self, from: u64, to: u64, object: usize, page: usize) {
        let fault = FaultEvent {
            from: Instant::new(from),
            to: Instant::new(to),
            object: slot(object),
            page: PageIndex::new(u32::try_from(page).unwrap_or(u32::MAX)),
            end: std::mem::replace(&mut self.end, FaultEnd::Failed),
        };
        keep(&mut self.faults, &mut self.lost, fault);
    }

    /// What the core decided.
    pub(crate) fn decided(&mut self, effect: &Effect) {
        match *effect {
            Effect::Unmap { page, from, reason } => self.unmapped(page, from, reason),
            Effect::WriteBack { page, holder } => self.expelled(page, holder, true),
            Effect::Discard { page, holder } => self.expelled(page, holder, false),
            _ => {}
        }
    }

    /// A page is unmapped. Where it leaves everybody, its holder is in the effect that follows.
    fn unmapped(&mut self, page: PageRef, from: Scope, reason: UnmapReason) {
        if reason == UnmapReason::Demotion {
            return;
        }
        let eviction = EvictionEvent {
            at: self.asked,
            object: slot(page.object().index()),
            page: page.page(),
            holder: match from {
                Scope::Everyone => None,
                Scope::Of(holder) => Some(holder),
            },
            reason,
            write_back: false,
        };
        keep(&mut self.evictions, &mut self.lost, eviction);
    }

    /// A page leaves memory: its unmapping is the effect before this one.
    fn expelled(&mut self, page: PageRef, holder: Holder, write_back: bool) {
        let named = (slot(page.object().index()), page.page());
        if let Some(last) = self
            .evictions
            .last_mut()
            .filter(|last| (last.object, last.page) == named)
        {
            last.holder = Some(holder);
            last.write_back = write_back;
        }
    }

    /// The transfer of a page has ended.
    pub(crate) fn transfer(&mut self, page: PageRef, kind: Request, account: Account, failed: bool, now: u64) {
        let transfer = TransferEvent {
            from: account.since,
            to: Instant::new(now),
            object: slot(page.object().index()),
            page: page.page(),
            kind,
            failed,
            task: account.task,
        };
        keep(&mut self.transfers, &mut self.lost, transfer);
    }

    /// The core's lock was held from `from` to `to`, by `task`.
    pub(crate) fn lock_hold(&mut self, task: Option<u16>, from: u64, to: u64, waited: u64) {
        if waited == 0 && to.saturating_sub(from) < self.shortest_hold {
            self.short_holds += 1;
            return;
        }
        let hold = LockHoldEvent {
            from: Instant::new(from),
            to: Instant::new(to),
            waited: Duration::new(waited),
            task,
        };
        keep(&mut self.lock_holds, &mut self.lost, hold);
    }

    /// Moves everything out; the buffers stay. Allocates.
    fn take(&mut self, events: &mut Events) -> TaskEvents {
        events.evictions.append(&mut self.evictions);
        events.transfers.append(&mut self.transfers);
        events.lock_holds.append(&mut self.lock_holds);
        events.short_holds += std::mem::take(&mut self.short_holds);
        events.lost += std::mem::take(&mut self.lost);
        TaskEvents {
            faults: self.faults.drain(..).collect(),
            waits: self.waits.drain(..).collect(),
        }
    }
}

impl Context {
    /// The task has waited for the store.
    pub(crate) fn waited(&mut self, wait: WaitEvent) {
        if let Some(recorder) = &mut self.recorder {
            keep(&mut recorder.waits, &mut recorder.lost, wait);
        }
    }

    /// The account of a transfer that begins now.
    pub(crate) fn account(&self, holder: HolderRow, task: Option<u16>) -> Account {
        let since = self.recorder.as_ref().map_or(Instant::ZERO, |recorder| recorder.asked);
        Account { holder, task, since }
    }

    /// The time, if anything is recorded with it.
    pub(crate) fn time_to_record(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |_| clock::now().as_nanos())
    }
}

impl Shared {
    /// Moves all events out of all buffers; none without recording.
    pub(crate) fn take_events(&self) -> Option<Events> {
        let mut events = Events::default();
        let mut control = self.control.lock();
        control.context.recorder.as_mut()?.take(&mut events);
        for row in self.tasks.iter() {
            let mut local = row.local.get().map(|local| local.lock());
            let recorder = local.as_mut().and_then(|local| local.context.recorder.as_mut());
            let task = recorder.map(|recorder| recorder.take(&mut events));
            events.tasks.push(task.unwrap_or_default());
        }
        events.evictions.sort_by_key(|eviction| eviction.at);
        events.transfers.sort_by_key(|transfer| transfer.from);
        events.lock_holds.sort_by_key(|hold| hold.from);
        Some(events)
    }
}

/// A slot of one of the core's tables, all of which are shorter than 2^16.
fn slot(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// An empty buffer whose memory is there: the kernel would otherwise give it page by page, in the fault path.
fn touched<T: Clone>(capacity: usize, filler: T) -> Vec<T> {
    let mut buffer = vec![filler; capacity];
    buffer.clear();
    buffer
}

/// Appends, never allocates.
fn keep<T>(buffer: &mut Vec<T>, lost: &mut u64, event: T) {
    if buffer.len() < buffer.capacity() {
        buffer.push(event);
    } else {
        *lost += 1;
    }
}
