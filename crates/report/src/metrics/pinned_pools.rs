//! Metrics of pinned page pools.

use super::{Page, seconds};
use crate::pinning::PinnedPoolStatus;

type Of = (&'static str, &'static str, &'static str, fn(&PinnedPoolStatus) -> u64);

/// Metrics of all pools.
pub(super) fn families(page: &mut Page, pools: &[PinnedPoolStatus]) {
    let rows: [Of; 9] = [
        ("capacity_pages", "gauge", "Pages that may be pinned.", |row| {
            row.capacity
        }),
        ("pinned_pages", "gauge", "Pages pinned.", |row| row.pinned),
        ("peak_pages", "gauge", "The most pages pinned at a time.", |row| {
            row.peak
        }),
        ("pinned_total", "counter", "Pages ever pinned.", |row| row.pinned_total),
        ("unpinned_total", "counter", "Pages ever unpinned.", |row| {
            row.unpinned_total
        }),
        ("refused_total", "counter", "Pages that might not be pinned.", |row| {
            row.refused
        }),
        (
            "restored_total",
            "counter",
            "Pages brought back before releases.",
            |row| row.restored,
        ),
        ("jobs_total", "counter", "Jobs judged.", |row| row.jobs),
        ("misses_total", "counter", "Of these, jobs that missed.", |row| {
            row.misses
        }),
    ];
    for (name, kind, help, value) in rows {
        let name = format!("pinned_pool_{name}");
        page.family(&name, kind, help);
        for (place, row) in pools.iter().enumerate() {
            let slot = place.to_string();
            page.sample(&name, &[("pool", &row.name), ("row", &slot)], value(row));
        }
    }
    let name = "pinned_pool_swap_budget_seconds";
    page.family(name, "gauge", "CPU time added to the budget for swap-ins.");
    for (place, row) in pools.iter().enumerate() {
        let slot = place.to_string();
        page.sample(
            name,
            &[("pool", &row.name), ("row", &slot)],
            seconds(row.swap_budget_ns),
        );
    }
    judgements(page, pools);
}

fn judgements(page: &mut Page, pools: &[PinnedPoolStatus]) {
    let name = "pinned_pool_judgements_total";
    page.family(name, "counter", "Judgements by algorithm and rule.");
    for (place, row) in pools.iter().enumerate() {
        let (slot, capacity, budget) = (place.to_string(), &row.capacity_rules, &row.swap_budget_rules);
        for (algorithm, rule, value) in [
            ("capacity", "grown", capacity.grown),
            ("capacity", "at-limit", capacity.at_limit),
            ("capacity", "shrunk", capacity.shrunk),
            ("capacity", "held", capacity.held),
            ("capacity", "not-memory", capacity.not_memory),
            ("capacity", "steady", capacity.steady),
            ("swap-budget", "raised", budget.raised),
            ("swap-budget", "at-limit", budget.at_limit),
            ("swap-budget", "lowered", budget.lowered),
            ("swap-budget", "held", budget.held),
            ("swap-budget", "off", budget.off),
        ] {
            let labels = [
                ("pool", row.name.as_str()),
                ("row", slot.as_str()),
                ("algorithm", algorithm),
                ("rule", rule),
            ];
            page.sample(name, &labels, value);
        }
    }
}
