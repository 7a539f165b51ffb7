//! The wait of a task for its page. The task itself ends the transfers that it waits for.
//!
//! There is no pager thread. A waiting task ends transfers of its own holder and of its own page as they fall due. In
//! between it sleeps, or spins where the latency is shorter than a timer's. Where the store reports ends, the task
//! sleeps until the report (`completion_queue`). The transfer becomes as urgent as the task. Results for other tasks
//! go to their mailboxes, and each task maps its own page.
//!
//! A wait is *unattributed* when no transfer is under way that the task could end: another thread, perhaps preempted,
//! is carrying its page's effect out. Every thread holds a PI mutex while it carries effects out. The task waits for
//! each of these mutexes in turn, and so lends its priority to the thread that has the effect. Only then does it
//! sleep, until its answer comes or a new transfer is entered. The wait for a thread of lower priority is bounded by
//! the work that this thread drained at once: one fact's effects, and the transfers that it ends together.

use crate::config::Pace;
use crate::context::Context;
use crate::mailbox::Answer;
use crate::shared::{Shared, TaskRow};
use freehold_core::id::TaskId;
use freehold_core::units::{Duration, Instant};
use freehold_driver::{HolderRow, WHEN_TOLD, WaitEvent};
use freehold_linux::clock::{self, MonotonicTime};
use freehold_store::{Slot, Urgency};

/// Latencies below this are waited for by spinning.
pub(crate) const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
/// A task whose wait is unattributed looks again after this long even if nobody tells it to.
const UNATTRIBUTED_LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// Who waits for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) task: TaskId,
    pub(crate) holder: HolderRow,
    /// The number of the page.
    pub(crate) page: u32,
}

impl Shared {
    /// Waits until the fault of `waiter` is answered; says whether it had to wait for that.
    pub(crate) fn await_answer(&self, context: &mut Context, row: &TaskRow, waiter: Waiter) -> (Answer, bool) {
        if let Some(answer) = row.mailbox.take() {
            return (answer, false);
        }
        let answer = match self.pacing.pace {
            Pace::Manual => self.await_coordinator(row, waiter.task),
            Pace::Clock => {
                row.waits.begin(waiter.page);
                let answer = self.drive_until_answered(context, row, waiter);
                row.waits.end();
                answer
            }
        };
        (answer, true)
    }

    /// What a task that waited tells the coordinator once its answer is carried out.
    pub(crate) fn tell_resumed(&self, task: TaskId, failed: bool) {
        if let Some(watch) = self.pacing.watch.as_ref().filter(|_| self.pacing.pace == Pace::Manual) {
            watch.resumed(task, failed);
        }
    }

    fn await_coordinator(&self, row: &TaskRow, task: TaskId) -> Answer {
        if let Some(watch) = &self.pacing.watch {
            watch.blocked(task);
        }
        loop {
            if let Some(answer) = row.mailbox.take() {
                if let Some(watch) = &self.pacing.watch {
                    watch.carrying_out(task);
                }
                return answer;
            }
            row.mailbox.rearm();
            row.mailbox.sleep(None);
        }
    }

    fn drive_until_answered(&self, context: &mut Context, row: &TaskRow, waiter: Waiter) -> Answer {
        let mut lately = Some(self.lately(context));
        loop {
            if let Some(answer) = row.mailbox.take() {
                return answer;
            }
            row.mailbox.rearm();
            let now = lately.take().unwrap_or_else(|| self.now());
            match self.transfers.candidate(waiter.holder, waiter.page, now) {
                // It waits for a frame: with one that is due come all that are, because they are dropped together.
                Some(candidate) if candidate.number != waiter.page && self.transfers.is_due(waiter.holder, now) => {
                    self.finish_due(context, waiter.holder, self.store.burst(), now);
                }
                Some(candidate) if candidate.due <= now => {
                    self.finish_page_due(context, candidate.number, now);
                }
                // Once it is noted that the task drives anything, what ended meanwhile is looked for again.
                Some(candidate) if candidate.foreign && row.waits.widen() => {}
                // What it drives meanwhile need not be urgent.
                Some(candidate) if candidate.beside => {
                    if self.boost(row, waiter.page).is_none() {
                        self.pass_time(context, row, candidate.due);
                    }
                }
                Some(candidate) => {
                    let due = self.boost(row, candidate.number).unwrap_or(candidate.due);
                    self.pass_time(context, row, due);
                }
                None => self.drift(context, row, waiter),
            }
        }
    }

    /// Makes a transfer for which the task waits as urgent as the task; when it is due, where that has changed.
    fn boost(&self, row: &TaskRow, number: u32) -> Option<Instant> {
        let urgency = row.urgency();
        if urgency == Urgency::BACKGROUND {
            return None;
        }
        let due = self.store.raise(self.now(), Slot::new(number), urgency)?;
        self.transfers.retime(number, due);
        Some(due)
    }

    /// Until `due`, or until there is something new.
    fn pass_time(&self, context: &mut Context, row: &TaskRow, due: Instant) {
        let begun = clock::now();
        if self.store.latency().is_some_and(|latency| latency < SHORTEST_SLEEP) {
            let mut now = begun;
            while now.as_nanos() < due.get() && !row.mailbox.is_answered() {
                std::hint::spin_loop();
                now = clock::now();
            }
            note_wait(context, row, begun, due, true);
        } else {
            let until = (due != WHEN_TOLD).then(|| MonotonicTime::from_nanos(due.get()));
            row.mailbox.sleep(until);
            note_wait(context, row, begun, due, false);
        }
    }

    fn drift(&self, context: &mut Context, row: &TaskRow, waiter: Waiter) {
        row.counters.unattributed.add(1);
        let begun = clock::now();
        self.lend_priority();
        let until = clock::now().saturating_add(UNATTRIBUTED_LOOK);
        let timed_out = row.mailbox.sleep(Some(until));
        self.transfers.found();
        note_wait(context, row, begun, Instant::new(u64::MAX), false);
        // Where there is nothing yet, whoever carries it out was preempted for that long, and nobody had to be told.
        let untold = timed_out && (row.mailbox.is_answered() || self.has_something(waiter));
        self.counters.unattributed_timeouts.add(u64::from(untold));
    }

    /// Whether a transfer is under way that the task can drive.
    fn has_something(&self, waiter: Waiter) -> bool {
        let candidate = self.transfers.candidate(waiter.holder, waiter.page, self.now());
        if candidate.is_none() {
            // It was noted once more that the task waits for one to be entered.
            self.transfers.found();
        }
        candidate.is_some()
    }
}

/// Notes a wait that is over: for the store until `due`, for a CPU from then on.
fn note_wait(context: &mut Context, row: &TaskRow, begun: MonotonicTime, due: Instant, spun: bool) {
    let wait = WaitEvent::new(begun.as_nanos(), clock::now().as_nanos(), due, spun);
    let counter = if spun { &row.counters.spun } else { &row.counters.slept };
    counter.add(wait.to.get() - wait.from.get());
    row.counters.resumed_late.add(wait.resumed.get() - wait.to.get());
    context.waited(wait);
}

#[cfg(test)]
mod tests {
    use crate::{Config, Pager};
    use freehold_core::limits::Limits;
    use freehold_core::units::{FrameCount, PageCount};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn an_unattributed_wait_is_for_whoever_is_busy() {
        let pager = Pager::new(Config::new(Limits {
            frames: FrameCount::new(1),
            pages: PageCount::new(1),
            reservations: 1,
            objects: 1,
            tasks: 2,
            mappings: 1,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        }))
        .unwrap();
        let shared = pager.shared();
        shared.lend_priority();
        let (busy, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _busy = shared.busy[1].lock();
                busy.store(true, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(20));
                done.store(true, Ordering::SeqCst);
            });
            while !busy.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            shared.lend_priority();
            assert!(done.load(Ordering::SeqCst));
        });
    }
}
