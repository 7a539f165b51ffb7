//! Requests about pinned page pools. Everything in them is a claim.

use crate::control::accounts::{Charge, Kind};
use crate::control::refused::Refused;
use crate::control::registry::Registry;
use crate::control::reply::Reply;
use crate::control::session::{self, Session};
use crate::control::tickets::Ticket;
use crate::engine::Membership;
use crate::error::EngineError;
use crate::view::JudgedJob;
use freehold_core::pinning::{JobReport, PinningPolicy, PinningSettings};
use freehold_core::units::{Duration, Instant, PageCount};
use freehold_protocol::message::{Refusal, Request};
use tracing::{debug, info};

impl Session {
    /// Opens a pinned page pool, or judges a job of its program.
    pub(super) fn pinning(&mut self, registry: &Registry, request: &Request<'_>) -> Result<Reply, Refused> {
        match request {
            Request::OpenPool { name, settings } => self.open_pool(registry, &session::name(name), *settings),
            Request::ReportJob {
                pool,
                job,
                next_release,
            } => self.report_job(registry, *pool, &believed(job), Instant::new(*next_release)),
            _ => Err(Refused::new(
                Refusal::State,
                "this request is not about pinned page pools",
            )),
        }
    }

    fn open_pool(&mut self, registry: &Registry, name: &str, mut settings: PinningSettings) -> Result<Reply, Refused> {
        settings.check().map_err(EngineError::from)?;
        self.may_hold()?;
        let user = self.peer.user;
        let charge = match settings.highest_capacity.get() {
            0 => registry.take_rest(user),
            frames => Some(registry.take(user, Kind::Frames, u64::from(frames))?),
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
        registry.shared.tear_down();
        let opened = registry.shared.engine().open_pool(name, settings);
        let id = opened?;
        let ticket = Ticket::draw().map_err(|errno| {
            registry.shared.engine().release_pool(id);
            Refused::new(Refusal::State, format!("no ticket can be drawn: {errno}"))
        })?;
        let id = Membership::Pinned(id);
        registry.note(id, ticket, charge);
        let (pid, capacity) = (self.peer.pid, settings.initial_capacity.get());
        info!(pid, user, ?name, capacity, policy = ?settings.policy, "pinned page pool opened");
        self.hold(registry, id, 0, ticket)
    }

    fn report_job(&self, registry: &Registry, handle: u32, job: &JobReport, next: Instant) -> Result<Reply, Refused> {
        let Membership::Pinned(id) = self.grants.membership(handle)? else {
            let text = format!("{handle} is a reservation: jobs are reported for pinned page pools");
            return Err(Refused::new(Refusal::State, text));
        };
        let judged = registry.shared.engine().judge_job(id, job, next)?;
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
            capacity_rule = judgement.capacity_rule.name(),
            swap_budget_rule = judgement.swap_budget_rule.name(),
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

/// What is believed of a job: a miss has no slack, and the memory no more than all of its delay.
fn believed(job: &JobReport) -> JobReport {
    JobReport {
        memory_delay: job.memory_delay.min(job.delay),
        slack: if job.missed { Duration::ZERO } else { job.slack },
        ..*job
    }
}
