//! A task as its thread knows it, wherever the pager is: in this process, or in a server.

use std::sync::Arc;

use freehold_client::Mapping;
use freehold_core::pinning::JobReport;
use freehold_core::units::{Duration, Instant};
use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::{Bound, EnterError, MappedRegion, TaskTimes, Verdict, WaitEvent};
use freehold_rt::job::Job;
use freehold_scenario::recording::keep;

use crate::placement::embedded::LiveTask;
use crate::placement::server::{JobSignal, ServedTask};

/// An access that takes at least this long has waited for the server, in nanoseconds: ten times what a cache miss
/// takes, and a third of what the quickest answer does.
const LEAST_WAIT: u64 = 1_500;

/// An access was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotServed;

/// A task that a thread can take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlacedTask<'a> {
    /// Of a pager in this process.
    Embedded(&'a LiveTask),
    /// Of a server.
    Served(&'a ServedTask),
}

impl<'a> PlacedTask<'a> {
    /// Whom its jobs are told to: devices that they open.
    pub(crate) fn signals(self) -> &'a [Arc<JobSignal>] {
        match self {
            Self::Embedded(task) => &task.signals,
            Self::Served(task) => &task.signals,
        }
    }

    /// Makes the calling thread act as the task.
    pub(crate) fn take(self) -> Result<TaskMemory<'a>, EnterError> {
        Ok(match self {
            Self::Embedded(task) => TaskMemory::Embedded {
                bound: task.handle.enter()?,
                regions: &task.regions,
            },
            Self::Served(task) => TaskMemory::Served {
                task,
                waits: Waits::default(),
            },
        })
    }
}

/// The regions of a task, touched by the thread that acts as it: faults of the first kind are served by that
/// thread itself, those of the second by a server. Regions and words are counted from 0; a word is eight bytes.
#[derive(Debug)]
pub(crate) enum TaskMemory<'a> {
    Embedded {
        bound: Bound<'a>,
        regions: &'a [Option<MappedRegion>],
    },
    Served {
        task: &'a ServedTask,
        waits: Waits,
    },
}

/// Accesses of one thread that waited for the server. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    number: u64,
    elapsed: u64,
    /// CPU time in them, where that is asked for.
    cpu: u64,
    /// The monotonic clock and the thread's CPU time when it was last seen to run.
    seen: Option<(u64, u64)>,
    /// One by one, of a recorded run.
    kept: Vec<WaitEvent>,
    room: usize,
    lost: u64,
}

impl Waits {
    /// The thread runs now.
    fn see(&mut self) {
        self.seen = Some((clock::now().as_nanos(), nanos(clock::thread_cpu_time())));
    }

    /// An access waited. What it took of the CPU is what the thread used since it was last seen, without the time from
    /// then on to this access: one look at the CPU clock for each wait, and too little where the thread lost its CPU.
    fn add(&mut self, begun: u64, took: u64) {
        self.number += 1;
        self.elapsed += took;
        if self.room > 0 {
            let wait = wait(begun, begun + took);
            keep(&mut self.kept, self.room, &mut self.lost, wait);
        }
        if let Some((at, cpu)) = self.seen {
            self.see();
            let used = self.seen.map_or(0, |(_, now)| now.saturating_sub(cpu));
            self.cpu += used.saturating_sub(begun.saturating_sub(at)).min(took);
        }
    }
}

impl TaskMemory<'_> {
    /// Keeps waits one by one, so many at most, where only the thread itself can tell of them. Allocates.
    pub(crate) fn note_waits(&mut self, room: usize) {
        if let Self::Served { waits, .. } = self {
            // Touched: the kernel would otherwise give it page by page, while the task runs.
            waits.kept = vec![wait(0, 0); room];
            waits.kept.clear();
            waits.room = room;
        }
    }

    /// The waits that were kept, and how many found no room.
    pub(crate) fn into_waits(self) -> (Vec<WaitEvent>, u64) {
        match self {
            Self::Embedded { .. } => (Vec::new(), 0),
            Self::Served { waits, .. } => (waits.kept, waits.lost),
        }
    }

    /// The length of a region; 0 where the task does not map it.
    pub(crate) fn words(&self, region: usize) -> usize {
        match self {
            Self::Embedded { regions, .. } => regions[region].map_or(0, |region| region.words()),
            Self::Served { task, .. } => task.mappings[region].as_ref().map_or(0, Mapping::words),
        }
    }

    pub(crate) fn read(&self, region: usize, word: usize) -> Result<u64, NotServed> {
        match self {
            Self::Embedded { bound, regions } => {
                let mapped = regions[region].ok_or(NotServed)?;
                bound.read_word(&mapped, word).map_err(|_| NotServed)
            }
            Self::Served { task, .. } => {
                let mapping = task.mappings[region].as_ref().ok_or(NotServed)?;
                mapping.try_read_word(word).map_err(|_| NotServed)
            }
        }
    }

    pub(crate) fn write(&self, region: usize, word: usize, value: u64) -> Result<(), NotServed> {
        match self {
            Self::Embedded { bound, regions } => {
                let mapped = regions[region].ok_or(NotServed)?;
                bound.write_word(&mapped, word, value).map_err(|_| NotServed)
            }
            Self::Served { task, .. } => {
                let mapping = task.mappings[region].as_ref().ok_or(NotServed)?;
                mapping.try_write_word(word, value).map_err(|_| NotServed)
            }
        }
    }

    /// Before an access, where only the thread itself can tell how long it takes.
    pub(crate) fn begin(&self) -> Option<MonotonicTime> {
        matches!(self, Self::Served { .. }).then(clock::now)
    }

    /// After that access.
    pub(crate) fn end(&mut self, begun: Option<MonotonicTime>) {
        if let (Self::Served { waits, .. }, Some(begun)) = (self, begun) {
            let took = clock::now().as_nanos().saturating_sub(begun.as_nanos());
            if took >= LEAST_WAIT {
                waits.add(begun.as_nanos(), took);
            }
        }
    }

    /// A job of a task with a pinned page pool begins.
    pub(crate) fn job_begins(&mut self) {
        if let Self::Served { waits, .. } = self {
            waits.see();
        }
    }

    /// What memory has cost the thread so far. Of a server, all of it counts as waiting for the store: from here one
    /// cannot tell what of it was.
    pub(crate) fn times(&self) -> TaskTimes {
        match self {
            Self::Embedded { bound, .. } => bound.task().times(),
            Self::Served { waits, .. } => TaskTimes {
                faults: waits.number,
                store_slept: Duration::new(waits.elapsed),
                ..TaskTimes::default()
            },
        }
    }

    /// As [`times`](Self::times), with what swap-ins cost. Of a server it is asked how many there were, and the cost is
    /// that of all faults; `None` where it does not answer.
    pub(crate) fn swap_times(&self) -> Option<TaskTimes> {
        let times = self.times();
        match self {
            Self::Embedded { .. } => Some(times),
            Self::Served { task, waits } => {
                let counts = task.task.counts().ok()?;
                Some(TaskTimes {
                    swap_ins: counts.swap_ins,
                    swap_cpu: Duration::new(waits.cpu),
                    swap_elapsed: Duration::new(waits.elapsed),
                    ..times
                })
            }
        }
    }

    /// Whether what swap-ins cost is not told from other faults.
    pub(crate) fn lumps_faults(&self) -> bool {
        matches!(self, Self::Served { .. })
    }

    /// Reports a job of a task with a pinned page pool; `None` where that cannot be. `next`: when the next is released,
    /// if this one has ended; who restores is told by others in placement embedded.
    pub(crate) fn report_job(&self, report: &JobReport, next: Option<MonotonicTime>) -> Option<Verdict> {
        match self {
            Self::Embedded { bound, .. } => bound.report_job(report).ok(),
            Self::Served { task, .. } => task.pool.as_ref()?.judge(report, next).ok(),
        }
    }

    /// A job is over that nobody has timed.
    pub(crate) fn end_untimed_job(&self) {
        match self {
            Self::Embedded { bound, .. } => bound.job_end(),
            Self::Served { task, .. } => task.task.job_end(std::time::Duration::ZERO, false),
        }
    }

    /// A job is over.
    pub(crate) fn job_end(&self, job: &Job) {
        match self {
            Self::Embedded { bound, .. } => bound.job_end(),
            Self::Served { task, .. } => task.task.job_end(job.response(), job.late),
        }
    }
}

/// A wait, in nanoseconds, whose thread ran again at once.
fn wait(from: u64, to: u64) -> WaitEvent {
    WaitEvent {
        from: Instant::new(from),
        to: Instant::new(to),
        resumed: Instant::new(to),
        spun: false,
    }
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
