//! A task as its thread knows it, wherever the pager is: in this process, or in a server.

use freehold_client::{Mapping, Task};
use freehold_core::pinning::JobReport;
use freehold_core::units::Duration;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::{Bound, EnterError, MappedRegion, TaskTimes, Verdict};
use freehold_rt::job::Job;

use crate::machine::LiveTask;
use crate::served::ServedTask;

/// An access that takes at least this long has waited for the server, in nanoseconds: ten times what a cache miss
/// takes, and a third of what the quickest answer does.
const LEAST_WAIT: u64 = 1_500;

/// An access was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotServed;

/// A task that a thread can take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seat<'a> {
    /// Of a pager in this process.
    Embedded(&'a LiveTask),
    /// Of a server.
    Served(&'a ServedTask),
}

/// A seat that the calling thread has taken.
#[derive(Debug)]
pub(crate) enum Taken<'a> {
    /// Faults are served by this thread.
    Embedded(Bound<'a>, &'a [Option<MappedRegion>]),
    /// Faults are served by the server.
    Served(&'a Task, &'a [Option<Mapping>]),
}

impl<'a> Seat<'a> {
    /// Makes the calling thread act as the task.
    pub(crate) fn take(self) -> Result<Taken<'a>, EnterError> {
        match self {
            Self::Embedded(task) => Ok(Taken::Embedded(task.handle.enter()?, &task.regions)),
            Self::Served(task) => Ok(Taken::Served(&task.task, &task.mappings)),
        }
    }
}

impl Taken<'_> {
    /// What the thread touches.
    pub(crate) fn pages(&self) -> Pages<'_> {
        match self {
            Self::Embedded(bound, regions) => Pages::Embedded { bound, regions },
            Self::Served(task, mappings) => Pages::Served {
                task,
                mappings,
                waited: 0,
                waits: 0,
            },
        }
    }
}

/// The regions of a task, touched by its thread. Regions and words are counted from 0; a word is eight bytes.
#[derive(Debug)]
pub(crate) enum Pages<'a> {
    Embedded {
        bound: &'a Bound<'a>,
        regions: &'a [Option<MappedRegion>],
    },
    Served {
        task: &'a Task,
        mappings: &'a [Option<Mapping>],
        /// What waiting accesses took, in nanoseconds.
        waited: u64,
        waits: u64,
    },
}

impl Pages<'_> {
    /// The length of a region; 0 where the task does not map it.
    pub(crate) fn words(&self, region: usize) -> usize {
        match self {
            Self::Embedded { regions, .. } => regions[region].map_or(0, |region| region.words()),
            Self::Served { mappings, .. } => mappings[region].as_ref().map_or(0, Mapping::words),
        }
    }

    pub(crate) fn read(&self, region: usize, word: usize) -> Result<u64, NotServed> {
        match self {
            Self::Embedded { bound, regions } => {
                let mapped = regions[region].ok_or(NotServed)?;
                bound.read_word(&mapped, word).map_err(|_| NotServed)
            }
            Self::Served { mappings, .. } => {
                let mapping = mappings[region].as_ref().ok_or(NotServed)?;
                mapping.read_word(word).ok_or(NotServed)
            }
        }
    }

    pub(crate) fn write(&self, region: usize, word: usize, value: u64) -> Result<(), NotServed> {
        match self {
            Self::Embedded { bound, regions } => {
                let mapped = regions[region].ok_or(NotServed)?;
                bound.write_word(&mapped, word, value).map_err(|_| NotServed)
            }
            Self::Served { mappings, .. } => {
                let mapping = mappings[region].as_ref().ok_or(NotServed)?;
                mapping.write_word(word, value).ok_or(NotServed)
            }
        }
    }

    /// Before an access, where only the thread itself can tell how long it takes.
    pub(crate) fn begin(&self) -> Option<MonotonicTime> {
        matches!(self, Self::Served { .. }).then(clock::now)
    }

    /// After that access.
    pub(crate) fn end(&mut self, begun: Option<MonotonicTime>) {
        if let (Self::Served { waited, waits, .. }, Some(begun)) = (self, begun) {
            let took = clock::now().as_nanos().saturating_sub(begun.as_nanos());
            if took >= LEAST_WAIT {
                *waited += took;
                *waits += 1;
            }
        }
    }

    /// What memory has cost the thread so far. Of a server, all of it counts as waiting for the store: from here one
    /// cannot tell what of it was.
    pub(crate) fn times(&self) -> TaskTimes {
        match self {
            Self::Embedded { bound, .. } => bound.task().times(),
            Self::Served { waited, waits, .. } => TaskTimes {
                faults: *waits,
                store_slept: Duration::new(*waited),
                ..TaskTimes::default()
            },
        }
    }

    /// Reports a job of a task with a pinned page pool; `None` where that cannot be.
    pub(crate) fn report_job(&self, report: &JobReport) -> Option<Verdict> {
        match self {
            Self::Embedded { bound, .. } => bound.report_job(report).ok(),
            Self::Served { .. } => None,
        }
    }

    /// A job is over.
    pub(crate) fn job_end(&self, job: &Job) {
        match self {
            Self::Embedded { bound, .. } => bound.job_end(),
            Self::Served { task, .. } => task.job_end(job.response(), job.late),
        }
    }
}
