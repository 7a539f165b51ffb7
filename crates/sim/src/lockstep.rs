//! The order of everything that happened in a run, so that another engine can do the same.
//!
//! An engine that replays it sets up reservations, objects, tasks, mappings and locks in the same order as the
//! simulator (see [`Schedule`]), then takes the steps one by one, and asks its core at [`Step::Snapshot`] for the
//! counts: they are equal to the simulator's.

use crate::device::DeviceChange;
use freehold_core::fact::Request;
use freehold_core::pinning::JobReport;
use freehold_core::units::PageIndex;
use freehold_scenario::{RegionIndex, TaskIndex};

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The task begins its next job: its generator moves on.
    JobStart {
        /// The task.
        task: TaskIndex,
    },
    /// The task makes its next accesses. None of them waits: each hits, or faults and is resolved (or refused) at
    /// once.
    Run {
        /// The task.
        task: TaskIndex,
        /// How many.
        accesses: u64,
    },
    /// The task's next access faults and waits.
    Begin {
        /// The task.
        task: TaskIndex,
    },
    /// The store has ended a request. Where that ends a task's wait with a mapping or a retry, the access is not made
    /// yet: it is the first of the task's next `Run`, or faults again and waits again in another `Begin`. Where it
    /// ends it with an error, the access is over, and the next is the one after it.
    Complete {
        /// The region of the page.
        region: RegionIndex,
        /// The page.
        page: PageIndex,
        /// A fill from the store, or a write-back.
        request: Request,
        /// Whether it failed.
        failed: bool,
        /// The page came out of device memory.
        cached: bool,
    },
    /// The task has ended its job; the core is told.
    JobEnd {
        /// The task.
        task: TaskIndex,
    },
    /// The core is told what became of a job of a task with a pinned page pool.
    Report {
        /// The task.
        task: TaskIndex,
        /// As the simulator saw it.
        report: JobReport,
    },
    /// Who restores for the task asks the core for the next page and reads it: that ends at once, or with a
    /// `Complete`. A fault that is to be tried again is not.
    Restore {
        /// The task.
        task: TaskIndex,
    },
    /// A device has been opened, or closed and its memory is back.
    Device {
        /// Its place in the scenario.
        device: usize,
        /// Which of the two.
        change: DeviceChange,
    },
    /// Counts are taken here.
    Snapshot,
}

/// The steps of a run, in order.
///
/// Rules that make two engines equal, beside the order of the steps:
/// - Before the first step: create the objects in file order, copy-on-write views after all others. Then, for each
///   reservation in file order: `admit` it; for each of its tasks in file order `add_task`, and `map` the regions its
///   accesses name, by position; if it locks pages of regions that none of them maps, `add_task` one keeper that maps
///   those; `lock` its ranges in order, carrying out and answering everything until the core is quiet. Last, the tasks
///   without a reservation in the same way, each behind the pinned page pool that it may have, and before the task that
///   restores for it (`add_restorer`, mapping the same). Tasks stay known to the core to the end, whenever they start
///   and stop.
/// - Effects are carried out in order. `Fill` of zeros or of a copy and `Discard` are answered, in order, once the
///   effects at hand are drained; fills from the store and write-backs are answered by their `Complete`.
/// - An access that faults is tried until it can be made, or fails: a write may fault twice.
/// - Nothing follows the end of the run: requests may be left open, and tasks waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Step>,
}

/// Writes the schedule while the run goes on.
///
/// Hits are only counted; they are written out when something happens that another task's hits must come before. Of
/// the accesses not written out yet, those of `latest` alone may have changed anything, so they go first.
#[derive(Debug)]
pub(crate) struct Recorder {
    steps: Option<Vec<Step>>,
    pending: Vec<u64>,
    open: usize,
    latest: Option<usize>,
}

impl Recorder {
    pub(crate) fn new(wanted: bool, tasks: usize) -> Self {
        Self {
            steps: wanted.then(Vec::new),
            pending: vec![0; tasks],
            open: 0,
            latest: None,
        }
    }

    /// The task made accesses.
    pub(crate) fn made(&mut self, task: usize, accesses: u64) {
        if self.steps.is_some() && accesses > 0 {
            self.open += usize::from(self.pending[task] == 0);
            self.pending[task] += accesses;
        }
    }

    /// The task is about to fault.
    pub(crate) fn fault(&mut self, task: usize) {
        if self.steps.is_none() {
            return;
        }
        let others = self.open - usize::from(self.pending[task] > 0);
        if others > 0 {
            self.write_latest();
            (0..self.pending.len())
                .filter(|other| *other != task)
                .for_each(|other| self.write_run(other));
        }
        self.latest = Some(task);
    }

    /// The fault just begun waits.
    pub(crate) fn begin(&mut self, task: usize) {
        self.write_run(task);
        self.push(Step::Begin { task: index(task) });
    }

    /// Something happens that everything made so far comes before.
    pub(crate) fn event(&mut self, step: Step) {
        self.write_all();
        self.push(step);
    }

    pub(crate) fn job_start(&mut self, task: usize) {
        self.push(Step::JobStart { task: index(task) });
    }

    pub(crate) fn job_end(&mut self, task: usize) {
        self.event(Step::JobEnd { task: index(task) });
    }

    pub(crate) fn finish(&mut self) -> Option<Schedule> {
        self.write_all();
        self.steps.take().map(|steps| Schedule { steps })
    }

    fn write_all(&mut self) {
        if self.open > 0 {
            self.write_latest();
            (0..self.pending.len()).for_each(|task| self.write_run(task));
        }
        self.latest = None;
    }

    fn write_latest(&mut self) {
        if let Some(task) = self.latest.take() {
            self.write_run(task);
        }
    }

    fn write_run(&mut self, task: usize) {
        let accesses = std::mem::take(&mut self.pending[task]);
        if accesses == 0 {
            return;
        }
        self.open -= 1;
        let task = index(task);
        match self.steps.as_mut().and_then(|steps| steps.last_mut()) {
            Some(Step::Run {
                task: last,
                accesses: made,
            }) if *last == task => *made += accesses,
            _ => self.push(Step::Run { task, accesses }),
        }
    }

    fn push(&mut self, step: Step) {
        if let Some(steps) = &mut self.steps {
            steps.push(step);
        }
    }
}

fn index(task: usize) -> TaskIndex {
    TaskIndex::new(u16::try_from(task).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_one_task_merge_and_faults_keep_their_order() {
        let mut recorder = Recorder::new(true, 2);
        let run = |task, accesses| Step::Run {
            task: TaskIndex::new(task),
            accesses,
        };
        recorder.made(0, 3);
        recorder.fault(0);
        recorder.made(0, 1);
        recorder.made(0, 2);
        // Task 1 hits after task 0's fault, then task 0 faults again.
        recorder.made(1, 5);
        recorder.fault(0);
        recorder.made(0, 1);
        recorder.fault(1);
        recorder.begin(1);
        let steps = recorder.finish().unwrap().steps;
        assert_eq!(
            steps,
            [
                run(0, 6),
                run(1, 5),
                run(0, 1),
                Step::Begin {
                    task: TaskIndex::new(1)
                }
            ]
        );
    }
}
