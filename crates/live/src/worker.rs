//! A task's work: the accesses of its jobs, as real touches.

use std::ops::ControlFlow;
use std::sync::Arc;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::{TaskTimes, WaitEvent};
use freehold_rt::job::{Delays, Job};
use freehold_rt::pacer::Pacer;
use freehold_rt::runner::Work;
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use freehold_scenario::{Access, AccessGenerator, Scenario, TaskIndex};

use crate::compute::{Computation, Preemption};
use crate::placement::server::JobSignal;
use crate::placement::task_memory::{NotServed, TaskMemory};
use crate::reporter::{PinnedTask, ReportLog};
use crate::usage::Usage;

/// Words in a page.
const WORDS: usize = 512;
/// Words that a task has for its own in each page: one to write, one to remember by.
const WORDS_OF_TASK: usize = 2;
/// Tasks that have words of their own; what others find is not checked.
const TASKS_CHECKED: usize = WORDS / WORDS_OF_TASK;
/// Accesses between two looks at the clock.
const CLOCK_EVERY: u64 = 64;

/// What memory has cost a thread so far, as its jobs are told.
pub(crate) fn delays_of(times: &TaskTimes) -> Delays {
    let span = |span: freehold_core::units::Duration| std::time::Duration::from_nanos(span.get());
    Delays {
        store_wait: span(times.store_slept),
        store_spin: span(times.store_spun),
        fault_service: span(times.fault_service),
        lock_wait: span(times.lock_wait),
    }
}

/// What a worker brings home.
#[derive(Debug)]
pub(crate) struct TaskOutput {
    pub(crate) usage: Usage,
    /// Accesses that ended with an error.
    pub(crate) errors: u64,
    /// Accesses that found something else than the task had left there (law 5).
    pub(crate) wrong: u64,
    /// The first of these, as region and page.
    pub(crate) first_wrong: Option<(usize, usize)>,
    /// When the task had no CPU though it computed; of a recorded run.
    pub(crate) preempted: Vec<Preemption>,
    /// Preemptions that found no room.
    pub(crate) preemptions_lost: u64,
    /// When it waited for a server; of a recorded run.
    pub(crate) waits: Vec<WaitEvent>,
    /// Waits that found no room.
    pub(crate) waits_lost: u64,
    /// What became of its reports, if it has a pinned page pool.
    pub(crate) told: Option<ReportLog>,
}

/// One task at work.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    pages: TaskMemory<'a>,
    generator: AccessGenerator,
    /// For each region and page, what the task left there.
    left: Vec<Vec<u64>>,
    position: usize,
    computation: Computation,
    made: u64,
    stop: &'a StopFlag,
    end: Option<MonotonicTime>,
    pinned: Option<PinnedTask<'a>>,
    /// Devices that its jobs open.
    devices: &'a [Arc<JobSignal>],
    output: TaskOutput,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(scenario: &Scenario, position: usize, pages: TaskMemory<'a>, stop: &'a StopFlag) -> Self {
        let index = TaskIndex::new(u16::try_from(position).unwrap_or(u16::MAX));
        let left = |region: usize| vec![0; pages.words(region) / WORDS];
        Self {
            left: (0..scenario.regions.len()).map(left).collect(),
            pages,
            generator: AccessGenerator::new(scenario, index, scenario.seed),
            position,
            computation: Computation::default(),
            made: 0,
            stop,
            end: None,
            pinned: None,
            devices: &[],
            output: TaskOutput {
                usage: Usage::new(scenario, position),
                errors: 0,
                wrong: 0,
                first_wrong: None,
                preempted: Vec::new(),
                preemptions_lost: 0,
                waits: Vec::new(),
                waits_lost: 0,
                told: None,
            },
        }
    }

    /// Time 0 is known, and with it all releases. Jobs are broken off at their end.
    pub(crate) fn begin(&mut self, origin: MonotonicTime, timing: &Timing) {
        self.end = Some(timing.end);
        if let Some(pinned) = &mut self.pinned {
            pinned.begin(origin, timing);
        }
    }

    /// What the task does besides, where it has a pinned page pool.
    pub(crate) fn take_on(&mut self, pinned: Option<PinnedTask<'a>>) {
        self.pinned = pinned;
    }

    /// Who is told of jobs: each opens a device while one is under way.
    pub(crate) fn tell_devices(&mut self, devices: &'a [Arc<JobSignal>]) {
        self.devices = devices;
    }

    /// Notes when the task has no CPU or waits for a server, so many times at most. Allocates.
    pub(crate) fn note_interruptions(&mut self, room: usize) {
        self.computation.note_preemptions(room);
        self.pages.note_waits(room);
    }

    pub(crate) fn begin_job(&mut self) {
        self.generator.begin_job();
        self.output.usage.begin_job();
        self.made = 0;
    }

    /// Makes the next access of the job; none is left where there is none.
    pub(crate) fn next_access(&mut self) -> Option<()> {
        let access = self.generator.next()?;
        self.touch(access);
        self.made += 1;
        Some(())
    }

    /// What memory has cost the thread so far.
    pub(crate) fn times(&self) -> TaskTimes {
        self.pages.times()
    }

    pub(crate) fn end_job(&mut self) {
        self.output.usage.end_job();
    }

    /// The same where no pacer runs the jobs.
    pub(crate) fn end_untimed_job(&mut self) {
        self.end_job();
        self.pages.end_untimed_job();
    }

    pub(crate) fn output(self) -> TaskOutput {
        let (preempted, preemptions_lost) = self.computation.into_preemptions();
        let (waits, waits_lost) = self.pages.into_waits();
        TaskOutput {
            preempted,
            preemptions_lost,
            waits,
            waits_lost,
            told: self.pinned.map(PinnedTask::into_log),
            ..self.output
        }
    }

    /// Computes what is due after the access just made.
    fn compute(&mut self) {
        let due = self.generator.compute_after(self.made.saturating_sub(1));
        self.computation.add(std::time::Duration::from_nanos(due.get()));
    }

    fn touch(&mut self, access: Access) {
        let (region, page) = (access.region.get(), access.page.get() as usize);
        self.output.usage.touch(region, page);
        let begun = self.pages.begin();
        let visited = self.visit(region, page, access.write);
        self.pages.end(begun);
        match visited {
            Ok(true) => {}
            Ok(false) => {
                self.output.wrong += 1;
                self.output.first_wrong.get_or_insert((region, page));
            }
            Err(_) => self.output.errors += 1,
        }
    }

    /// Touches a page; true if it holds what the task left there. A write goes first, so that it is a write that
    /// faults; what was left is in another word of the same page.
    fn visit(&mut self, region: usize, page: usize, write: bool) -> Result<bool, NotServed> {
        let word = page * WORDS + (self.position % TASKS_CHECKED) * WORDS_OF_TASK;
        let checked = self.position < TASKS_CHECKED;
        let left = self.left[region][page];
        if !write {
            return Ok(self.pages.read(region, word)? == left || !checked);
        }
        let next = left.wrapping_add(1).max(1) ^ ((page as u64) << 40);
        self.pages.write(region, word, next)?;
        let right = self.pages.read(region, word + 1)? == left || !checked;
        self.pages.write(region, word + 1, next)?;
        self.left[region][page] = next;
        Ok(right)
    }

    fn is_over(&self) -> bool {
        self.stop.is_raised()
            || (self.made.is_multiple_of(CLOCK_EVERY) && self.end.is_some_and(|end| clock::now() >= end))
    }
}

impl Work for Worker<'_> {
    fn job(&mut self, _number: u64, pacer: &Pacer) -> ControlFlow<()> {
        self.begin_job();
        self.devices.iter().for_each(|device| device.turn());
        if let Some(pinned) = &mut self.pinned {
            self.pages.job_begins();
            pinned.begin_job(&self.pages);
        }
        loop {
            if let Some(pinned) = &mut self.pinned {
                pinned.look(&self.pages, pacer);
            }
            if self.is_over() {
                return ControlFlow::Break(());
            }
            let more = self.next_access().is_some();
            if !more && self.made > 0 {
                break;
            }
            if !more {
                // A job without accesses computes all at once.
                self.made = 1;
                self.compute();
                break;
            }
            self.compute();
        }
        self.computation.finish();
        self.end_job();
        self.devices.iter().for_each(|device| device.turn());
        ControlFlow::Continue(())
    }

    fn delays(&self) -> Delays {
        delays_of(&self.pages.times())
    }

    fn rest(&mut self, job: &Job, pacer: &Pacer) {
        self.pages.job_end(job);
        if let Some(pinned) = &mut self.pinned {
            pinned.end_job(&self.pages, job, pacer);
        }
    }
}
