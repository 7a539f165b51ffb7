//! Lockstep: the live engine does everything in the order in which the simulator did it, so that every count is equal.
//!
//! A coordinator walks through the simulator's schedule. Accesses are real touches by the tasks' own threads, one
//! thread at a time; requests to the store end when the schedule says so.

mod baton;
mod compare;
mod player;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use freehold_core::fact::Request;
use freehold_core::pinning::JobReport;
use freehold_pager::Pace;
use freehold_scenario::results::{Engine, Placement, Violation};
use freehold_scenario::{RegionIndex, Scenario, TaskIndex, plan};
use freehold_sim::{Options, Step};

use self::baton::{BLOCKED, Batons, IDLE};
use self::player::{Command, Player, Reins};
use crate::collect::{self, Counts};
use crate::error::LiveError;
use crate::machine::Machine;
use crate::run::Outcome;
use crate::store;
use crate::worker::Harvest;

/// Runs a scenario in the simulator, then on real pages in the same order. Counts are those of the real pages; times,
/// jobs and misses are the simulator's, since in lockstep there is no real time. A count that differs from the
/// simulator's is reported among the broken laws.
///
/// # Errors
/// [`LiveError`], among them [`LiveError::Diverged`] where the real run could not follow.
pub fn run_in_lockstep(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let decision = freehold_sim::decide(scenario).map_err(LiveError::Decision)?;
    let mut outcome = follow(&decision.scenario, stop)?;
    decision.annotate(&mut outcome.result);
    Ok(outcome)
}

/// As [`run_in_lockstep`], everything decided.
fn follow(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let options = Options {
        schedule: true,
        check_every: Some(0),
        ..Options::default()
    };
    let simulated = freehold_sim::simulate(scenario, &options)?;
    let steps = simulated.schedule.map(|schedule| schedule.steps).unwrap_or_default();
    let batons = Arc::new(Batons::new(usize::from(plan::limits(scenario).tasks)));
    let machine = Machine::new(scenario, Pace::Manual, Some(Arc::clone(&batons) as _), None)?;
    let (counts, harvests, stopped) = play(scenario, &machine, &batons, &steps, stop)?;
    machine.pager.settle()?;
    let mut result = simulated.result;
    result.engine = Engine::Live;
    result.lock = Some(collect::lock_result(&machine.pager.report()?));
    result.placement = Some(Placement::Embedded);
    result
        .warnings
        .push("in lockstep: jobs, misses and times are the simulator's, counts are real".to_owned());
    result.warnings.extend(store::shortfalls(&machine.pager));
    if let Some(counts) = counts.filter(|_| !stopped) {
        for what in compare::differences(scenario, &result, &counts) {
            result.laws.violations.push(Violation { law: 0, at_ns: 0, what });
        }
        compare::replace(&mut result, counts);
    }
    let laws = collect::laws_of_lockstep(scenario, &machine, &harvests)?;
    result.laws.checked += laws.checked;
    result.laws.violations.extend(laws.violations);
    Ok(Outcome {
        result,
        stopped,
        recording: None,
    })
}

type Played = (Option<Counts>, Vec<Harvest>, bool);

fn play(
    scenario: &Scenario,
    machine: &Machine,
    batons: &Batons,
    steps: &[Step],
    stop: &AtomicBool,
) -> Result<Played, LiveError> {
    thread::scope(|scope| {
        let (mut reins, mut handles) = (Vec::new(), Vec::new());
        for (position, task) in machine.tasks.iter().enumerate() {
            let (commands, received) = mpsc::channel();
            let player = Player {
                scenario,
                position,
                task,
                batons,
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, move || player.main(&received));
            let failed = |reason| LiveError::Thread {
                name: scenario.tasks[position].name.clone(),
                reason,
            };
            reins.push(Reins::new(task.handle.id().index(), commands, batons));
            handles.push(spawned.map_err(failed)?);
        }
        let (mut restorers, mut restoring) = (Vec::new(), Vec::new());
        for (owner, restorer) in plan::restorers(scenario).zip(&machine.restorers) {
            let (commands, received) = mpsc::channel();
            let main = move || player::restore(restorer, batons, &received);
            let name = || scenario.tasks[owner].name.clone();
            let failed = |reason| LiveError::Thread { name: name(), reason };
            let reins = Reins::new(restorer.id().index(), commands, batons);
            restorers.push((owner, reins));
            let spawned = thread::Builder::new().spawn_scoped(scope, main).map_err(failed)?;
            restoring.push((owner, spawned));
        }
        let mut conductor = Conductor {
            scenario,
            machine,
            reins,
            restorers,
            counts: None,
        };
        let outcome = conductor.follow(steps, stop);
        conductor.send_home(batons);
        let harvests = join(scenario, handles)?;
        for (owner, handle) in restoring {
            let name = || scenario.tasks[owner].name.clone();
            let ended = handle.join().map_err(|_| LiveError::Panicked(name()))?;
            ended.map_err(|reason| LiveError::Enter { name: name(), reason })?;
        }
        let stopped = outcome?;
        Ok((conductor.counts, harvests, stopped))
    })
}

type Handle<'scope> = ScopedJoinHandle<'scope, Result<Harvest, LiveError>>;

fn join(scenario: &Scenario, handles: Vec<Handle<'_>>) -> Result<Vec<Harvest>, LiveError> {
    let mut harvests = Vec::new();
    for (position, handle) in handles.into_iter().enumerate() {
        let panicked = |_| LiveError::Panicked(scenario.tasks[position].name.clone());
        harvests.push(handle.join().map_err(panicked)??);
    }
    Ok(harvests)
}

/// Walks through the schedule.
struct Conductor<'a> {
    scenario: &'a Scenario,
    machine: &'a Machine,
    reins: Vec<Reins<'a>>,
    /// Of those who bring pages back, and for whom.
    restorers: Vec<(usize, Reins<'a>)>,
    counts: Option<Counts>,
}

impl Conductor<'_> {
    /// Takes all steps; whether it was stopped on the way.
    fn follow(&mut self, steps: &[Step], stop: &AtomicBool) -> Result<bool, LiveError> {
        for (number, step) in steps.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let diverged = |what| LiveError::Diverged {
                step: number,
                what: format!("{step:?}: {what}"),
            };
            match *step {
                Step::JobStart { task } => self
                    .end_failed_access(task)
                    .and_then(|()| self.tell(task, Command::StartJob)),
                Step::Run { task, accesses } => self.run(task, accesses),
                Step::Begin { task } => self.begin(task),
                Step::JobEnd { task } => self
                    .end_failed_access(task)
                    .and_then(|()| self.tell(task, Command::EndJob)),
                Step::Complete {
                    region,
                    page,
                    request,
                    failed,
                } => self.complete(region, page, request, failed),
                Step::Report { task, report } => self.report(task, &report),
                Step::Restore { task } => self.restore(task),
                Step::Snapshot => {
                    self.machine.pager.settle()?;
                    self.counts = Some(Counts::take(self.scenario, self.machine, false)?);
                    Ok(())
                }
            }
            .map_err(diverged)?;
        }
        Ok(false)
    }

    fn tell(&mut self, task: TaskIndex, command: Command) -> Result<(), String> {
        self.reins[task.get()].carry_out(command)
    }

    /// Tells the core of a job what the simulator saw of it.
    fn report(&self, task: TaskIndex, report: &JobReport) -> Result<(), String> {
        let pool = self.machine.pools[task.get()].ok_or("the task has no pinned page pool")?;
        let told = self.machine.pager.report_job(pool, report);
        told.map(|_| ()).map_err(|reason| reason.to_string())
    }

    /// Who restores for the task brings a page back, now or with a completion.
    fn restore(&mut self, task: TaskIndex) -> Result<(), String> {
        let mut restorers = self.restorers.iter();
        let found = restorers.find(|(owner, _)| *owner == task.get());
        let (_, reins) = found.ok_or("nobody restores for the task")?;
        if reins.batons.wait_for(reins.slot, &[IDLE]).is_none() {
            return Err("the restorer's fault before does not end".to_owned());
        }
        reins.command(Command::Restore);
        let ended = reins.batons.wait_for(reins.slot, &[IDLE, BLOCKED]);
        ended
            .map(|_| ())
            .ok_or_else(|| "the restorer's fault neither ends nor waits".to_owned())
    }

    /// The task's next accesses, none of which waits. One that waited before is the first of them.
    fn run(&mut self, task: TaskIndex, accesses: u64) -> Result<(), String> {
        let resumed = self.end_pending_access(task)?;
        let left = accesses - u64::from(resumed.min(1)).min(accesses);
        if left == 0 {
            Ok(())
        } else {
            self.tell(task, Command::Run(left))
        }
    }

    /// Lets an access whose fault was answered end. 1 if it was made, or refused only now; 0 if there was none, or its
    /// answer was an error.
    fn end_pending_access(&mut self, task: TaskIndex) -> Result<u32, String> {
        let reins = &mut self.reins[task.get()];
        if !reins.pending {
            return Ok(0);
        }
        let failed = reins.let_go()?;
        match reins.batons.wait_for(reins.slot, &[IDLE, BLOCKED]) {
            Some(IDLE) => {
                reins.pending = false;
                Ok(u32::from(!failed))
            }
            Some(_) => Err("it faults again and waits, in the simulator it did not".to_owned()),
            None => Err("its access does not end".to_owned()),
        }
    }

    /// Before a job ends, an access that was answered with an error is over.
    fn end_failed_access(&mut self, task: TaskIndex) -> Result<(), String> {
        match self.end_pending_access(task)? {
            0 => Ok(()),
            _ => Err("an access is made that the simulator did not make".to_owned()),
        }
    }

    /// The task's next access, or the one that was answered, faults and waits.
    fn begin(&mut self, task: TaskIndex) -> Result<(), String> {
        let reins = &mut self.reins[task.get()];
        if reins.pending {
            let failed = reins.let_go()?;
            match reins.batons.wait_for(reins.slot, &[IDLE, BLOCKED]) {
                Some(BLOCKED) => return Ok(()),
                Some(_) if failed => reins.pending = false,
                Some(_) => return Err("an access is made that the simulator did not make".to_owned()),
                None => return Err("its access does not end".to_owned()),
            }
        }
        reins.command(Command::Run(1));
        reins.pending = true;
        match reins.batons.wait_for(reins.slot, &[IDLE, BLOCKED]) {
            Some(BLOCKED) => Ok(()),
            Some(_) => Err("its access does not wait, in the simulator it did".to_owned()),
            None => Err("its access does not end".to_owned()),
        }
    }

    fn complete(
        &mut self,
        region: RegionIndex,
        page: freehold_core::units::PageIndex,
        request: Request,
        failed: bool,
    ) -> Result<(), String> {
        let object = self.machine.objects[region.get()];
        let pager = &self.machine.pager;
        let found = pager.outstanding_of(object, page);
        let (page, request) = found
            .filter(|(_, kind)| *kind == request)
            .ok_or("no such request is under way")?;
        if pager.complete(page, request, failed) {
            Ok(())
        } else {
            Err("the request cannot be ended".to_owned())
        }
    }

    /// The schedule is over, or lost: ends what is under way until every thread is idle, and sends them home.
    fn send_home(&mut self, batons: &Batons) {
        batons.release();
        for _ in 0..10_000 {
            for (page, request) in self.machine.pager.outstanding() {
                self.machine.pager.complete(page, request, false);
            }
            let restorers = self.restorers.iter().map(|(_, reins)| reins);
            if self
                .reins
                .iter()
                .chain(restorers)
                .all(|reins| batons.state(reins.slot) == IDLE)
            {
                break;
            }
            thread::yield_now();
        }
        for reins in self.reins.iter().chain(self.restorers.iter().map(|(_, reins)| reins)) {
            let _ = reins.commands.send(Command::Finish);
        }
    }
}
