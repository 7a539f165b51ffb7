//! What is said of a run: one JSON document.

use super::Settings;
use super::driver::Done;
use super::memory::UnitManager;
use super::others::Fared;
use super::processes::Processes;
use crate::composition::{Composition, PolicyName};
use freehold_linux::PAGE_SIZE;
use freehold_tmem::board::JobRecord;
use serde::Serialize;
use std::time::Duration;

/// Kernel memory of a thread that waits, in bytes: its stack and what the kernel knows of it, as measured.
const THREAD_BYTES: usize = 21 << 10;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The composition's name.
    pub composition: String,
    /// `separate` or `shared`.
    pub space: &'static str,
    /// The policy.
    pub policy_name: PolicyName,
    /// Whether threads had their priorities.
    pub inheritance: bool,
    /// How long it ran.
    pub duration_ns: u64,
    /// Each component's units of each kind.
    pub components: Vec<UnitRow>,
    /// Each thread.
    pub threads: Vec<ThreadRow>,
    /// Each class of jobs that components do on their own.
    pub classes: Vec<ClassRow>,
    /// The memory of all units.
    pub transient: MemoryRow,
    /// The policy's work.
    pub policy: PolicyRow,
    /// Reservations that came.
    pub reservations: Vec<ReservationRow>,
}

/// Another reservation of the same memory.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct ReservationRow {
    pub name: String,
    pub admitted_after_ns: Option<u64>,
}

/// Units of one kind of one component.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct UnitRow {
    pub name: String,
    pub kind: &'static str,
    pub unit_pages: usize,
    pub minimum: u32,
    pub allocated: u32,
    pub desired: u32,
    pub requested: u32,
    pub peak: u32,
    #[serde(flatten)]
    pub counts: UnitCounts,
}

/// What happened to them from the beginning of the run on.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct UnitCounts {
    pub contended: u64,
    pub blocked_ns: u64,
    pub granted: u64,
    pub taken: u64,
    pub overruns: u64,
    pub restarts: u32,
    pub cross_cpu_calls: u64,
    pub violations: u64,
}

/// A thread. `failed`: jobs whose call had no result, or a negative one.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct ThreadRow {
    pub name: String,
    pub jobs: u64,
    pub misses: u64,
    pub failed: u64,
    pub tardiness_ns: Tardiness,
    pub blocked: Vec<BlockedRow>,
}

/// A class of jobs.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct ClassRow {
    pub name: String,
    pub jobs: u64,
    pub late: u64,
    pub response_mean_ns: u64,
    pub tardiness_mean_ns: u64,
    pub blocked: Vec<BlockedRow>,
}

/// What a thread's jobs waited for units of one kind of one component.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct BlockedRow {
    pub component: String,
    pub kind: &'static str,
    pub count: u32,
    pub time_ns: u64,
}

/// How late jobs were.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "mean and maximum, in nanoseconds")]
pub struct Tardiness {
    pub mean: u64,
    pub max: u64,
}

/// Bytes of units.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct MemoryRow {
    pub limit: u64,
    pub granted: u64,
    pub borrowed: u64,
    pub recalled: u64,
    pub peak: u64,
    pub free: u64,
    pub resident_measured: Option<u64>,
    pub locked: bool,
    pub overhead_bytes: u64,
}

/// What the policy did.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/book/src/components.md has one line for each")]
pub struct PolicyRow {
    pub runs: u64,
    pub moves: u64,
    pub cpu_ns: u64,
}

/// How a run ended.
pub(super) struct Outcome<'a> {
    pub(super) policy: PolicyName,
    pub(super) duration: Duration,
    pub(super) memory: &'a UnitManager,
    pub(super) processes: &'a Processes,
    pub(super) threads: Vec<Done>,
    pub(super) reservations: Vec<(String, Fared)>,
    pub(super) classes: Vec<(u32, JobRecord)>,
}

pub(super) fn document(composition: &Composition, settings: &Settings, outcome: Outcome<'_>) -> Document {
    let Outcome {
        policy,
        duration,
        memory,
        processes,
        threads,
        reservations,
        classes,
    } = outcome;
    let classes = composition
        .classes
        .iter()
        .zip(classes)
        .map(|(class, (number, record))| ClassRow {
            name: class.name.clone(),
            jobs: record.jobs,
            late: record.late,
            response_mean_ns: nanos(record.response) / record.jobs.max(1),
            tardiness_mean_ns: nanos(record.tardiness) / record.jobs.max(1),
            blocked: blocked(composition, memory, number),
        });
    let rows = (0..memory.caches.len()).map(|at| unit_row(composition, processes, memory, at));
    let (runs, moves) = memory.runs();
    let reservations = reservations.into_iter().map(|(name, fared)| ReservationRow {
        name,
        admitted_after_ns: fared.waited.map(nanos),
    });
    let names = composition.threads.iter().map(|thread| thread.name.clone());
    Document {
        composition: composition.name.clone(),
        space: if settings.shared { "shared" } else { "separate" },
        policy_name: policy,
        inheritance: settings.inheritance,
        duration_ns: nanos(duration),
        components: rows.collect(),
        threads: (1..)
            .zip(names.zip(threads))
            .map(|(job, (name, done))| thread_row(name, done, blocked(composition, memory, job)))
            .collect(),
        classes: classes.collect(),
        transient: memory_row(memory, processes),
        policy: PolicyRow {
            runs,
            moves,
            cpu_ns: nanos(memory.cpu),
        },
        reservations: reservations.collect(),
    }
}

fn unit_row(composition: &Composition, processes: &Processes, memory: &UnitManager, at: usize) -> UnitRow {
    let (cache, view) = (&memory.caches[at], memory.view(at));
    UnitRow {
        name: composition.components[cache.component].name.clone(),
        kind: cache.kind.name(),
        unit_pages: cache.unit_pages,
        minimum: cache.minimum,
        allocated: view.allocated,
        desired: view.desired,
        requested: view.requested,
        peak: view.peak,
        counts: UnitCounts {
            contended: view.contended,
            blocked_ns: view.blocked,
            granted: view.granted,
            taken: view.taken,
            overruns: view.overruns,
            restarts: processes.restarts(cache.component),
            cross_cpu_calls: processes.cross_cpu_calls(cache.component),
            violations: cache.violations,
        },
    }
}

fn blocked(composition: &Composition, memory: &UnitManager, job: u32) -> Vec<BlockedRow> {
    let waits = memory
        .caches
        .iter()
        .filter_map(|cache| Some((cache, cache.pool.waits(job)?)));
    let waits = waits.filter(|(_, waits)| waits.count > 0);
    waits
        .map(|(cache, waits)| BlockedRow {
            component: composition.components[cache.component].name.clone(),
            kind: cache.kind.name(),
            count: waits.count,
            time_ns: nanos(waits.blocked),
        })
        .collect()
}

fn thread_row(name: String, done: Done, blocked: Vec<BlockedRow>) -> ThreadRow {
    let mean = done.tardiness.as_nanos() / u128::from(done.jobs.max(1));
    ThreadRow {
        name,
        jobs: done.jobs,
        misses: done.misses,
        failed: done.failed,
        tardiness_ns: Tardiness {
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            max: nanos(done.most),
        },
        blocked,
    }
}

fn memory_row(memory: &UnitManager, processes: &Processes) -> MemoryRow {
    let resident: Result<usize, _> = memory.caches.iter().map(|cache| cache.pool.resident()).sum();
    let tables: usize = memory.caches.iter().map(|cache| cache.pool.table_bytes()).sum();
    MemoryRow {
        limit: bytes(memory.limit_pages),
        granted: bytes(memory.pages()),
        borrowed: bytes(memory.borrowed_pages()),
        recalled: bytes(memory.recalled.get() as usize),
        peak: bytes(memory.peak_pages()),
        free: bytes(memory.limit_pages.saturating_sub(memory.pages())),
        resident_measured: resident.ok().map(bytes),
        locked: memory.is_locked(),
        overhead_bytes: (tables + processes.contexts() * (THREAD_BYTES + PAGE_SIZE)) as u64,
    }
}

fn bytes(pages: usize) -> u64 {
    (pages * PAGE_SIZE) as u64
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
