//! From a scenario as written to one the engines can run: every rule that concerns more than one value's own form.

pub(crate) mod checks;
mod pinning;
mod region;
mod reservation;
mod task;

use crate::admission;
use crate::components;
use crate::error::{Error, Fault, Place};
use crate::model::{Costs, Faults, Scenario, StoreConfig, StoreKind};
use crate::scenario_devices;
use crate::spec::{MemorySpec, ScenarioSpec};
use crate::wait::StoreWait;
use checks::{Names, pages, refuse, span};
use freehold_core::ReadAhead;
use freehold_core::units::{Duration, FrameCount};
use std::path::PathBuf;

/// The largest pool, and the most pages of all regions together: 256 GiB. The engines keep tables per page.
pub const MAX_PAGES: u32 = 1 << 26;
/// The most regions, the most reservations and the most tasks of a scenario.
pub const MAX_ENTRIES: usize = 1024;
/// The most CPUs of the machine.
pub const MAX_CPUS: u32 = 256;
/// Where a file store makes its file by default.
const DEFAULT_DIRECTORY: &str = "/var/tmp";
/// The longest time a scenario may state: 10 years.
pub const MAX_TIME: Duration = Duration::new(10 * 365 * 86_400 * 1_000_000_000);

impl TryFrom<ScenarioSpec> for Scenario {
    type Error = Error;

    /// Checks a scenario built by a program by the rules of a file.
    fn try_from(spec: ScenarioSpec) -> Result<Self, Error> {
        let names = Names::of(&spec);
        resolve(spec).map_err(|fault| Error::new(Place::Spec, names.key(&fault.path), fault.message))
    }
}

pub(crate) use checks::Names as PathNames;

pub(crate) fn resolve(spec: ScenarioSpec) -> Result<Scenario, Fault> {
    top_level(&spec)?;
    costs(&spec.costs)?;
    if let Some(faults) = &spec.faults {
        store_faults(faults)?;
    }
    let pool = pages("memory.pool", spec.memory.pool, MAX_PAGES)?.to_frames();
    let store = store(&spec)?;
    let mut warnings = Vec::new();
    let regions = region::resolve(&spec)?;
    let mut tasks = task::resolve(&spec, &regions, &mut warnings)?;
    let devices = scenario_devices::resolve(&spec, pool, &tasks)?;
    let transient = components::resolve(&spec, pool, &tasks)?;
    let aside: u32 = devices.iter().map(|device| device.size.get()).sum();
    let rest = FrameCount::new(pool.get() - aside);
    let reservations = reservation::resolve(&spec, rest, &regions, &tasks, &mut warnings)?;
    region::warn_shared_private(&regions, &tasks, &mut warnings);
    admission::check(spec.cpus, &tasks, &mut warnings)?;
    admission::grant_swap_budgets(&mut tasks, &mut warnings);
    Ok(Scenario {
        name: spec.name.clone(),
        duration: spec.duration,
        seed: spec.seed,
        pool,
        store,
        cpus: spec.cpus,
        costs: spec.costs,
        faults: spec.faults,
        regions,
        reservations,
        tasks,
        devices,
        transient,
        warnings,
        spec,
    })
}

fn top_level(spec: &ScenarioSpec) -> Result<(), Fault> {
    let name = spec.name.trim();
    if name.is_empty() || spec.name.chars().count() > 200 || spec.name.chars().any(char::is_control) {
        return refuse("name", "must be one line of 1 to 200 characters");
    }
    span("duration", spec.duration)?;
    if spec.duration.is_zero() {
        return refuse("duration", "is zero: say how long the scenario runs, such as \"10s\"");
    }
    if i64::try_from(spec.seed).is_err() {
        return refuse(
            "seed",
            "is too large: at most 9223372036854775807, the largest number TOML can write",
        );
    }
    if spec.cpus == 0 || spec.cpus > MAX_CPUS {
        return refuse("machine.cpus", format!("is {}: must be 1 to {MAX_CPUS}", spec.cpus));
    }
    let counts = [
        ("region", spec.regions.len()),
        ("reservation", spec.reservations.len()),
        ("task", spec.tasks.len()),
    ];
    for (what, count) in counts {
        if count > MAX_ENTRIES {
            return refuse(what, format!("has {count} entries: at most {MAX_ENTRIES}"));
        }
    }
    Ok(())
}

fn costs(costs: &Costs) -> Result<(), Fault> {
    let all = [
        ("costs.access", costs.access),
        ("costs.soft_fault", costs.soft_fault),
        ("costs.zero_fill", costs.zero_fill),
        ("costs.swap_in", costs.swap_in),
        ("costs.eviction", costs.eviction),
    ];
    for (path, cost) in all {
        span(path, cost)?;
        if cost.is_zero() {
            return refuse(
                path,
                "is zero: nothing is free, leave the key out for the measured default",
            );
        }
    }
    Ok(())
}

fn store_faults(faults: &Faults) -> Result<(), Fault> {
    for (path, probability) in [("faults.late", faults.late), ("faults.fail", faults.fail)] {
        if !(0.0..=1.0).contains(&probability) {
            return refuse(path, format!("is {probability}: a probability is 0 to 1"));
        }
    }
    if faults.seed.is_some_and(|seed| i64::try_from(seed).is_err()) {
        return refuse("faults.seed", "is too large: at most 9223372036854775807");
    }
    span("faults.late_by", faults.late_by)?;
    if (faults.late > 0.0) == faults.late_by.is_zero() {
        let message = "`late` (how often) and `late_by` (by how much) go together: give both, neither of them zero";
        return Err(Fault::new("faults.late", message).with("faults.late_by"));
    }
    Ok(())
}

fn store(spec: &ScenarioSpec) -> Result<StoreConfig, Fault> {
    let memory = &spec.memory;
    span("memory.swap.latency", memory.latency)?;
    if memory.parallel == 0 || memory.parallel > 256 {
        return refuse(
            "memory.swap.parallel",
            format!("is {}: must be 1 to 256", memory.parallel),
        );
    }
    let read_ahead = ReadAhead::of(memory.read_ahead).ok_or_else(|| {
        let message = format!("is {}: must be a power of two, 1 to 64", memory.read_ahead);
        Fault::new("memory.swap.read_ahead", message)
    })?;
    let capacity = memory
        .capacity
        .map(|size| pages("memory.swap.capacity", size, u32::MAX))
        .transpose()?;
    Ok(StoreConfig {
        kind: memory.store,
        latency: memory.latency,
        wait: memory.wait.unwrap_or(StoreWait::of(memory.latency)),
        parallel: memory.parallel,
        read_ahead,
        capacity,
        directory: directory(memory)?,
    })
}

/// Where a file store's file is made. Whether the place exists is for the engine to find out.
fn directory(memory: &MemorySpec) -> Result<PathBuf, Fault> {
    let path = "memory.swap.directory";
    let Some(directory) = &memory.directory else {
        return Ok(PathBuf::from(DEFAULT_DIRECTORY));
    };
    if memory.store != StoreKind::File {
        let message = format!(
            "belongs to store \"file\": remove it, or change the store from \"{}\"",
            memory.store.name()
        );
        return Err(Fault::new(path, message).with("memory.swap.store"));
    }
    if directory.is_empty() || directory.chars().any(char::is_control) {
        return refuse(path, "must be the path of a directory, such as \"/var/tmp\"");
    }
    Ok(PathBuf::from(directory))
}
