//! Pinned page pools: Adaptive Page Pinning for a periodic program without a reservation.

use std::sync::Arc;
use std::time::Duration;

use freehold_protocol::message::{Answer, CapacityRule, PinningPolicy, Request, SwapBudgetRule, Unpinned};

use crate::error::RequestError;
use crate::link::Link;
use crate::reservation::{Reservation, Ticket};

/// What a pinned page pool is opened with. The server checks all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Which pages are pinned.
    pub policy: PinningPolicy,
    /// From release to release (`I_s`).
    pub period: Duration,
    /// CPU time of a job (`T_s`); positive, and not over the period.
    pub budget: Duration,
    /// The most that the budget may be raised by for swap-ins; none leaves it as it is.
    pub highest_swap_budget: Option<Duration>,
    /// Pages that may be pinned at first.
    pub capacity: u32,
    /// The most that ever may: they count as frames that the user reserves. None for as many as his quota leaves.
    pub highest_capacity: Option<u32>,
    /// Alpha in millionths, above 0, at most a million.
    pub alpha: u32,
    /// Beta, likewise.
    pub beta: u32,
    /// Gamma, at least 1.
    pub gamma: u32,
    /// Lambda in millionths.
    pub lambda: u32,
    /// Where unpinned pages go.
    pub unpinned: Unpinned,
    /// Only the memory's share of a miss's delay grows the pool.
    pub memory_share: bool,
    /// The pool shrinks in single steps that a miss takes back.
    pub steady: bool,
    /// Pages that are brought back before each release, at most; 0 for none (beyond the paper).
    pub restore: u32,
}

/// A job that has ended, as its program's kernel or clock saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedJob {
    /// It finished after its deadline.
    pub missed: bool,
    /// CPU time charged to it (`Q`).
    pub running: Duration,
    /// What was left of its budget and swap budget.
    pub remaining: Duration,
    /// Pages that it had read back from the store (`N_swap`).
    pub swap_ins: u32,
    /// CPU time charged to it in the swap-in path (`K_swap`).
    pub swap_time: Duration,
    /// Time between these faults and their ends.
    pub swap_delay: Duration,
    /// Of a miss: what delayed it, all together.
    pub delay: Duration,
    /// Of this, the store and the service of faults.
    pub memory_delay: Duration,
    /// From finish to deadline; zero for a miss.
    pub slack: Duration,
    /// When the next job is released, by CLOCK_MONOTONIC, if that is known and still to come: until then pages are
    /// brought back, where the pool was opened for that.
    pub next_release: Option<Duration>,
}

/// What follows from a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Pages that may be pinned from now on.
    pub capacity: u32,
    /// Why.
    pub capacity_rule: CapacityRule,
    /// To be added to the budget from the next period on.
    pub swap_budget: Duration,
    /// Why.
    pub swap_budget_rule: SwapBudgetRule,
    /// Pages pinned now.
    pub pinned: u32,
    /// Pages brought back before releases so far.
    pub restored: u64,
}

/// A pinned page pool that this connection holds. It closes when this and all tasks in it are gone.
#[derive(Debug)]
pub struct PinnedPool {
    /// A handle and a ticket, as a reservation has; without frames.
    held: Reservation,
}

impl PinnedPool {
    pub(crate) fn open(link: &Arc<Link>, name: &str, settings: &PoolSettings) -> Result<Self, RequestError> {
        let request = Request::OpenPool {
            name,
            policy: settings.policy,
            period: nanos(settings.period),
            budget: nanos(settings.budget),
            swap_budget: settings.highest_swap_budget.is_some(),
            highest_swap_budget: nanos(settings.highest_swap_budget.unwrap_or_default()),
            capacity: settings.capacity,
            highest_capacity: settings.highest_capacity.unwrap_or(0),
            alpha: settings.alpha,
            beta: settings.beta,
            gamma: settings.gamma,
            lambda: settings.lambda,
            unpinned: settings.unpinned,
            memory_share: settings.memory_share,
            steady: settings.steady,
            restore: settings.restore,
        };
        let held = Reservation::ask(link, &request)?;
        Ok(Self { held })
    }

    /// What lets the program whose pages it pins join it.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.ticket()
    }

    /// Tells the server that a job has ended, and waits for what follows.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn judge(&self, job: &EndedJob) -> Result<Judgement, RequestError> {
        let request = Request::ReportJob {
            pool: self.held.held.handle,
            missed: job.missed,
            running: nanos(job.running),
            remaining: nanos(job.remaining),
            swap_ins: job.swap_ins,
            swap_time: nanos(job.swap_time),
            swap_delay: nanos(job.swap_delay),
            delay: nanos(job.delay),
            memory_delay: nanos(job.memory_delay),
            slack: nanos(job.slack),
            next_release: nanos(job.next_release.unwrap_or_default()),
        };
        self.held.held.link.ask(&request, &[], |answer, _| match answer {
            Answer::Judged {
                capacity,
                capacity_rule,
                swap_budget,
                swap_budget_rule,
                pinned,
                restored,
            } => Some(Judgement {
                capacity,
                capacity_rule,
                swap_budget: Duration::from_nanos(swap_budget),
                swap_budget_rule,
                pinned,
                restored,
            }),
            _ => None,
        })
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
