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
use crate::shared::Shared;
use crate::transfer_table::Account;
use freehold_core::effect::Effect;
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Instant, PageIndex};
use freehold_driver::{
    EventCapacity, EvictionEvent, FaultEnd, FaultEvent, HolderRow, LockHoldEvent, TransferEvent, WaitEvent,
};
use freehold_linux::clock;

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
    events: freehold_driver::Recorder,
    task: Option<u16>,
    /// When the core was last asked or told something.
    asked: Instant,
    /// How the fault being served ended.
    end: FaultEnd,
}

impl Recorder {
    /// Empty buffers of this task's thread, all of whose memory is there.
    pub(crate) fn new(task: Option<u16>, capacity: &EventCapacity) -> Self {
        Self {
            events: freehold_driver::Recorder::new(capacity),
            task,
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
        let page = PageIndex::new(u32::try_from(page).unwrap_or(u32::MAX));
        let end = std::mem::replace(&mut self.end, FaultEnd::Failed);
        self.events.fault(self.task, (from, to), (object, page), end);
    }

    /// What the core decided.
    pub(crate) fn decided(&mut self, effect: &Effect) {
        self.events.decided(self.asked, effect);
    }

    /// The transfer of a page has ended.
    pub(crate) fn transfer(&mut self, page: PageRef, kind: Request, account: Account, failed: bool, now: u64) {
        let span = (account.since, Instant::new(now));
        self.events.transfer((page, kind), span, account.task, failed);
    }

    /// The core's lock was held from `from` to `to`.
    pub(crate) fn lock_hold(&mut self, from: u64, to: u64, waited: u64) {
        self.events.lock_hold(self.task, (from, to), waited);
    }

    /// Moves everything out; the buffers stay. Allocates.
    fn take(&mut self, events: &mut Events) -> TaskEvents {
        let recorded = &mut self.events;
        events.evictions.append(&mut recorded.evictions);
        events.transfers.append(&mut recorded.transfers);
        events.lock_holds.append(&mut recorded.lock_holds);
        events.short_holds += std::mem::take(&mut recorded.short_holds);
        events.lost += std::mem::take(&mut recorded.lost);
        TaskEvents {
            faults: recorded.faults.drain(..).collect(),
            waits: recorded.waits.drain(..).collect(),
        }
    }
}

impl Context {
    /// The task has waited for the store.
    pub(crate) fn waited(&mut self, wait: WaitEvent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.events.waited(wait);
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
