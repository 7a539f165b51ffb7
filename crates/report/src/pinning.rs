//! Pinned page pools (paper 001).

use crate::status::MemberStatus;
use serde::{Deserialize, Serialize};

/// CPU time of one pinned page pool's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// The period (I_s).
    pub period_ns: u64,
    /// The budget (T_s), without the swap budget.
    pub budget_ns: u64,
    /// The swap budget now (t).
    pub swap_budget_ns: u64,
    /// The most that it may become.
    pub highest_swap_budget_ns: u64,
}

/// Pages of one pinned page pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedPages {
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
}

/// One pinned page pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedPoolStatus {
    /// Its name.
    pub name: String,
    /// `all`, `app` or `app-no-budget`.
    pub policy: String,
    /// CPU time of its jobs.
    #[serde(flatten)]
    pub budget: BudgetStatus,
    /// Its pages.
    #[serde(flatten)]
    pub pages: PinnedPages,
    /// Pages that may be brought back before each release; 0 where none are.
    pub restore: u64,
    /// Pages brought back so far.
    pub restored: u64,
    /// Jobs reported, and judged.
    #[serde(flatten)]
    pub judged: JudgedJobs,
    /// The last job; null before the first.
    pub last: Option<JobStatus>,
    /// The last job that missed its deadline.
    pub last_miss: Option<DelayStatus>,
    /// Tasks in it.
    pub members: Vec<MemberStatus>,
}

/// Jobs of one pinned page pool, by the rules that applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedJobs {
    /// All.
    pub jobs: u64,
    /// Of these, those that missed their deadlines.
    pub misses: u64,
    /// Judgements by the rule that adjusted the capacity.
    pub capacity_rules: CapacityRules,
    /// Judgements by the rule that adjusted the swap budget.
    pub swap_budget_rules: SwapBudgetRules,
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
