//! Metrics of pinned page pools.

use super::page::{Kind, Label, Metric, Page, Row, counter, gauge};
use super::seconds;
use crate::pinning::PinnedPoolStatus;

const POOLS: &[Metric<PinnedPoolStatus>] = &[
    gauge("capacity_pages", "Pages that may be pinned.", |row| row.pages.capacity),
    gauge("pinned_pages", "Pages pinned.", |row| row.pages.pinned),
    gauge("peak_pages", "The most pages pinned at a time.", |row| row.pages.peak),
    counter("pinned_total", "Pages ever pinned.", |row| row.pages.pinned_total),
    counter("unpinned_total", "Pages ever unpinned.", |row| row.pages.unpinned_total),
    counter("refused_total", "Pages that might not be pinned.", |row| {
        row.pages.refused
    }),
    counter("restored_total", "Pages brought back before releases.", |row| {
        row.restored
    }),
    counter("jobs_total", "Jobs judged.", |row| row.judged.jobs),
    counter("misses_total", "Of these, jobs that missed.", |row| row.judged.misses),
];

/// Metrics of all pools.
pub(super) fn families(page: &mut Page, pools: &[PinnedPoolStatus]) {
    let rows = Row::numbered(pools, "pool", |row| &row.name);
    page.table("pinned_pool_", POOLS, &rows);
    page.family(
        "pinned_pool_swap_budget_seconds",
        Kind::Gauge,
        "CPU time added to the budget for swap-ins.",
        &rows,
        |row| seconds(row.budget.swap_budget_ns),
    );
    page.parts(
        (
            "pinned_pool_judgements_total",
            Kind::Counter,
            "Judgements by algorithm and rule.",
        ),
        &rows,
        judgements,
    );
}

fn judgements(row: &PinnedPoolStatus) -> [([Label; 2], u64); 11] {
    let (capacity, budget) = (&row.judged.capacity_rules, &row.judged.swap_budget_rules);
    [
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
    ]
    .map(|(algorithm, rule, value)| ([("algorithm", algorithm), ("rule", rule)], value))
}
