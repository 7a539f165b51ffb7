//! Lockstep: the live engine does everything in the order in which the simulator did it, so that every count is equal.
//!
//! A coordinator walks through the simulator's schedule. Accesses are real touches by the tasks' own threads, one
//! thread at a time; requests to the store end when the schedule says so. Where the pager is a server, its engine is in
//! this process too.

mod compare;
pub mod components;
mod conductor;
mod devices;
mod placement;
mod served;
mod task_thread;
mod turn;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use freehold_core::units::FrameCount;
use freehold_pager::{EnterError, Pace, TaskHandle};
use freehold_scenario::results::{Engine, Laws, Placement, RunResult, Violation};
use freehold_scenario::{Scenario, ScenarioDevice, Transient, setup};
use freehold_server::serve;
use freehold_sim::{Options, SimError, Step, component};

use self::conductor::{Conductor, Snapshot};
use self::devices::Clients;
use self::placement::{Embedded, LockstepPlacement};
use self::served::Served;
use self::task_thread::{TaskThread, TaskThreadHandle};
use self::turn::Turns;
use crate::device_memory::DeviceMemory;
use crate::error::LiveError;
use crate::placement::embedded::Machine;
use crate::placement::server::{Host, ServerPlacement};
use crate::placement::task_memory::PlacedTask;
use crate::result;
use crate::run::{Outcome, decided, refuse_components};
use crate::store;
use crate::watch::Paging;
use crate::worker::TaskOutput;

/// Runs a scenario in the simulator, then on real pages in the same order. Counts are those of the real pages; times,
/// jobs and misses are the simulator's, since in lockstep there is no real time. A count that differs from the
/// simulator's is reported among the broken laws.
///
/// # Errors
/// [`LiveError`], among them [`LiveError::Diverged`] where the real run could not follow.
pub fn run_in_lockstep(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    refuse_parts(scenario)?;
    if let Some(transient) = &scenario.transient {
        return follow_components(scenario, transient);
    }
    decided(scenario, |scenario| follow_embedded(scenario, stop))
}

/// The same with the pages brought by a server, which is started for the run in this process, at a socket of its own.
///
/// # Errors
/// As [`run_in_lockstep`]; [`LiveError::Faults`].
pub fn run_in_lockstep_on_server(
    scenario: &Scenario,
    server: &serve::Options,
    stop: &AtomicBool,
) -> Result<Outcome, LiveError> {
    refuse_parts(scenario)?;
    refuse_components(scenario)?;
    decided(scenario, |scenario| follow_served(scenario, server, stop))
}

/// Refuses devices opened in parts that device memory on real pages rounds up, as the simulator does not.
fn refuse_parts(scenario: &Scenario) -> Result<(), LiveError> {
    let common = scenario
        .devices
        .iter()
        .fold(0, |common, device| divisor(common, device.size.get()));
    let is_whole = |used: FrameCount| used.get().is_multiple_of(common);
    let parts = |device: &&ScenarioDevice| {
        let of_task = device.task.map(|(_, used)| used);
        let opens = device.opens.iter().map(|open| open.used).chain(of_task);
        !opens.into_iter().all(is_whole)
    };
    match scenario.devices.iter().find(parts) {
        Some(device) => Err(LiveError::Parts(device.name.clone())),
        None => Ok(()),
    }
}

fn divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// What the simulator did.
struct Simulated {
    result: RunResult,
    /// In which order.
    steps: Vec<Step>,
}

fn simulate(scenario: &Scenario, placement: Placement) -> Result<Simulated, LiveError> {
    let options = Options {
        schedule: true,
        copies_at_once: true,
        check_every: Some(0),
        ..Options::default()
    };
    let simulated = freehold_sim::simulate(scenario, &options)?;
    let mut result = simulated.result;
    result.head.engine = Engine::Live;
    result.head.placement = Some(placement);
    result
        .warnings
        .push("in lockstep: jobs, misses and times are the simulator's, counts are real".to_owned());
    let steps = simulated.schedule.map(|schedule| schedule.steps);
    Ok(Simulated {
        result,
        steps: steps.unwrap_or_default(),
    })
}

/// Threads that call: the kernel wakes whom the simulator chose, and units are where it has them.
fn follow_components(scenario: &Scenario, transient: &Transient) -> Result<Outcome, LiveError> {
    let model = component::model_of(scenario, transient);
    let simulated = component::simulate_components(&model, component::options_of(scenario, transient, true));
    let simulated = simulated.map_err(|reason| SimError::Components { reason })?;
    let mut result = component::result_of(scenario, transient, &simulated);
    let followed = components::follow(&model, &simulated).map_err(|(step, what)| LiveError::Diverged { step, what })?;
    result.head.engine = Engine::Live;
    result.head.placement = Some(Placement::Embedded);
    result.memory.resident_measured = followed.iter().map(|cache| cache.resident).sum();
    let differences = compare::components(&model, &followed, &mut result);
    result
        .laws
        .violations
        .extend(differences.into_iter().map(|what| Violation { law: 0, at_ns: 0, what }));
    result
        .warnings
        .push("in lockstep: jobs, misses and times are the simulator's, counts are real".to_owned());
    Ok(Outcome {
        result,
        stopped: false,
        recording: None,
    })
}

/// Puts the real counts into the document, and what differs.
fn compare(scenario: &Scenario, result: &mut RunResult, (counts, devices): Snapshot) {
    let mut differences = compare::differences(scenario, result, &counts);
    let simulated = (result.victim_cache.take(), std::mem::take(&mut result.devices));
    differences.extend(devices::differences(&simulated, &devices));
    let broken = differences.into_iter().map(|what| Violation { law: 0, at_ns: 0, what });
    result.laws.violations.extend(broken);
    compare::replace(result, counts);
    (result.victim_cache, result.devices) = devices;
}

fn add(laws: &mut Laws, found: Laws) {
    laws.checked += found.checked;
    laws.violations.extend(found.violations);
}

fn follow_embedded(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let Simulated { mut result, steps, .. } = simulate(scenario, Placement::Embedded)?;
    let turns = Arc::new(Turns::new(usize::from(setup::limits(scenario).tasks)));
    let machine = Machine::new(scenario, Pace::Manual, Some(Arc::clone(&turns) as _), None)?;
    let socket = machine.devices.as_ref().map(DeviceMemory::socket);
    let socket = socket.unwrap_or(Path::new(""));
    let placement = Embedded {
        scenario,
        machine: &machine,
        turns: &turns,
    };
    let restorers: Vec<_> = setup::restorers(scenario).zip(&machine.restorers).collect();
    let slots = machine.tasks.iter().map(|task| task.handle.id().index());
    let threads = Threads {
        scenario,
        turns: &turns,
        task_threads: slots.zip(machine.seats()).collect(),
        restorers: &restorers,
        socket,
    };
    let (counts, outputs, clients, stopped) = threads.play(&placement, &steps, stop)?;
    machine.pager.settle()?;
    result.lock = Some(result::lock_result(&machine.pager.report()?));
    result.warnings.extend(store::shortfalls(&machine.pager));
    if let Some(counts) = counts.filter(|_| !stopped) {
        compare(scenario, &mut result, counts);
    }
    add(
        &mut result.laws,
        result::laws_of_lockstep(scenario, &machine, &outputs)?,
    );
    add(&mut result.laws, machine.device_results(scenario, clients.openings()).1);
    Ok(Outcome {
        result,
        stopped,
        recording: None,
    })
}

fn follow_served(scenario: &Scenario, server: &serve::Options, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    if scenario.faults.is_some() {
        return Err(LiveError::Faults);
    }
    let Simulated { mut result, steps } = simulate(scenario, Placement::Server)?;
    let fails = |step: &Step| matches!(step, Step::Complete { failed: true, .. });
    if steps.iter().any(fails) {
        return Err(LiveError::FullStore);
    }
    let turns = Turns::new(scenario.tasks.len());
    let machine = ServerPlacement::new(scenario, Pace::Manual, || Host::here(scenario, server))?;
    let socket = machine.host().socket();
    let placement = Served::new(scenario, &machine, &turns)?;
    let threads = Threads {
        scenario,
        turns: &turns,
        task_threads: machine.seats().into_iter().enumerate().collect(),
        restorers: &[],
        socket: &socket,
    };
    let (counts, outputs, clients, stopped) = threads.play(&placement, &steps, stop)?;
    machine.settle()?;
    let left = machine.counts(scenario, true)?;
    if let Some(counts) = counts.filter(|_| !stopped) {
        compare(scenario, &mut result, counts);
    }
    let outputs: Vec<&TaskOutput> = outputs.iter().collect();
    add(&mut result.laws, machine.laws(scenario, &left, &outputs)?);
    add(&mut result.laws, machine.device_laws(scenario, clients.openings())?);
    Ok(Outcome {
        result,
        stopped,
        recording: None,
    })
}

type Played<'a> = (Option<Snapshot>, Vec<TaskOutput>, Clients<'a>, bool);

/// Who plays: each by the slot of its turn.
struct Threads<'a> {
    scenario: &'a Scenario,
    turns: &'a Turns,
    task_threads: Vec<(usize, PlacedTask<'a>)>,
    /// Who brings pages back, and for which tasks.
    restorers: &'a [(usize, &'a TaskHandle)],
    /// Where devices are opened.
    socket: &'a Path,
}

impl<'a> Threads<'a> {
    fn play(
        &self,
        placement: &'a dyn LockstepPlacement,
        steps: &[Step],
        stop: &AtomicBool,
    ) -> Result<Played<'a>, LiveError> {
        let (scenario, turns) = (self.scenario, self.turns);
        let name = |position: usize| scenario.tasks[position].name.clone();
        let no_thread = |position: usize| {
            move |reason| LiveError::Thread {
                name: name(position),
                reason,
            }
        };
        thread::scope(|scope| {
            let (mut handles, mut joins) = (Vec::new(), Vec::new());
            for (position, &(slot, placed)) in self.task_threads.iter().enumerate() {
                let (commands, received) = mpsc::channel();
                let task_thread = TaskThread {
                    scenario,
                    position,
                    slot,
                    placed,
                    turns,
                };
                let spawned = thread::Builder::new().spawn_scoped(scope, move || task_thread.main(&received));
                handles.push(TaskThreadHandle::new(slot, commands, turns));
                joins.push(spawned.map_err(no_thread(position))?);
            }
            let (mut restorer_handles, mut restoring) = (Vec::new(), Vec::new());
            for &(owner, restorer) in self.restorers {
                let (commands, received) = mpsc::channel();
                let main = move || task_thread::restore(restorer, turns, &received);
                restorer_handles.push((owner, TaskThreadHandle::new(restorer.id().index(), commands, turns)));
                let spawned = thread::Builder::new().spawn_scoped(scope, main);
                restoring.push((owner, spawned.map_err(no_thread(owner))?));
            }
            let mut conductor = Conductor {
                placement,
                handles,
                restorers: restorer_handles,
                clients: Clients::new(scenario, self.socket),
                counts: None,
            };
            let outcome = conductor.follow(steps, stop);
            conductor.send_home(turns);
            conductor.end_transfers_until(|| {
                joins.iter().all(ScopedJoinHandle::is_finished)
                    && restoring.iter().all(|(_, handle)| handle.is_finished())
            });
            let outputs = join(scenario, joins)?;
            join_restorers(scenario, restoring)?;
            let stopped = outcome?;
            Ok((conductor.counts, outputs, conductor.clients, stopped))
        })
    }
}

type Restoring<'scope> = ScopedJoinHandle<'scope, Result<(), EnterError>>;

fn join_restorers(scenario: &Scenario, restoring: Vec<(usize, Restoring<'_>)>) -> Result<(), LiveError> {
    for (owner, handle) in restoring {
        let name = || scenario.tasks[owner].name.clone();
        let ended = handle.join().map_err(|_| LiveError::Panicked(name()))?;
        ended.map_err(|reason| LiveError::Enter { name: name(), reason })?;
    }
    Ok(())
}

type Handle<'scope> = ScopedJoinHandle<'scope, Result<TaskOutput, LiveError>>;

fn join(scenario: &Scenario, handles: Vec<Handle<'_>>) -> Result<Vec<TaskOutput>, LiveError> {
    let mut outputs = Vec::new();
    for (position, handle) in handles.into_iter().enumerate() {
        let panicked = |_| LiveError::Panicked(scenario.tasks[position].name.clone());
        outputs.push(handle.join().map_err(panicked)??);
    }
    Ok(outputs)
}
