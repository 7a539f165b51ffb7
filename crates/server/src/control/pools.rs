//! Requests about pinned page pools. Everything in them is a claim.

use super::accounts::{Charge, Kind};
use super::refused::Refused;
use super::reply::Reply;
use super::session::{self, Session};
use super::tickets::Ticket;
use super::world::World;
use crate::engine::Membership;
use crate::view::JudgedJob;
use freehold_core::pinning::{
    CapacityRule, JobReport, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule, UnpinnedGoTo,
};
use freehold_core::units::{Duration, Instant, PageCount};
use freehold_protocol::message::{self, Answer, Refusal, Request};
use tracing::{debug, info};

impl Session {
    /// Opens a pinned page pool, or judges a job of its program.
    pub(super) fn pinning(&mut self, world: &World, request: &Request<'_>) -> Result<Reply, Refused> {
        match request {
            Request::OpenPool { name, restore, .. } => {
                let settings = settings(request)?;
                self.open_pool(world, &session::name(name), settings, *restore)
            }
            Request::ReportJob { pool, next_release, .. } => {
                self.report_job(world, *pool, &report(request), Instant::new(*next_release))
            }
            _ => Err(Refused::new(
                Refusal::State,
                "this request is not about pinned page pools",
            )),
        }
    }

    fn open_pool(
        &mut self,
        world: &World,
        name: &str,
        mut settings: PinningSettings,
        restore: u32,
    ) -> Result<Reply, Refused> {
        self.may_hold()?;
        let user = self.peer.user;
        let charge = match settings.highest_capacity.get() {
            0 => world.take_rest(user),
            frames => Some(world.take(user, Kind::Frames, u64::from(frames))?),
        };
        let frames = charge.as_ref().map_or(0, Charge::amount);
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        settings.highest_capacity = PageCount::new(frames);
        // A pool that begins by pinning everything has no capacity but the highest.
        let adaptive = settings.policy == PinningPolicy::Adaptive;
        let too_small = adaptive && settings.initial_capacity > settings.highest_capacity;
        let Some(charge) = charge.filter(|_| frames > 0 && !too_small) else {
            let text = format!(
                "{} pages are to be pinned at first, but no more than {frames} may be, which count as frames that \
                 user {user} reserves: begin with fewer, or ask who started the server for a larger quota (serve \
                 --allow {user}=SIZE)",
                settings.initial_capacity.get()
            );
            return Err(Refused::new(Refusal::Exhausted, text));
        };
        // What those pinned who have just ended may be promised again.
        world.shared.vacate();
        let opened = world.shared.engine().open_pool(name, settings, restore);
        let id = opened?;
        let ticket = Ticket::draw().map_err(|errno| {
            world.shared.engine().release_pool(id);
            Refused::new(Refusal::State, format!("no ticket can be drawn: {errno}"))
        })?;
        let id = Membership::Pinned(id);
        world.note(id, ticket, charge);
        let (pid, capacity) = (self.peer.pid, settings.initial_capacity.get());
        info!(pid, user, ?name, capacity, policy = ?settings.policy, "pinned page pool opened");
        self.hold(world, id, 0, ticket)
    }

    fn report_job(&self, world: &World, handle: u32, job: &JobReport, next: Instant) -> Result<Reply, Refused> {
        let Membership::Pinned(id) = self.membership(handle)? else {
            let text = format!("{handle} is a reservation: jobs are reported for pinned page pools");
            return Err(Refused::new(Refusal::State, text));
        };
        let judged = world.shared.engine().judge_job(id, job, next)?;
        self.log(job, &judged);
        Ok(Reply::Judged(judged))
    }

    /// The log line of a judgement.
    fn log(&self, job: &JobReport, judged: &JudgedJob) {
        let (judgement, settings) = (&judged.judgement, &judged.settings);
        debug!(
            pid = self.peer.pid,
            name = ?self.name,
            missed = job.missed,
            capacity = judgement.capacity.get(),
            pinned = judged.pinned.get(),
            swap_ins = job.swap_ins,
            used = share(job.running, settings.budget),
            budget_ns = settings.budget.get().saturating_add(judgement.swap_budget.get()),
            capacity_rule = capacity_rule(judgement.capacity_rule).name(),
            swap_budget_rule = swap_budget_rule(judgement.swap_budget_rule).name(),
            delay_ns = job.delay.get(),
            memory_delay_ns = job.memory_delay.get(),
            "job judged"
        );
    }
}

/// Q / T_s.
#[allow(clippy::cast_precision_loss, reason = "a share in a log line")]
fn share(running: Duration, budget: Duration) -> f64 {
    running.get() as f64 / budget.get().max(1) as f64
}

/// The core's rule in the protocol's words.
pub(crate) const fn capacity_rule(rule: CapacityRule) -> message::CapacityRule {
    match rule {
        CapacityRule::Grown => message::CapacityRule::Grown,
        CapacityRule::AtLimit => message::CapacityRule::AtLimit,
        CapacityRule::Shrunk => message::CapacityRule::Shrunk,
        CapacityRule::Held => message::CapacityRule::Held,
        CapacityRule::NotMemory => message::CapacityRule::NotMemory,
        CapacityRule::Steady => message::CapacityRule::Steady,
    }
}

/// The core's rule in the protocol's words.
pub(crate) const fn swap_budget_rule(rule: SwapBudgetRule) -> message::SwapBudgetRule {
    match rule {
        SwapBudgetRule::Raised => message::SwapBudgetRule::Raised,
        SwapBudgetRule::AtLimit => message::SwapBudgetRule::AtLimit,
        SwapBudgetRule::Lowered => message::SwapBudgetRule::Lowered,
        SwapBudgetRule::Held => message::SwapBudgetRule::Held,
        SwapBudgetRule::Off => message::SwapBudgetRule::Off,
    }
}

/// The answer to a job.
pub(super) fn judged(job: &JudgedJob) -> Answer<'static> {
    let judgement = &job.judgement;
    Answer::Judged {
        capacity: judgement.capacity.get(),
        capacity_rule: capacity_rule(judgement.capacity_rule),
        swap_budget: judgement.swap_budget.get(),
        swap_budget_rule: swap_budget_rule(judgement.swap_budget_rule),
        pinned: job.pinned.get(),
        restored: job.restored,
    }
}

/// Refuses what no pool can be.
fn wrong(text: impl Into<String>) -> Refused {
    Refused::new(Refusal::State, text)
}

/// The settings that a request claims, checked. Where it names no highest capacity, that is 0 still.
fn settings(request: &Request<'_>) -> Result<PinningSettings, Refused> {
    let Request::OpenPool {
        name: _,
        policy,
        period,
        budget,
        swap_budget,
        highest_swap_budget,
        capacity,
        highest_capacity,
        alpha,
        beta,
        gamma,
        lambda,
        unpinned,
        memory_share,
        steady,
        restore: _,
    } = *request
    else {
        return Err(wrong("this request opens no pinned page pool"));
    };
    if budget == 0 || budget > period {
        return Err(wrong(format!(
            "a budget of {budget} ns in a period of {period} ns cannot be: it must be positive and not over the period"
        )));
    }
    let rest = period - budget;
    if highest_swap_budget > rest {
        return Err(wrong(format!(
            "a swap budget of up to {highest_swap_budget} ns does not fit: the budget leaves {rest} ns of the period"
        )));
    }
    if gamma == 0 {
        return Err(wrong("gamma must be at least 1"));
    }
    Ok(PinningSettings {
        policy: match policy {
            message::PinningPolicy::All => PinningPolicy::All,
            message::PinningPolicy::Adaptive => PinningPolicy::Adaptive,
            message::PinningPolicy::Freehold => PinningPolicy::Freehold,
        },
        initial_capacity: PageCount::new(capacity),
        highest_capacity: PageCount::new(highest_capacity),
        alpha: ratio("alpha", alpha)?,
        beta: ratio("beta", beta)?,
        gamma,
        lambda: ratio("lambda", lambda)?,
        unpinned_go_to: match unpinned {
            message::Unpinned::Text => UnpinnedGoTo::Text,
            message::Unpinned::Listing => UnpinnedGoTo::Listing,
        },
        swap_budget,
        highest_swap_budget: Duration::new(highest_swap_budget),
        memory_share,
        steady,
        ..PinningSettings::paper(Duration::new(budget), Duration::new(period))
    })
}

fn ratio(name: &str, millionths: u32) -> Result<Ratio, Refused> {
    let found = Ratio::from_millionths(millionths);
    found.ok_or_else(|| {
        wrong(format!(
            "{name} is {millionths} millionths, and must be above 0 and at most 1"
        ))
    })
}

/// The job that a request claims. A miss has no slack.
fn report(request: &Request<'_>) -> JobReport {
    let Request::ReportJob {
        pool: _,
        missed,
        running,
        remaining,
        swap_ins,
        swap_time,
        swap_delay,
        delay,
        memory_delay,
        slack,
        next_release: _,
    } = *request
    else {
        return JobReport::default();
    };
    JobReport {
        missed,
        running: Duration::new(running),
        remaining: Duration::new(remaining),
        swap_ins,
        swap_time: Duration::new(swap_time),
        swap_delay: Duration::new(swap_delay),
        delay: Duration::new(delay),
        memory_delay: Duration::new(memory_delay.min(delay)),
        slack: Duration::new(if missed { 0 } else { slack }),
    }
}
