//! Components by the clock: each task is a thread of its class that takes real units of real pools, works, and calls
//! the next component, as in the simulation. It really waits in the kernel. A manager, more urgent than all of them,
//! moves units by the policy of the core.

mod caller;
mod manager;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use freehold_component::UnitManager;
use freehold_linux::clock::MonotonicTime;
use freehold_linux::pi_mutex::PiMutex;
use freehold_rt::record::Record;
use freehold_rt::stop::StopFlag;
use freehold_scenario::results::{Engine, Placement};
use freehold_scenario::{Scenario, Transient};
use freehold_sim::component::{self, ComponentReport, Model, ThreadReport, TransientOutcome};

use self::caller::{Caller, Progress};
use self::manager::{Manager, caches};
use crate::error::LiveError;
use crate::placement::embedded::choose_cpus;
use crate::result;
use crate::run::{self, Outcome};
use crate::start_delay;

/// Runs a scenario of components in as much time as it says.
pub(crate) fn run(scenario: &Scenario, transient: &Transient, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let cpus = choose_cpus(scenario)?;
    let model = component::model_of(scenario, transient);
    let judged = model.threads.iter().filter(|thread| thread.priority > 0).count();
    let mut units = UnitManager::new(&caches(transient, &model), transient.limit, transient.policy, judged)?;
    let unlocked = run::lock_program()?;
    let threads = Threads {
        scenario,
        transient,
        model: &model,
        cpus: &cpus,
        jobs: jobs(&model),
        progress: model
            .threads
            .iter()
            .map(|_| PiMutex::new(Progress::default()))
            .collect(),
        stop,
    };
    let (origin, done) = threads.play(&mut units)?;
    let outcome = threads.outcome(&mut units, &done)?;
    let mut result = component::result_of(scenario, transient, &outcome);
    (result.head.engine, result.head.placement) = (Engine::Live, Some(Placement::Embedded));
    result.memory.resident_measured = units.resident_pages()? as u64;
    for (position, (done, thread)) in done.iter().zip(&outcome.threads).enumerate() {
        result.tasks[position] = result::timed_result(scenario, position, &done.record, origin);
        result.tasks[position].waits.unit_wait_ns = thread.blocked;
    }
    result.warnings.extend(start_delay::warning(scenario));
    result.warnings.extend(unlocked);
    Ok(Outcome {
        result,
        stopped: stop.load(Ordering::Relaxed),
        recording: None,
    })
}

/// The number of each thread's jobs in the pools: first of those that the policy knows.
fn jobs(model: &Model) -> Vec<u32> {
    let judged = model.threads.iter().filter(|thread| thread.priority > 0).count();
    let (mut known, mut other) = (0, judged);
    let number = |count: &mut usize| {
        *count += 1;
        u32::try_from(*count).unwrap_or(u32::MAX)
    };
    let threads = model.threads.iter();
    threads
        .map(|thread| number(if thread.priority > 0 { &mut known } else { &mut other }))
        .collect()
}

/// Who takes part.
struct Threads<'a> {
    scenario: &'a Scenario,
    transient: &'a Transient,
    model: &'a Model,
    cpus: &'a [usize],
    jobs: Vec<u32>,
    progress: Vec<PiMutex<Progress>>,
    stop: &'a AtomicBool,
}

/// What a thread brings home.
pub(crate) struct Done {
    pub(crate) record: Record,
    /// The first request that ended without a unit.
    pub(crate) failed: Option<String>,
}

impl Threads<'_> {
    /// Has all threads begin at once; when that was, and what they did.
    fn play(&self, units: &mut UnitManager) -> Result<(MonotonicTime, Vec<Done>), LiveError> {
        let flag = StopFlag::new();
        let pools = units.open()?;
        thread::scope(|scope| {
            let (ready, readiness) = mpsc::channel();
            let (mut starts, mut handles) = (Vec::new(), Vec::new());
            for (position, task) in self.scenario.tasks.iter().enumerate() {
                let (start, begin) = mpsc::channel();
                starts.push(start);
                let caller = Caller::new(self, position, &pools, &flag);
                let ready = ready.clone();
                handles.push(run::spawn(scope, &task.name, move || caller.main(&ready, &begin))?);
            }
            drop(ready);
            let managed = run::start_all(&readiness, &starts, start_delay::lead(self.scenario)).and_then(|origin| {
                let manager = Manager::new(self, units, origin);
                let managing = run::spawn(scope, "units", move || manager.main())?;
                let managed = managing.join().map_err(|_| LiveError::Panicked("units".to_owned()))?;
                managed.map(|()| origin)
            });
            // Who was not told when to begin goes home, and so does who works.
            drop(starts);
            flag.raise();
            let done = join(self.scenario, handles);
            Ok((managed?, done?))
        })
    }

    /// What pools and policy say at the end, when nobody has a unit any more.
    fn outcome(&self, units: &mut UnitManager, done: &[Done]) -> Result<TransientOutcome, LiveError> {
        let mut broken: Vec<String> = done.iter().filter_map(|done| done.failed.clone()).collect();
        broken.extend(units.settle());
        let blocked = |job: &u32| units.blocked(*job);
        let threads = self.jobs.iter().map(blocked).map(|blocked| ThreadReport {
            blocked,
            ..ThreadReport::default()
        });
        let caches = (0..units.count()).map(|cache| {
            let view = units.view(cache);
            // Nobody else has a unit come to who waits.
            let handed_over = view.contended.saturating_sub(view.overruns);
            ComponentReport { view, handed_over }
        });
        let frames = |pages: usize| u32::try_from(pages).unwrap_or(u32::MAX);
        Ok(TransientOutcome {
            caches: caches.collect(),
            threads: threads.collect(),
            runs: units.runs(),
            frames: frames(units.pages()),
            peak: frames(units.peak_pages()),
            broken,
            ..TransientOutcome::default()
        })
    }
}

type Handle<'scope> = ScopedJoinHandle<'scope, Option<Done>>;

fn join(scenario: &Scenario, handles: Vec<Handle<'_>>) -> Result<Vec<Done>, LiveError> {
    let mut all = Vec::new();
    for (task, handle) in scenario.tasks.iter().zip(handles) {
        let done = handle.join().map_err(|_| LiveError::Panicked(task.name.clone()))?;
        // One that could not begin has said why.
        all.extend(done);
    }
    Ok(all)
}
