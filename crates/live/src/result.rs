//! The result document, from what threads, core, pager and kernel say.

use freehold_core::pinning::PinnedPoolView;
use freehold_core::units::Duration;
use freehold_core::view::TaskCounts;
use freehold_linux::clock::MonotonicTime;
use freehold_pager::Report;
use freehold_rt::job::Job;
use freehold_rt::record::Record;
use freehold_scenario::results::{
    Delays, DeviceResult, Engine, LateJob, LateJobs, Laws, LockResult, MemoryResult, Placement, ReservationResult,
    ResponseRecorder, RunHead, RunResult, StoreResult, TaskResult, VictimCacheResult, Violation,
};
use freehold_scenario::{Class, Scenario, setup};

use crate::error::LiveError;
use crate::placement::embedded::{Machine, choose_cpus};
use crate::run::Finished;
use crate::store;
use crate::usage::region_result;
use crate::worker::TaskOutput;

/// What device memory has come to, and each device.
pub(crate) type DeviceCounts = (Option<VictimCacheResult>, Vec<DeviceResult>);

/// The counts at one instant.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) tasks: Vec<TaskCounts>,
    /// The pinned page pools of those that have one.
    pub(crate) pools: Vec<Option<PinnedPoolView>>,
    /// Pages brought back for each task by who restores for it.
    pub(crate) restored: Vec<u64>,
    pub(crate) reservations: Vec<ReservationResult>,
    pub(crate) resident: Vec<u64>,
    pub(crate) memory: MemoryResult,
    pub(crate) store: StoreResult,
    /// Whether nothing was under way, so that books and kernel must agree to the page.
    pub(crate) settled: bool,
}

impl Counts {
    pub(crate) fn take(scenario: &Scenario, machine: &Machine, settled: bool) -> Result<Self, LiveError> {
        machine.pager.adjust_reserve()?;
        let report = machine.pager.report()?;
        let (pool, views, pools) = machine.pager.inspect(|core| {
            let views: Vec<_> = machine.reservations.iter().map(|&id| core.reservation(id)).collect();
            let pools = machine.pools.iter().map(|id| core.pinned_pool((*id)?));
            (core.pool_view(), views, pools.collect())
        });
        let named = scenario.reservations.iter().zip(views);
        let line = |(reservation, view): (&freehold_scenario::Reservation, Option<_>)| {
            ReservationResult::new(&reservation.name, &view.unwrap_or_default())
        };
        Ok(Self {
            tasks: machine.tasks.iter().map(|task| task.handle.counts()).collect(),
            pools,
            restored: restored(scenario, machine),
            reservations: named.map(line).collect(),
            resident: report
                .objects
                .iter()
                // A page on its way in has a frame and is not resident yet.
                .map(|object| u64::from(object.resident_measured.saturating_sub(object.filling).get()))
                .collect(),
            memory: MemoryResult::new(&pool, u64::from(report.resident_measured.get())),
            store: store::result(&machine.pager, &report.store, &machine.before),
            settled,
        })
    }
}

fn restored(scenario: &Scenario, machine: &Machine) -> Vec<u64> {
    let mut restored = vec![0; scenario.tasks.len()];
    for (owner, restorer) in setup::restorers(scenario).zip(&machine.restorers) {
        restored[owner] = restorer.counts().swap_ins;
    }
    restored
}

/// Puts what is counted of a task's pinned page pool into its line of the result, if it has one.
pub(crate) fn set_pool(counts: &Counts, position: usize, result: &mut TaskResult) {
    if let Some(pool) = counts.pools.get(position).copied().flatten() {
        setup::set_pinned_pool(result, &pool);
        result.pinned.restored = counts.restored.get(position).copied().unwrap_or_default();
    }
}

/// The document of a run with a pager in this process.
pub(crate) fn result(
    scenario: &Scenario,
    machine: &Machine,
    counts: Counts,
    finished: Vec<Finished>,
    origin: MonotonicTime,
) -> Result<RunResult, LiveError> {
    let report = machine.pager.report()?;
    let outputs: Vec<&TaskOutput> = finished.iter().map(|finished| &finished.output).collect();
    let laws = laws(scenario, machine, Some(&counts), &report, &outputs);
    let mut warnings = warnings(scenario, &report, &finished)?;
    warnings.extend(store::warnings(scenario, &machine.pager));
    let remainder = Remainder {
        placement: Placement::Embedded,
        laws,
        lock: Some(lock_result(&report)),
        warnings,
    };
    Ok(document(scenario, counts, finished, origin, remainder))
}

/// What a result says besides what the tasks and the counts say.
pub(crate) struct Remainder {
    pub(crate) placement: Placement,
    pub(crate) laws: Laws,
    pub(crate) lock: Option<LockResult>,
    pub(crate) warnings: Vec<String>,
}

/// The document.
pub(crate) fn document(
    scenario: &Scenario,
    counts: Counts,
    finished: Vec<Finished>,
    origin: MonotonicTime,
    remainder: Remainder,
) -> RunResult {
    let mut warnings = remainder.warnings;
    let (mut tasks, mut usages) = (Vec::new(), Vec::new());
    for (position, finished) in finished.into_iter().enumerate() {
        let counted = counts.tasks.get(position).copied().unwrap_or_default();
        let mut task = task_result(scenario, position, &finished, &counted, origin);
        set_pool(&counts, position, &mut task);
        tasks.push(task);
        if finished.record.unkept > 0 {
            let name = &scenario.tasks[position].name;
            warnings.push(format!(
                "task.{name}: {} further jobs are not among its response times",
                finished.record.unkept
            ));
        }
        usages.push(finished.output.usage);
    }
    let region = |region: usize| region_result(scenario, &usages, region, counts.resident[region]);
    RunResult {
        head: RunHead::of(scenario, Engine::Live, Some(remainder.placement)),
        tasks,
        regions: (0..scenario.regions.len()).map(region).collect(),
        reservations: counts.reservations,
        memory: counts.memory,
        store: counts.store,
        victim_cache: None,
        devices: Vec::new(),
        transient: None,
        laws: remainder.laws,
        lock: remainder.lock,
        warnings,
    }
}

fn task_result(
    scenario: &Scenario,
    position: usize,
    finished: &Finished,
    counted: &TaskCounts,
    origin: MonotonicTime,
) -> TaskResult {
    let mut result = timed_result(scenario, position, &finished.record, origin);
    result.times.store_wait_ns = (finished.times.store_slept.saturating_add(finished.times.store_spun)).get();
    result.times.fault_service_ns = finished.times.fault_service.get();
    result.waits.lock_wait_ns = finished.times.lock_wait.get();
    result.failed_accesses = finished.output.errors;
    setup::set_task_counts(&mut result, counted);
    if let Some(told) = &finished.output.told {
        told.judgements.set_result(&mut result);
    }
    result
}

/// What a task's jobs say by themselves.
pub(crate) fn timed_result(scenario: &Scenario, position: usize, record: &Record, origin: MonotonicTime) -> TaskResult {
    let mut result = TaskResult::of(scenario, position);
    let (mut responses, mut late) = (ResponseRecorder::new(), LateJobs::new());
    for job in record.jobs() {
        if job.finished {
            responses.record(duration(job.response()));
        }
        result.times.cpu_ns += nanos(job.cpu);
        result.waits.cpu_wait_ns += nanos(job.split.cpu_wait);
        if job.late {
            let lateness = late_job(job, scenario.tasks[position].deadline, origin);
            result.max_tardiness_ns = result.max_tardiness_ns.max(lateness.tardiness_ns);
            late.record(lateness);
        }
    }
    result.jobs = record.jobs().len() as u64 + record.unkept;
    result.misses = late.total + record.unkept_late;
    result.response_ns = responses.response();
    result.response_ns.max = result.response_ns.max.max(nanos(record.unkept_worst));
    result.set_late_jobs(late);
    result
}

fn late_job(job: &Job, deadline: Option<Duration>, origin: MonotonicTime) -> LateJob {
    let response = duration(job.response());
    let tardiness = deadline.map_or(Duration::ZERO, |deadline| response.saturating_sub(deadline));
    LateJob::new(
        job.number,
        job.release.saturating_sub(origin.as_nanos()),
        response,
        tardiness,
        delays(job),
    )
}

/// Where a job's time went.
pub(crate) fn delays(job: &Job) -> Delays {
    Delays {
        cpu_wait_ns: nanos(job.split.cpu_wait),
        store_wait_ns: nanos(job.split.store_wait),
        fault_service_ns: nanos(job.split.fault_service),
        lock_wait_ns: nanos(job.split.lock_wait),
    }
}

/// How the core's lock was held.
pub(crate) fn lock_result(report: &Report) -> LockResult {
    LockResult {
        holds: report.lock.holds,
        longest_hold_ns: report.lock.longest_hold.get(),
        longest_wait_ns: report.lock.longest_wait.get(),
    }
}

/// What can be checked after a run in lockstep: its counts are compared with the simulator's besides.
pub(crate) fn laws_of_lockstep(
    scenario: &Scenario,
    machine: &Machine,
    outputs: &[TaskOutput],
) -> Result<Laws, LiveError> {
    let report = machine.pager.report()?;
    Ok(laws(
        scenario,
        machine,
        None,
        &report,
        &outputs.iter().collect::<Vec<_>>(),
    ))
}

/// Everything that can be checked of a run that is over.
fn laws(
    scenario: &Scenario,
    machine: &Machine,
    counts: Option<&Counts>,
    report: &Report,
    outputs: &[&TaskOutput],
) -> Laws {
    let mut checks = Checks::new(scenario);
    let books = machine.pager.check_laws();
    let law = books.as_ref().err().map_or(1, |violation| violation.law);
    checks.check(law, books.is_ok(), || {
        books.as_ref().err().map_or(String::new(), ToString::to_string)
    });
    let used = machine.memory_used();
    let measured = u64::from(report.resident_measured.get());
    checks.check(1, used == measured, || {
        format!("the books say {used} frames are used, the kernel has {measured}")
    });
    if let Some(counts) = counts.filter(|counts| counts.settled) {
        let counted = (
            counts.memory.used - counts.memory.outside,
            counts.memory.resident_measured,
        );
        checks.check(1, counted.0 == counted.1, || {
            format!("books and kernel when counted: {counted:?}")
        });
    }
    checks.integrity(scenario, outputs);
    checks.laws
}

/// Laws as they are checked.
pub(crate) struct Checks {
    pub(crate) laws: Laws,
    at_ns: u64,
}

impl Checks {
    /// At the end of a run.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            laws: Laws {
                checked: 0,
                violations: Vec::new(),
            },
            at_ns: scenario.duration.get(),
        }
    }

    /// Notes whether a law holds.
    pub(crate) fn check(&mut self, law: u8, holds: bool, what: impl FnOnce() -> String) {
        self.laws.checked += 1;
        if !holds {
            self.laws.violations.push(Violation {
                law,
                at_ns: self.at_ns,
                what: what(),
            });
        }
    }

    /// Law 5: every task found what it had left. Law 8: its jobs were judged, where they must be.
    pub(crate) fn integrity(&mut self, scenario: &Scenario, outputs: &[&TaskOutput]) {
        for (task, output) in scenario.tasks.iter().zip(outputs) {
            if let Some(told) = &output.told {
                self.check(8, told.failed == 0, || {
                    format!("task {}: {} reports of its jobs were not taken", task.name, told.failed)
                });
            }
            self.check(5, output.wrong == 0, || {
                format!(
                    "task {} found {} pages changed, first {:?}",
                    task.name, output.wrong, output.first_wrong
                )
            });
        }
    }
}

fn warnings(scenario: &Scenario, report: &Report, finished: &[Finished]) -> Result<Vec<String>, LiveError> {
    let mut warnings = run_warnings(scenario, finished)?;
    if report.backing.headroom_used > 0 {
        let used = report.backing.headroom_used;
        warnings.push(format!(
            "the kernel had no frame for a fill {used} times: the headroom was given up for it"
        ));
    }
    Ok(warnings)
}

/// What is to be said of a run wherever the pager is.
pub(crate) fn run_warnings(scenario: &Scenario, finished: &[Finished]) -> Result<Vec<String>, LiveError> {
    let mut warnings: Vec<String> = scenario.warnings.iter().map(ToString::to_string).collect();
    for (task, finished) in scenario
        .tasks
        .iter()
        .zip(finished)
        .filter(|(_, finished)| finished.output.errors > 0)
    {
        warnings.push(format!(
            "task.{}: {} accesses ended with an error",
            task.name, finished.output.errors
        ));
    }
    warnings.extend(budget_warnings(scenario, finished));
    let everywhere = freehold_linux::sched::allowed_cpus().map_err(LiveError::UnknownCpus)?;
    let some_cpus = choose_cpus(scenario)?.len() < everywhere.len();
    if some_cpus && scenario.tasks.iter().any(|task| task.class == Class::Deadline) {
        warnings.push("the kernel keeps no deadline thread on some CPUs: those tasks run on all CPUs".to_owned());
    }
    if scenario.faults.is_some() {
        warnings.push("[faults] is for the simulator: the live store fails only if it really does".to_owned());
    }
    Ok(warnings)
}

/// Swap budgets that the kernel did not give.
fn budget_warnings(scenario: &Scenario, finished: &[Finished]) -> Vec<String> {
    let tasks = scenario.tasks.iter().zip(finished);
    let refused = tasks.filter_map(|(task, finished)| {
        let told = finished.output.told.as_ref()?;
        let (refused, reason) = (told.budgets_refused, told.first_refusal?);
        Some(format!(
            "task.{}: {refused} of {} changes of its budget were not carried out: {reason}",
            task.name,
            refused + told.budgets_set
        ))
    });
    refused.collect()
}

/// What is to be said where jobs are late and a hypervisor kept this much time from the run's CPUs.
pub(crate) fn stolen_warning(tasks: &[TaskResult], stolen: Option<std::time::Duration>) -> Option<String> {
    let stolen = stolen.filter(|stolen| !stolen.is_zero())?;
    tasks.iter().any(|task| task.misses > 0).then(|| {
        let milliseconds = stolen.as_millis();
        format!("the hypervisor kept {milliseconds} ms from the CPUs of this run: late jobs show that as CPU wait")
    })
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn duration(span: std::time::Duration) -> Duration {
    Duration::new(nanos(span))
}
