//! A job of the task: it touches all its memory, and counts its page faults.

use std::ops::ControlFlow;
use std::time::Duration;

use freehold_linux::faults::{self, FaultEvents};
use freehold_linux::{PAGE_SIZE, ThreadId, bare, clock};
use freehold_pager::{Bound, MappedRegion};
use freehold_rt::job::{Delays, Job};
use freehold_rt::pacer::Pacer;
use freehold_rt::runner::Work;

use super::child::{STALL, WARM_UP};
use crate::bench::rounds::refused;
use freehold_command::exit_status::Failure;

/// Touches between two looks at the clock.
const LOOK_EVERY: usize = 8;
/// Bytes of a page that a job writes.
const WRITTEN: usize = 256;

/// Memory of the task.
pub(super) trait Memory {
    /// Copies a page out.
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure>;

    /// Writes to the front of a page.
    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure>;

    /// Between two jobs.
    fn rest(&mut self) {}
}

/// Memory of a pager.
pub(super) struct Paged<'a> {
    pub(super) bound: &'a Bound<'a>,
    pub(super) region: MappedRegion,
}

impl Memory for Paged<'_> {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        self.bound.read(&self.region, page * PAGE_SIZE, to).map_err(refused)
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        self.bound.write(&self.region, page * PAGE_SIZE, from).map_err(refused)
    }

    fn rest(&mut self) {
        self.bound.job_end();
    }
}

/// Copied by the same instruction as managed memory, and as that from the beginning of a page: only where the memory
/// comes from differs.
pub(super) struct Plain(pub(super) Vec<Page>);

/// As it begins and ends.
#[derive(Clone)]
#[repr(align(4096))]
pub(super) struct Page(pub(super) [u8; PAGE_SIZE]);

impl Memory for Plain {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        bare::copy(to, &self.0[page].0);
        Ok(())
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        bare::copy(&mut self.0[page].0, from);
        Ok(())
    }
}

/// A job: every page is read, and written in part, several times over.
pub(super) struct Touching<M> {
    memory: M,
    pages: usize,
    /// Pages read, and written in part, in one job.
    touches: usize,
    buffer: [u8; PAGE_SIZE],
    /// How long each job was stopped.
    pub(super) stalls: Vec<Duration>,
    pub(super) counted: Counted,
    pub(super) failed: Option<Failure>,
}

/// Page faults of the jobs measured.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// By the thread's own account.
    pub(super) faults: u64,
    events: Option<FaultEvents>,
    /// Events before the first of these jobs: the first touches are among them.
    before: Option<u64>,
}

impl Counted {
    /// Has the kernel count the calling thread's. Without the right nothing is counted, which the report says.
    pub(super) fn arm(&mut self) {
        self.events = FaultEvents::of(ThreadId::current()).ok();
    }

    fn begin(&mut self) {
        self.before = self.events.as_ref().and_then(|events| events.count().ok());
    }

    /// The kernel's events of the jobs that are not measured.
    pub(super) fn events_before(&self) -> Option<u64> {
        self.before
    }

    /// The kernel's events since the beginning.
    pub(super) fn events(&self) -> Option<u64> {
        Some(self.events.as_ref()?.count().ok()?.saturating_sub(self.before?))
    }
}

impl<M: Memory> Touching<M> {
    /// A job with room for what it notes of so many.
    pub(super) fn new(memory: M, pages: usize, touches: usize, jobs: u32) -> Self {
        // The room's memory is there before the first.
        let mut stalls = vec![Duration::MAX; jobs as usize];
        stalls.clear();
        Self {
            memory,
            pages,
            touches,
            buffer: [0; PAGE_SIZE],
            stalls,
            counted: Counted::default(),
            failed: None,
        }
    }

    /// Touches everything, and returns for how long it was stopped.
    fn touch(&mut self) -> Result<Duration, Failure> {
        let (mut looked, mut stalled) = (clock::now(), Duration::ZERO);
        for touch in 0..self.touches {
            let page = touch % self.pages;
            self.memory.read(page, &mut self.buffer)?;
            self.memory.write(page, &self.buffer[..WRITTEN])?;
            if touch % LOOK_EVERY == 0 {
                let now = clock::now();
                let gap = now.saturating_since(looked);
                looked = now;
                if gap > STALL {
                    stalled += gap;
                }
            }
        }
        Ok(stalled)
    }
}

impl<M: Memory> Work for Touching<M> {
    fn job(&mut self, number: u64, _: &Pacer) -> ControlFlow<()> {
        if number == u64::from(WARM_UP) {
            self.counted.begin();
        }
        let faults = faults::of_this_thread();
        match self.touch() {
            Ok(stalled) => {
                self.stalls.push(stalled);
                if number >= u64::from(WARM_UP) {
                    self.counted.faults += faults::of_this_thread() - faults;
                }
                ControlFlow::Continue(())
            }
            Err(failure) => {
                self.failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn delays(&self) -> Delays {
        Delays::default()
    }

    fn rest(&mut self, _: &Job, _: &Pacer) {
        self.memory.rest();
    }
}
