//! Pinned page pools in documents.

use crate::view::{EngineView, PinnedPoolRow};
use freehold_core::id::PinnedPoolId;
use freehold_core::pinning::{JobReport, Judgement, PinningPolicy};
use freehold_core::units::{Duration, PageCount};
use freehold_report::pinning::{BudgetStatus, DelayStatus, JobStatus, PinnedPages, PinnedPoolStatus};
use freehold_report::status::MemberStatus;

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

/// All pools of a snapshot.
pub(super) fn of(view: &EngineView) -> Vec<PinnedPoolStatus> {
    view.pinned_pools.iter().map(pool).collect()
}

fn pool(row: &PinnedPoolRow) -> PinnedPoolStatus {
    let (settings, lists) = (&row.settings, &row.lists);
    let member = |(pid, task): &(u32, String)| MemberStatus {
        pid: *pid,
        task: task.clone(),
    };
    let highest = settings.highest_capacity.get();
    PinnedPoolStatus {
        name: row.name.clone(),
        policy: policy(row).to_owned(),
        budget: BudgetStatus {
            period_ns: settings.period.get(),
            budget_ns: settings.budget.get(),
            swap_budget_ns: lists.swap_budget.get(),
            highest_swap_budget_ns: settings.highest_swap_budget.get(),
        },
        pages: PinnedPages {
            capacity: pages(lists.capacity),
            highest_capacity: (highest < u32::MAX).then_some(u64::from(highest)),
            pinned: pages(lists.active) + pages(lists.inactive),
            active: pages(lists.active),
            inactive: pages(lists.inactive),
            peak: pages(lists.peak),
            pinned_total: lists.pinned,
            unpinned_total: lists.unpinned,
            refused: lists.refused,
        },
        restore: pages(settings.restore),
        restored: row.restored,
        judged: row.counts,
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
        capacity_rule: judgement.capacity_rule.name().to_owned(),
        swap_budget_rule: judgement.swap_budget_rule.name().to_owned(),
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
    let (counts, rules) = (&row.counts, &row.counts.capacity_rules);
    let mut text = vec![format!(
        "pinned page pool {}: {} jobs judged, {} late; its capacity grew {} times and shrank {}; swap budget {} on a \
         budget of {} in {}",
        row.name,
        counts.jobs,
        counts.misses,
        rules.grown + rules.at_limit,
        rules.shrunk,
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
