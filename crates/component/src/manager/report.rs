//! What is said of a run: one JSON document.

use super::Settings;
use super::driver::Done;
use super::memory::{Cache, Kind, Memory};
use super::processes::Processes;
use crate::composition::{Composition, PolicyName};
use freehold_linux::PAGE_SIZE;
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
    /// The memory of all units.
    pub transient: MemoryRow,
    /// The policy's work.
    pub policy: PolicyRow,
}

/// Units of one kind of one component. Counts are from the beginning of the run on.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/components.md has one line for each")]
pub struct UnitRow {
    pub name: String,
    pub kind: &'static str,
    pub unit_pages: usize,
    pub minimum: u32,
    pub allocated: u32,
    pub desired: u32,
    pub requested: u32,
    pub peak: u32,
    pub contended: u64,
    pub blocked_ns: u64,
    pub granted: u64,
    pub taken: u64,
    pub overruns: u64,
    pub restarts: u32,
    pub cross_cpu_calls: Option<u64>,
}

/// A thread. `failed`: jobs whose call had no result, or a negative one.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/components.md has one line for each")]
pub struct ThreadRow {
    pub name: String,
    pub jobs: u64,
    pub misses: u64,
    pub failed: u64,
    pub tardiness_ns: Tardiness,
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
#[allow(missing_docs, reason = "docs/components.md has one line for each")]
pub struct MemoryRow {
    pub limit: u64,
    pub granted: u64,
    pub peak: u64,
    pub free: u64,
    pub resident_measured: Option<u64>,
    pub overhead_bytes: u64,
}

/// What the policy did.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "docs/components.md has one line for each")]
pub struct PolicyRow {
    pub runs: u64,
    pub moves: u64,
    pub cpu_ns: u64,
}

/// How a run ended.
pub(super) struct Outcome<'a> {
    pub(super) policy: PolicyName,
    pub(super) duration: Duration,
    pub(super) memory: &'a Memory,
    pub(super) processes: &'a Processes,
    pub(super) threads: Vec<Done>,
}

pub(super) fn document(composition: &Composition, settings: &Settings, outcome: Outcome<'_>) -> Document {
    let Outcome {
        policy,
        duration,
        memory,
        processes,
        threads,
    } = outcome;
    let rows = memory
        .caches
        .iter()
        .map(|cache| unit_row(composition, processes, cache));
    let names = composition.threads.iter().map(|thread| thread.name.clone());
    Document {
        composition: composition.name.clone(),
        space: if settings.shared { "shared" } else { "separate" },
        policy_name: policy,
        inheritance: settings.inheritance,
        duration_ns: nanos(duration),
        components: rows.collect(),
        threads: names.zip(threads).map(|(name, done)| thread_row(name, done)).collect(),
        transient: memory_row(memory, processes),
        policy: PolicyRow {
            runs: memory.runs,
            moves: memory.moves,
            cpu_ns: nanos(memory.cpu),
        },
    }
}

fn unit_row(composition: &Composition, processes: &Processes, cache: &Cache) -> UnitRow {
    UnitRow {
        name: composition.components[cache.component].name.clone(),
        kind: match cache.kind {
            Kind::Stack => "stack",
            Kind::Buffer => "cbuf",
        },
        unit_pages: cache.unit_pages,
        minimum: cache.minimum,
        allocated: cache.usage.allocated,
        desired: cache.desired,
        requested: cache.requested,
        peak: cache.peak,
        contended: cache.usage.contended,
        blocked_ns: nanos(cache.usage.blocked),
        granted: cache.granted,
        taken: cache.taken,
        overruns: cache.usage.timed_out,
        restarts: processes.restarts(cache.component),
        cross_cpu_calls: None,
    }
}

fn thread_row(name: String, done: Done) -> ThreadRow {
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
    }
}

fn memory_row(memory: &Memory, processes: &Processes) -> MemoryRow {
    let resident: Result<usize, _> = memory.caches.iter().map(|cache| cache.pool.resident()).sum();
    let tables: usize = memory.caches.iter().map(|cache| cache.pool.table_bytes()).sum();
    MemoryRow {
        limit: bytes(memory.limit_pages),
        granted: bytes(memory.pages()),
        peak: bytes(memory.peak_pages),
        free: bytes(memory.limit_pages.saturating_sub(memory.pages())),
        resident_measured: resident.ok().map(bytes),
        overhead_bytes: (tables + processes.contexts() * (THREAD_BYTES + PAGE_SIZE)) as u64,
    }
}

fn bytes(pages: usize) -> u64 {
    (pages * PAGE_SIZE) as u64
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
