//! Pinned page pools of a server's tasks.

use std::time::Duration;

use freehold_client::{
    CapacityRule as ClientCapacityRule, Connection, EndedJob, Observer, PinnedPool, PinningPolicy as ClientPolicy,
    PoolSettings, RequestError, Reservation, SwapBudgetRule as ClientSwapBudgetRule, Unpinned,
};
use freehold_core::pinning::{
    CapacityRule, JobReport, Judgement, PinnedPoolView, PinningPolicy, PinningSettings, SwapBudgetRule, UnpinnedGoTo,
};
use freehold_core::units::{self, PageCount};
use freehold_linux::clock::MonotonicTime;
use freehold_pager::Verdict;
use freehold_scenario::Scenario;

/// The pool of one task. The task's thread reports through a connection that no other thread uses.
#[derive(Debug)]
pub(crate) struct ServedPool {
    pool: PinnedPool,
    /// T_s.
    budget: units::Duration,
}

impl ServedPool {
    /// With this as the most that it may pin at any time, and `restore` pages brought back before each release.
    pub(super) fn open(
        observer: &Observer,
        name: &str,
        settings: &PinningSettings,
        restore: u32,
    ) -> Result<Self, RequestError> {
        let highest = settings.highest_capacity.get();
        let settings = PoolSettings {
            policy: match settings.policy {
                PinningPolicy::All => ClientPolicy::All,
                PinningPolicy::Adaptive => ClientPolicy::Adaptive,
                PinningPolicy::Freehold => ClientPolicy::Freehold,
            },
            period: span(settings.period),
            budget: span(settings.budget),
            highest_swap_budget: settings.swap_budget.then(|| span(settings.highest_swap_budget)),
            capacity: settings.initial_capacity.get().min(highest),
            highest_capacity: Some(highest),
            alpha: settings.alpha.millionths(),
            beta: settings.beta.millionths(),
            gamma: settings.gamma,
            lambda: settings.lambda.millionths(),
            unpinned: match settings.unpinned_go_to {
                UnpinnedGoTo::Text => Unpinned::Text,
                UnpinnedGoTo::Listing => Unpinned::Listing,
            },
            memory_share: settings.memory_share,
            steady: settings.steady,
            restore,
        };
        Ok(Self {
            pool: observer.open_pool(name, &settings)?,
            budget: units::Duration::new(u64::try_from(settings.budget.as_nanos()).unwrap_or(u64::MAX)),
        })
    }

    /// What a task of this connection joins it by.
    pub(super) fn join(&self, connection: &Connection) -> Result<Reservation, RequestError> {
        connection.join(self.pool.ticket())
    }

    /// Reports a job, and waits for the answer. `next`: when the next is released, if this one has ended.
    pub(crate) fn judge(&self, report: &JobReport, next: Option<MonotonicTime>) -> Result<Verdict, RequestError> {
        let judged = self.pool.judge(&EndedJob {
            missed: report.missed,
            running: span(report.running),
            remaining: span(report.remaining),
            swap_ins: report.swap_ins,
            swap_time: span(report.swap_time),
            swap_delay: span(report.swap_delay),
            delay: span(report.delay),
            memory_delay: span(report.memory_delay),
            slack: span(report.slack),
            next_release: next.map(|next| Duration::from_nanos(next.as_nanos())),
        })?;
        let judgement = Judgement {
            capacity: PageCount::new(judged.capacity),
            capacity_rule: capacity_rule(judged.capacity_rule),
            swap_budget: units::Duration::new(u64::try_from(judged.swap_budget.as_nanos()).unwrap_or(u64::MAX)),
            swap_budget_rule: swap_budget_rule(judged.swap_budget_rule),
        };
        let changes = judgement.swap_budget_rule != SwapBudgetRule::Off;
        Ok(Verdict {
            judgement,
            // Of its lists the answer says the sum.
            pool: PinnedPoolView {
                capacity: judgement.capacity,
                active: PageCount::new(judged.pinned),
                swap_budget: judgement.swap_budget,
                ..PinnedPoolView::default()
            },
            budget: changes.then(|| self.budget.saturating_add(judgement.swap_budget)),
        })
    }
}

/// An even share of what no reservation has: a server wants to know what a pool may pin at most, and what is one pool's
/// can be no other's.
pub(super) fn even_share(scenario: &Scenario) -> PageCount {
    let reserved: u64 = (scenario.reservations.iter())
        .map(|reservation| u64::from(reservation.capacity.get()))
        .sum();
    let left = u64::from(scenario.pool.get()).saturating_sub(reserved);
    let pools = scenario.tasks.iter().filter(|task| task.pinning.pins()).count() as u64;
    PageCount::new(u32::try_from(left / pools.max(1)).unwrap_or(u32::MAX).max(1))
}

fn span(span: units::Duration) -> Duration {
    Duration::from_nanos(span.get())
}

fn capacity_rule(rule: ClientCapacityRule) -> CapacityRule {
    match rule {
        ClientCapacityRule::Grown => CapacityRule::Grown,
        ClientCapacityRule::AtLimit => CapacityRule::AtLimit,
        ClientCapacityRule::Shrunk => CapacityRule::Shrunk,
        ClientCapacityRule::Held => CapacityRule::Held,
        ClientCapacityRule::NotMemory => CapacityRule::NotMemory,
        ClientCapacityRule::Steady => CapacityRule::Steady,
    }
}

fn swap_budget_rule(rule: ClientSwapBudgetRule) -> SwapBudgetRule {
    match rule {
        ClientSwapBudgetRule::Raised => SwapBudgetRule::Raised,
        ClientSwapBudgetRule::AtLimit => SwapBudgetRule::AtLimit,
        ClientSwapBudgetRule::Lowered => SwapBudgetRule::Lowered,
        ClientSwapBudgetRule::Held => SwapBudgetRule::Held,
        ClientSwapBudgetRule::Off => SwapBudgetRule::Off,
    }
}
