//! Pinned page pools in documents.

use super::metrics::Page;
use crate::control::pools::{capacity_rule, swap_budget_rule};
use crate::view::{EngineView, PinnedPoolRow};
use freehold_core::id::PinnedPoolId;
use freehold_core::pinning::{JobReport, Judgement, PinningPolicy};
use freehold_core::units::{Duration, PageCount};
use serde::{Deserialize, Serialize};

/// One pinned page pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedPoolStatus {
    /// Its name.
    pub name: String,
    /// `all`, `app` or `app-no-budget`.
    pub policy: String,
    /// The period (I_s).
    pub period_ns: u64,
    /// The budget (T_s), without the swap budget.
    pub budget_ns: u64,
    /// The swap budget now (t).
    pub swap_budget_ns: u64,
    /// The most that it may become.
    pub highest_swap_budget_ns: u64,
    /// Pages that may be pinned now.
    pub capacity: u64,
    /// The most that ever may; null for as many as there are.
    pub highest_capacity: Option<u64>,
    /// Pages pinned: active and inactive.
    pub pinned: u64,
    /// Pinned pages that are mapped.
    pub active: u64,
    /// Pinned pages that were unmapped to learn whether they are still used.
    pub inactive: u64,
    /// The most pages pinned at a time so far.
    pub peak: u64,
    /// Pages ever pinned.
    pub pinned_total: u64,
    /// Pages ever unpinned.
    pub unpinned_total: u64,
    /// Pages that were not pinned because they may not be more.
    pub refused: u64,
    /// Pages that may be brought back before each release; 0 where none are.
    pub restore: u64,
    /// Pages brought back so far.
    pub restored: u64,
    /// Jobs reported, and judged.
    pub jobs: u64,
    /// Of these, those that missed their deadlines.
    pub misses: u64,
    /// Judgements by the rule that adjusted the capacity.
    pub capacity_rules: CapacityRules,
    /// Judgements by the rule that adjusted the swap budget.
    pub swap_budget_rules: SwapBudgetRules,
    /// The last job; null before the first.
    pub last: Option<JobStatus>,
    /// The last job that missed its deadline.
    pub last_miss: Option<DelayStatus>,
    /// Tasks in it.
    pub members: Vec<super::MemberStatus>,
}

/// All pinned page pools since the server began, closed ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinningStatus {
    /// Opened.
    pub opened: u64,
    /// Jobs judged.
    pub jobs: u64,
    /// Those that missed their deadlines.
    pub misses: u64,
}

/// Judgements by the rule of Algorithm 1 that applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CapacityRules {
    /// Missed with swap-ins: grown by their number.
    pub grown: u64,
    /// Grown as far as allowed.
    pub at_limit: u64,
    /// Met with time to spare: shrunk.
    pub shrunk: u64,
    /// Neither.
    pub held: u64,
    /// Memory had no part in the miss.
    pub not_memory: u64,
    /// Too early to shrink, or too little left for what that may cost.
    pub steady: u64,
}

/// Judgements by the rule of Algorithm 3 that applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SwapBudgetRules {
    /// Missed with the budget used up: raised.
    pub raised: u64,
    /// Raised as far as allowed.
    pub at_limit: u64,
    /// Met with budget left over: lowered.
    pub lowered: u64,
    /// Neither.
    pub held: u64,
    /// The pool has no swap budget.
    pub off: u64,
}

/// A job and what followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// M.
    pub missed: bool,
    /// Q.
    pub running_ns: u64,
    /// What was left of budget and swap budget.
    pub remaining_ns: u64,
    /// N_swap.
    pub swap_ins: u64,
    /// K_swap.
    pub swap_time_ns: u64,
    /// Which rule of Algorithm 1 applied.
    pub capacity_rule: String,
    /// Which rule of Algorithm 3 applied.
    pub swap_budget_rule: String,
}

/// Where a late job's time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayStatus {
    /// All that delayed it: the CPU, the store, the service of faults, locks.
    pub delay_ns: u64,
    /// Of this, the store and the service of faults.
    pub memory_delay_ns: u64,
    /// Pages that it had read back.
    pub swap_ins: u64,
}

fn pages(count: PageCount) -> u64 {
    u64::from(count.get())
}

fn policy(row: &PinnedPoolRow) -> &'static str {
    match (row.settings.policy, row.settings.swap_budget) {
        (PinningPolicy::All, _) => "all",
        (PinningPolicy::Freehold, true) => "app",
        (PinningPolicy::Freehold, false) => "app-no-budget",
        (PinningPolicy::Adaptive, true) => "app, paper",
        (PinningPolicy::Adaptive, false) => "app-no-budget, paper",
    }
}

/// All pools of a picture.
pub(super) fn of(view: &EngineView) -> Vec<PinnedPoolStatus> {
    view.pinned_pools.iter().map(pool).collect()
}

pub(super) fn totals(view: &EngineView) -> PinningStatus {
    PinningStatus {
        opened: view.pinning.opened,
        jobs: view.pinning.jobs,
        misses: view.pinning.misses,
    }
}

fn pool(row: &PinnedPoolRow) -> PinnedPoolStatus {
    let (settings, lists, counts) = (&row.settings, &row.lists, &row.counts);
    let member = |(pid, task): &(u32, String)| super::MemberStatus {
        pid: *pid,
        task: task.clone(),
    };
    let highest = settings.highest_capacity.get();
    PinnedPoolStatus {
        name: row.name.clone(),
        policy: policy(row).to_owned(),
        period_ns: settings.period.get(),
        budget_ns: settings.budget.get(),
        swap_budget_ns: lists.swap_budget.get(),
        highest_swap_budget_ns: settings.highest_swap_budget.get(),
        capacity: pages(lists.capacity),
        highest_capacity: (highest < u32::MAX).then_some(u64::from(highest)),
        pinned: pages(lists.active) + pages(lists.inactive),
        active: pages(lists.active),
        inactive: pages(lists.inactive),
        peak: pages(lists.peak),
        pinned_total: lists.pinned,
        unpinned_total: lists.unpinned,
        refused: lists.refused,
        restore: u64::from(row.restore),
        restored: row.restored,
        jobs: counts.jobs,
        misses: counts.misses,
        capacity_rules: CapacityRules {
            grown: counts.grown,
            at_limit: counts.at_limit,
            shrunk: counts.shrunk,
            held: counts.held,
            not_memory: counts.not_memory,
            steady: counts.steady,
        },
        swap_budget_rules: SwapBudgetRules {
            raised: counts.budget_raised,
            at_limit: counts.budget_at_limit,
            lowered: counts.budget_lowered,
            held: counts.budget_held,
            off: counts.budget_off,
        },
        last: row.last.as_ref().map(|(job, judgement)| self::job(job, judgement)),
        last_miss: row.last_miss.as_ref().map(delay),
        members: row.members.iter().map(member).collect(),
    }
}

fn job(job: &JobReport, judgement: &Judgement) -> JobStatus {
    JobStatus {
        missed: job.missed,
        running_ns: job.running.get(),
        remaining_ns: job.remaining.get(),
        swap_ins: u64::from(job.swap_ins),
        swap_time_ns: job.swap_time.get(),
        capacity_rule: capacity_rule(judgement.capacity_rule).name().to_owned(),
        swap_budget_rule: swap_budget_rule(judgement.swap_budget_rule).name().to_owned(),
    }
}

fn delay(job: &JobReport) -> DelayStatus {
    DelayStatus {
        delay_ns: job.delay.get(),
        memory_delay_ns: job.memory_delay.get(),
        swap_ins: u64::from(job.swap_ins),
    }
}

/// The pool of a task.
pub(super) fn find(view: &EngineView, id: Option<PinnedPoolId>) -> Option<&PinnedPoolRow> {
    view.pinned_pools.iter().find(|row| Some(row.id) == id)
}

/// What a task in a pinned page pool can count on, in a sentence.
pub(super) fn guarantee(who: &str, row: &PinnedPoolRow) -> String {
    let lists = &row.lists;
    let most = match row.settings.policy {
        PinningPolicy::All => row.settings.highest_capacity,
        PinningPolicy::Freehold | PinningPolicy::Adaptive => lists.capacity.min(row.settings.highest_capacity),
    };
    format!(
        "{who} has no reservation, but a pinned page pool ({}, {}): {} of at most {} pages are pinned, and leave only \
         for a reservation's frames; the others are on the global lists, and any fault of others may take their frames",
        row.name,
        policy(row),
        pages(lists.active) + pages(lists.inactive),
        most.get()
    )
}

/// What the jobs of a pool have come to, in sentences.
pub(super) fn sentences(row: &PinnedPoolRow) -> Vec<String> {
    let counts = &row.counts;
    let mut text = vec![format!(
        "pinned page pool {}: {} jobs judged, {} late; its capacity grew {} times and shrank {}; swap budget {} on a \
         budget of {} in {}",
        row.name,
        counts.jobs,
        counts.misses,
        counts.grown + counts.at_limit,
        counts.shrunk,
        time(row.lists.swap_budget),
        time(row.settings.budget),
        time(row.settings.period)
    )];
    if let Some(miss) = &row.last_miss {
        text.push(format!(
            "the last late job was delayed by {}: {} by memory (store and service of faults, {} pages read back), {} \
             by the CPU and locks",
            time(miss.delay),
            time(miss.memory_delay),
            miss.swap_ins,
            time(miss.delay.saturating_sub(miss.memory_delay))
        ));
    }
    text
}

/// Milliseconds.
#[allow(clippy::cast_precision_loss, reason = "a time in a sentence")]
fn time(span: Duration) -> String {
    format!("{:.3} ms", span.get() as f64 / 1e6)
}

type Of = (&'static str, &'static str, &'static str, fn(&PinnedPoolStatus) -> u64);

/// Metrics of all pools.
pub(super) fn metrics(page: &mut Page, pools: &[PinnedPoolStatus]) {
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
            super::metrics::seconds(row.swap_budget_ns),
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
