//! One task's thread: its jobs walk from component to component.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::stack;
use freehold_rt::job::Delays;
use freehold_rt::pacer::Pacer;
use freehold_rt::record::Record;
use freehold_rt::runner::{self, Work};
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use freehold_sim::component::{Model, ThreadModel, Walk, part};
use freehold_tmem::{Pool, job};

use super::{Done, Threads};
use crate::compute::Computation;
use crate::error::LiveError;
use crate::run;

/// Jobs between two runs of the policy whose ends fit into memory that is there.
const ROOM: usize = 1 << 12;

/// What the manager is told of a thread.
#[derive(Debug)]
pub(super) struct Progress {
    /// How late each job was that has ended since it was asked.
    pub(super) tardiness: Vec<i64>,
    /// Of the job under way.
    deadline: Option<MonotonicTime>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            tardiness: Vec::with_capacity(ROOM),
            deadline: None,
        }
    }
}

impl Progress {
    /// How late the job under way is, if it is.
    pub(super) fn lateness(&self, now: MonotonicTime) -> Option<i64> {
        let late = now.saturating_since(self.deadline?);
        (!late.is_zero()).then(|| signed(late))
    }

    fn end(&mut self, now: MonotonicTime) {
        if let Some(deadline) = self.deadline.take() {
            self.tardiness.push(signed(now.saturating_since(deadline)));
        }
    }
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A task's thread.
pub(super) struct Caller<'a> {
    cast: &'a Threads<'a>,
    position: usize,
    pools: &'a [Pool],
    flag: &'a StopFlag,
}

impl<'a> Caller<'a> {
    pub(super) fn new(cast: &'a Threads<'a>, position: usize, pools: &'a [Pool], flag: &'a StopFlag) -> Self {
        Self {
            cast,
            position,
            pools,
            flag,
        }
    }

    pub(super) fn main(&self, ready: &Sender<Result<(), LiveError>>, begin: &Receiver<MonotonicTime>) -> Option<Done> {
        let (scenario, spec) = (self.cast.scenario, &self.cast.scenario.tasks[self.position]);
        job::set(self.cast.jobs[self.position]);
        let timing = run::timing(scenario, spec, MonotonicTime::from_nanos(0));
        let mut record = Record::for_timing(&timing);
        let present = stack::bring_in_current().map_err(LiveError::Program);
        // As `component run` does: waiting lends nothing between ordinary threads.
        let inherits = self.cast.transient.inheritance;
        let outcome = present.and_then(|()| run::take_class(spec, self.cast.cpus, inherits));
        let failed = outcome.is_err();
        let _ = ready.send(outcome);
        let origin = begin.recv().ok().filter(|_| !failed)?;
        let timing = run::timing(scenario, spec, origin);
        let mut work = Calls {
            model: self.cast.model,
            thread: &self.cast.model.threads[self.position],
            walk: Walk::new(scenario.seed, self.position),
            pools: self.pools,
            computation: Computation::default(),
            timing,
            progress: &self.cast.progress[self.position],
            flag: self.flag,
            waited: Duration::ZERO,
            failed: None,
        };
        if !spec.is_idle() {
            runner::run(&timing, self.flag, &mut work, &mut record);
        }
        let failed = work.failed.map(|what| format!("{}: {what}", spec.name));
        Some(Done { record, failed })
    }
}

/// A thread at work.
struct Calls<'a> {
    model: &'a Model,
    thread: &'a ThreadModel,
    walk: Walk,
    pools: &'a [Pool],
    computation: Computation,
    timing: Timing,
    progress: &'a PiMutex<Progress>,
    flag: &'a StopFlag,
    waited: Duration,
    failed: Option<String>,
}

/// Units that a job has, the last one last.
type Held = Vec<(usize, *const u8)>;

impl Calls<'_> {
    /// A job enters a component: its work there, and then further down.
    fn enter(&mut self, component: usize, left: u64, held: &mut Held) -> Result<(), String> {
        let model = &self.model.components[component];
        for cache in [2 * component, 2 * component + 1] {
            let begun = clock::now();
            let taken = self.pools[cache].take(1);
            self.waited += clock::now().saturating_since(begun);
            let buffer = taken.map_err(|error| format!("no unit of cache {cache}: {error}"))?;
            held.push((cache, buffer.start));
        }
        let part = part(self.thread, model, left);
        self.computation.add(Duration::from_nanos(part));
        self.computation.finish();
        match self.walk.call(model, left - part).filter(|_| !self.flag.is_raised()) {
            Some(callee) => self.enter(callee, left - part, held),
            None => Ok(()),
        }
    }

    fn release(&self, held: Held) -> Result<(), String> {
        let mut outcome = Ok(());
        for (cache, start) in held.into_iter().rev() {
            let released = self.pools[cache].release(start);
            outcome =
                outcome.and(released.map_err(|errno| format!("a unit of cache {cache} is not released: {errno}")));
        }
        outcome
    }
}

impl Work for Calls<'_> {
    fn job(&mut self, number: u64, _: &Pacer) -> ControlFlow<()> {
        let release = self.timing.release(number);
        self.progress.lock().deadline = release
            .zip(self.timing.deadline)
            .map(|(at, span)| at.saturating_add(span));
        let mut held = Held::new();
        let component = self.walk.enter(self.thread);
        let entered = self.enter(component, self.thread.work, &mut held);
        let outcome = entered.and(self.release(held));
        self.progress.lock().end(clock::now());
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(what) => {
                self.failed = Some(what);
                ControlFlow::Break(())
            }
        }
    }

    fn delays(&self) -> Delays {
        Delays {
            lock_wait: self.waited,
            ..Delays::default()
        }
    }
}
