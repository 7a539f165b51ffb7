//! Every count of the real run against the simulator's.

use freehold_core::view::TaskCounts;
use freehold_report::reservation::Number;
use freehold_scenario::results::{RunResult, TaskResult};
use freehold_scenario::{Scenario, setup};
use freehold_sim::component::Model;

use crate::lockstep::components::Followed;
use crate::result::{self, Counts};

/// What differs, in words; empty where all counts are equal.
pub(crate) fn differences(scenario: &Scenario, simulated: &RunResult, live: &Counts) -> Vec<String> {
    let mut found = Vec::new();
    let mut equal = |what: String, sim: u64, live: u64| {
        if sim != live {
            found.push(format!("lockstep: {what}: {sim} in the simulator, {live} live"));
        }
    };
    for (sim, live) in simulated.tasks.iter().zip(&live.tasks) {
        for (count, sim_count, live_count) in task_counts(sim, live) {
            equal(format!("task {}: {count}", sim.name), sim_count, live_count);
        }
    }
    for (position, sim) in simulated.tasks.iter().enumerate() {
        let mut counted = sim.clone();
        result::set_pool(live, position, &mut counted);
        for ((count, sim_count), (_, live_count)) in pool_counts(sim).into_iter().zip(pool_counts(&counted)) {
            equal(format!("task {}: {count}", sim.name), sim_count, live_count);
        }
    }
    for (sim, live) in simulated.reservations.iter().zip(&live.reservations) {
        let (sim_counts, live_counts) = (sim.counts(), live.counts());
        for number in Number::shown() {
            let what = format!("reservation {}: {}", sim.name, number.label());
            equal(what, number.of(&sim_counts), number.of(&live_counts));
        }
    }
    for (region, (sim, live)) in scenario
        .regions
        .iter()
        .zip(simulated.regions.iter().zip(&live.resident))
    {
        equal(format!("region {}: resident", region.name), sim.resident, *live);
    }
    equal("memory used".to_owned(), simulated.memory.used, live.memory.used);
    equal("memory peak".to_owned(), simulated.memory.peak, live.memory.peak);
    equal("store reads".to_owned(), simulated.store.reads, live.store.reads);
    equal("store writes".to_owned(), simulated.store.writes, live.store.writes);
    found
}

/// As [`differences`], of components; puts the real counts into the document.
pub(crate) fn components(model: &Model, live: &[Followed], result: &mut RunResult) -> Vec<String> {
    let mut found = Vec::new();
    let rows = result
        .transient
        .iter_mut()
        .flat_map(|transient| &mut transient.components);
    let kinds = model.components.iter().flat_map(|component| component.kinds);
    for ((row, kind), live) in rows.zip(kinds).zip(live) {
        let pages = u64::from(row.state.allocated) * u64::from(kind.frames);
        for (count, sim, live) in [
            ("waits", row.state.contended, live.waits),
            ("hand-overs", row.handed_over, live.handed_over),
            ("granted", row.granted, live.granted),
            ("units", row.state.allocated.into(), live.allocated.into()),
            ("pages", pages, live.resident),
        ] {
            if sim != live {
                let name = format!("component {}: {}", row.state.component, row.state.kind);
                found.push(format!(
                    "lockstep: {name}: {count}: {sim} in the simulator, {live} live"
                ));
            }
        }
        (row.state.contended, row.handed_over) = (live.waits, live.handed_over);
        (row.granted, row.state.allocated) = (live.granted, live.allocated);
    }
    found
}

fn task_counts(sim: &TaskResult, live: &TaskCounts) -> [(&'static str, u64, u64); 7] {
    [
        ("soft faults", sim.faults.soft_faults, live.soft_faults),
        ("zero fills", sim.faults.zero_fills, live.zero_fills),
        ("swap-ins", sim.faults.swap_ins, live.swap_ins),
        ("shared swap-ins", sim.faults.shared_swap_ins, live.shared_swap_ins),
        ("write faults", sim.write_faults, live.write_faults),
        ("read ahead", sim.faults.read_ahead, live.read_ahead),
        ("evictions", sim.faults.evictions, live.evictions),
    ]
}

fn pool_counts(result: &TaskResult) -> [(&'static str, u64); 4] {
    [
        ("pinned pages", result.pinned.pinned_pages),
        ("capacity", result.pinned.capacity_pages.unwrap_or_default()),
        ("swap budget", result.pinned.swap_budget_ns),
        ("restored", result.pinned.restored),
    ]
}

/// Puts the real counts into the document.
pub(crate) fn replace(result: &mut RunResult, live: Counts) {
    for (position, (task, counts)) in result.tasks.iter_mut().zip(&live.tasks).enumerate() {
        setup::set_task_counts(task, counts);
        result::set_pool(&live, position, task);
    }
    for (region, resident) in result.regions.iter_mut().zip(live.resident) {
        region.resident = resident;
    }
    result.reservations = live.reservations;
    result.memory = live.memory;
    result.store = live.store;
}
