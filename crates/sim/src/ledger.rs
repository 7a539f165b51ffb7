//! Where a task's time goes.

use freehold_core::units::Instant;
use freehold_scenario::recording::{Span, TaskState, keep};
use freehold_scenario::results::Delays;

use crate::history::{Activity, Interval};

/// The time of one task, by what it did.
#[derive(Debug)]
pub(crate) struct Ledger {
    activity: Activity,
    /// Until when the time is accounted for.
    until: u64,
    /// Since when it does what it does.
    since: u64,
    cpu: u64,
    delays: Delays,
    history: Option<Vec<Interval>>,
    spans: Option<Spans>,
}

/// What a task did, for a recording.
#[derive(Debug)]
struct Spans {
    list: Vec<Span>,
    room: usize,
    lost: u64,
}

impl Ledger {
    /// `room`: spans to record, if any are wanted.
    pub(crate) fn new(with_history: bool, room: Option<usize>) -> Self {
        Self {
            activity: Activity::Asleep,
            until: 0,
            since: 0,
            cpu: 0,
            delays: Delays::default(),
            history: with_history.then(Vec::new),
            spans: room.map(|room| Spans {
                list: Vec::new(),
                room,
                lost: 0,
            }),
        }
    }

    /// From `now` on the task does something else.
    pub(crate) fn change(&mut self, now: u64, activity: Activity) {
        if activity == self.activity {
            return;
        }
        self.catch_up(now);
        self.close_interval(now);
        self.activity = activity;
        self.since = now;
    }

    /// Accounts for the time until `now`. CPU time is what the task did with it; fault service is told apart by
    /// [`serve`](Self::serve).
    pub(crate) fn catch_up(&mut self, now: u64) {
        let time = now - self.until;
        self.until = now;
        match self.activity {
            Activity::Asleep => {}
            Activity::Ready => self.delays.cpu_wait_ns += time,
            Activity::Running { .. } => self.cpu += time,
            Activity::Spinning { .. } => {
                self.cpu += time;
                self.delays.store_wait_ns += time;
            }
            Activity::Suspended => self.delays.store_wait_ns += time,
        }
    }

    /// Of the CPU time, this much was fault service.
    pub(crate) fn serve(&mut self, time: u64) {
        self.delays.fault_service_ns += time;
    }

    pub(crate) fn cpu(&self) -> u64 {
        self.cpu
    }

    pub(crate) fn delays(&self) -> Delays {
        self.delays
    }

    /// Ends the record.
    pub(crate) fn finish(&mut self, now: u64) -> Option<Vec<Interval>> {
        self.catch_up(now);
        self.close_interval(now);
        self.history.take()
    }

    /// The spans recorded, and how many found no room; after [`finish`](Self::finish).
    pub(crate) fn take_spans(&mut self) -> (Vec<Span>, u64) {
        self.spans
            .take()
            .map_or_else(Default::default, |spans| (spans.list, spans.lost))
    }

    /// Whether it has a CPU.
    pub(crate) fn has_cpu(&self) -> bool {
        matches!(self.activity, Activity::Running { .. } | Activity::Spinning { .. })
    }

    /// Whether it is ready without a CPU.
    pub(crate) fn is_ready(&self) -> bool {
        self.activity == Activity::Ready
    }

    fn close_interval(&mut self, now: u64) {
        if let Some((spans, state)) = self.spans.as_mut().zip(state(self.activity)) {
            spans.note(self.since, now, state);
        }
        let (from, to, activity) = (Instant::new(self.since), Instant::new(now), self.activity);
        if let Some(history) = self.history.as_mut().filter(|_| from < to) {
            history.push(Interval { from, to, activity });
        }
    }
}

impl Spans {
    fn note(&mut self, from_ns: u64, to_ns: u64, state: TaskState) {
        match self.list.last_mut() {
            _ if from_ns == to_ns => {}
            // A change of CPU is not a change of state.
            Some(last) if (last.to_ns, last.state) == (from_ns, state) && self.lost == 0 => last.to_ns = to_ns,
            _ => keep(
                &mut self.list,
                self.room,
                &mut self.lost,
                Span { from_ns, to_ns, state },
            ),
        }
    }
}

fn state(activity: Activity) -> Option<TaskState> {
    match activity {
        Activity::Asleep => None,
        Activity::Ready => Some(TaskState::Ready),
        Activity::Running { .. } => Some(TaskState::Running),
        Activity::Spinning { .. } => Some(TaskState::StoreSpin),
        Activity::Suspended => Some(TaskState::StoreWait),
    }
}

/// What lies between two states of the same ledger.
pub(crate) fn between(before: &Delays, after: &Delays) -> Delays {
    Delays {
        cpu_wait_ns: after.cpu_wait_ns - before.cpu_wait_ns,
        store_wait_ns: after.store_wait_ns - before.store_wait_ns,
        fault_service_ns: after.fault_service_ns - before.fault_service_ns,
        lock_wait_ns: after.lock_wait_ns - before.lock_wait_ns,
    }
}
