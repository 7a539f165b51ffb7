//! `exec --adaptive`: a pinned page pool for the program, and what its jobs mean for it.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use freehold_client::{
    JobReport, Judgement, PinnedPool, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule, UnpinnedGoTo,
};
use freehold_core::units::{self, FrameCount, PageCount};
use freehold_linux::sched::{self, Deadline, DeadlineFlags, Policy, set_policy};
use freehold_linux::{ThreadId, tick};
use freehold_rt::observed::ObservedJob;
use serde::Serialize;

use super::{Arguments, Class, parse_frames};
use freehold_command::output;
use freehold_command::status::Failure;

/// Options of Adaptive Page Pinning.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Adaptive Page Pinning in place of a reservation: how many pages stay follows the deadlines of the jobs
    #[arg(long, requires = "period", conflicts_with = "reserve")]
    pub(super) adaptive: bool,
    /// Which pages are pinned
    #[arg(long, value_enum, default_value_t = Pinning::App, requires = "adaptive")]
    pinning: Pinning,
    /// By whose rules their number follows; the options below but --lambda and --highest-capacity belong to the paper's
    #[arg(long, value_enum, default_value_t = Preset::Freehold, requires = "adaptive")]
    preset: Preset,
    /// Pages that may be pinned at first [default: 28000KiB, 7000 pages]
    #[arg(long, value_name = "SIZE", value_parser = parse_frames, requires = "adaptive")]
    capacity: Option<FrameCount>,
    /// The most that ever may, which counts as reserved [default: what the user's quota leaves]
    #[arg(long, value_name = "SIZE", value_parser = parse_frames, requires = "adaptive")]
    highest_capacity: Option<FrameCount>,
    /// A job in time that ran less than this part of its budget lets the pool shrink [default: 0.9]
    #[arg(long, value_name = "0-1", value_parser = parse_ratio, requires = "adaptive")]
    alpha: Option<Ratio>,
    /// By what the pool shrinks [default: 0.98]
    #[arg(long, value_name = "0-1", value_parser = parse_ratio, requires = "adaptive")]
    beta: Option<Ratio>,
    /// How many times as long as its inactive list the active list of the pool may be [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "adaptive")]
    gamma: Option<u32>,
    /// By what an unused swap budget shrinks
    #[arg(long, value_name = "0-1", default_value = "0.8", value_parser = parse_ratio, requires = "adaptive")]
    lambda: Ratio,
    /// Where unpinned pages go, which the paper says twice [default: text, with --restore listing]
    #[arg(long, value_enum, requires = "adaptive")]
    unpinned: Option<GoTo>,
    /// Only memory's share of a late job's delay grows the pool (beyond the paper)
    #[arg(long, requires = "adaptive")]
    memory_share: bool,
    /// The pool shrinks in single steps that a miss takes back (beyond the paper)
    #[arg(long, requires = "adaptive")]
    steady: bool,
    /// Brings up to so many pages back before each release, of those that jobs wanted and that have left (beyond the
    /// paper)
    #[arg(long, value_name = "PAGES", requires = "adaptive")]
    restore: Option<u32>,
}

/// Which pages are pinned; the words of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Pinning {
    /// Every page, as mlockall does
    All,
    /// Adaptive Page Pinning with a swap budget
    App,
    /// Without
    AppNoBudget,
}

/// Whose rules; the words of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// Begin with every page, and let go of those that have proved to cost no deadline
    Freehold,
    /// Algorithms 1 and 2 of paper 001
    Paper,
}

/// Where unpinned pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GoTo {
    /// As the paper's text says
    Text,
    /// As its listing of Algorithm 2 says
    Listing,
}

impl Options {
    /// Options of the paper's rules beside the other preset would do nothing.
    fn refuse_mixed(&self) -> Result<(), Failure> {
        let given = [
            ("--capacity", self.capacity.is_some()),
            ("--alpha", self.alpha.is_some()),
            ("--beta", self.beta.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--unpinned", self.unpinned.is_some()),
            ("--memory-share", self.memory_share),
            ("--steady", self.steady),
            ("--restore", self.restore.is_some()),
        ];
        let mixed = given.iter().find(|(_, given)| *given);
        match mixed.filter(|_| self.preset == Preset::Freehold && self.pinning != Pinning::All) {
            Some((option, _)) => Err(Failure::Input(format!(
                "{option} belongs to --preset paper: state that too, or leave {option} out"
            ))),
            None => Ok(()),
        }
    }
}

impl Options {
    /// What goes where no option says otherwise.
    fn preset(&self, budget: units::Duration, period: units::Duration) -> PinningSettings {
        match (self.pinning, self.preset) {
            (Pinning::All, _) => PinningSettings {
                policy: PinningPolicy::All,
                ..PinningSettings::paper(budget, period)
            },
            (Pinning::App | Pinning::AppNoBudget, Preset::Freehold) => PinningSettings::freehold(budget, period),
            (Pinning::App | Pinning::AppNoBudget, Preset::Paper) => PinningSettings::paper(budget, period),
        }
    }
}

impl GoTo {
    /// As in scenarios.
    fn beside(restore: u32) -> Self {
        match freehold_scenario::Unpinned::beside(restore) {
            freehold_scenario::Unpinned::Text => Self::Text,
            freehold_scenario::Unpinned::Listing => Self::Listing,
        }
    }
}

fn parse_ratio(text: &str) -> Result<Ratio, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "what is no ratio becomes one that is refused"
    )]
    let millionths = (number * 1e6).round() as u32;
    Ratio::from_millionths(millionths).ok_or_else(|| format!("`{text}` must be above 0 and at most 1"))
}

/// What is asked of the server; nothing without `--adaptive`.
///
/// # Errors
/// A budget that cannot be, or that the kernel cannot enforce.
pub(super) fn settings(arguments: &Arguments) -> Result<Option<PinningSettings>, Failure> {
    let (Some(period), Some(budget)) = (arguments.period, arguments.budget) else {
        return Ok(None);
    };
    if budget.is_zero() || budget > period {
        let text = format!("--budget {budget:?} must be positive and not over --period {period:?}");
        return Err(Failure::Input(text));
    }
    let options = &arguments.pinning;
    enforceable(arguments.class, budget)?;
    if !options.adaptive {
        return Ok(None);
    }
    options.refuse_mixed()?;
    let given = options.pinning == Pinning::App && arguments.class == Class::Deadline;
    let room = freehold_rt::budget::room(period, budget);
    let preset = options.preset(amount(budget), amount(period));
    let restore = options.restore.map_or(preset.restore, PageCount::new);
    Ok(Some(PinningSettings {
        initial_capacity: options.capacity.map_or(preset.initial_capacity, pages),
        // None is as many as the quota leaves.
        highest_capacity: options.highest_capacity.map_or(PageCount::ZERO, pages),
        alpha: options.alpha.unwrap_or(preset.alpha),
        beta: options.beta.unwrap_or(preset.beta),
        gamma: options.gamma.unwrap_or(preset.gamma),
        lambda: options.lambda,
        unpinned_go_to: match options.unpinned.unwrap_or_else(|| GoTo::beside(restore.get())) {
            GoTo::Text => UnpinnedGoTo::Text,
            GoTo::Listing => UnpinnedGoTo::Listing,
        },
        swap_budget: given,
        highest_swap_budget: if given { amount(room) } else { units::Duration::ZERO },
        memory_share: options.memory_share || preset.memory_share,
        steady: options.steady,
        restore,
        ..preset
    }))
}

fn pages(frames: FrameCount) -> PageCount {
    PageCount::new(frames.get())
}

fn amount(span: Duration) -> units::Duration {
    units::Duration::new(nanos(span))
}

/// The kernel looks at budgets at its tick only.
fn enforceable(class: Class, budget: Duration) -> Result<(), Failure> {
    let tick = tick::period().map_err(|errno| Failure::Run(format!("the kernel's tick is not known: {errno}")))?;
    if class == Class::Deadline && budget < tick {
        return Err(Failure::Input(format!(
            "--budget {budget:?} cannot be enforced: the kernel looks at budgets at its tick, every {tick:?} here, so \
             a job may use that much more; give at least {tick:?}, or --class none"
        )));
    }
    Ok(())
}

/// A pool, and what is given to its program's main thread.
#[derive(Debug)]
pub(super) struct Pinned {
    pool: Arc<PinnedPool>,
    thread: ThreadId,
    period: Duration,
    /// T_s.
    budget: Duration,
    /// T_s + t, as the kernel was told.
    given: Duration,
    /// Why budgets are not changed, once that is known; said once.
    not_given: Option<String>,
    pub(super) counts: Counts,
}

/// Sums over judgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) judged: u64,
    pub(super) failed: u64,
    pub(super) not_given: u64,
    last: Option<Row>,
}

/// What followed from a job, in its row of the report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Row {
    capacity_pages: u32,
    capacity_rule: &'static str,
    pinned_pages: u32,
    swap_budget_ns: u64,
    swap_budget_rule: &'static str,
    /// What the kernel enforces from now on; null where it does not.
    budget_ns: Option<u64>,
    /// Pages brought back before releases so far.
    restored_pages: u64,
}

impl Counts {
    /// For people, at the end.
    pub(super) fn text(&self) -> String {
        let mut text = format!("; {} judged", self.judged);
        if let Some(last) = self.last {
            text.push_str(&format!(
                ", at last {} pages pinned of at most {}, swap budget {}",
                last.pinned_pages,
                last.capacity_pages,
                output::human_time(last.swap_budget_ns)
            ));
            if last.restored_pages > 0 {
                text.push_str(&format!(", {} brought back before releases", last.restored_pages));
            }
        }
        if self.failed > 0 {
            text.push_str(&format!(", {} judgements failed", self.failed));
        }
        if self.not_given > 0 {
            text.push_str(&format!(", {} changes of the budget not carried out", self.not_given));
        }
        text
    }
}

impl Pinned {
    /// For a thread that has been started with `budget`, and has that from the kernel if `class` says so.
    pub(super) fn new(
        pool: &Arc<PinnedPool>,
        thread: ThreadId,
        (period, budget): (Duration, Duration),
        class: Class,
    ) -> Self {
        Self {
            pool: Arc::clone(pool),
            thread,
            period,
            budget,
            given: budget,
            not_given: (class == Class::None).then(|| "it was not put into the deadline class".to_owned()),
            counts: Counts::default(),
        }
    }

    /// Reports a job and carries out what follows. `swap_ins` are the process's since the job before.
    pub(super) fn judge(&mut self, job: &ObservedJob, swap_ins: u64) -> Option<Row> {
        let periods = u32::try_from(job.periods).unwrap_or(u32::MAX);
        let next = Duration::from_nanos(job.release).saturating_add(self.period.saturating_mul(periods));
        let next = job.finish.map(|_| next);
        let judged = match self.pool.judge(&self.report(job, swap_ins), next) {
            Ok(judged) => judged,
            Err(error) => {
                if self.counts.failed == 0 {
                    output::note(&format!("freehold: a job could not be judged: {error}"));
                }
                self.counts.failed += 1;
                return None;
            }
        };
        let judgement = judged.judgement;
        self.give(&judgement);
        let row = Row {
            capacity_pages: judgement.capacity.get(),
            capacity_rule: judgement.capacity_rule.name(),
            pinned_pages: judged.pinned.get(),
            swap_budget_ns: judgement.swap_budget.get(),
            swap_budget_rule: judgement.swap_budget_rule.name(),
            budget_ns: self.not_given.is_none().then(|| nanos(self.given)),
            restored_pages: judged.restored,
        };
        self.counts.judged += 1;
        self.counts.last = Some(row);
        Some(row)
    }

    /// A job as Algorithms 1 and 3 see it. Of the time in page faults, swap-ins have as large a part as they are of the
    /// faults in which the thread waited: the kernel does not tell them from other faults.
    fn report(&self, job: &ObservedJob, swap_ins: u64) -> JobReport {
        let part = |span: u64| {
            let waits = job.fault_waits.max(1);
            let share = u128::from(span) * u128::from(swap_ins.min(waits)) / u128::from(waits);
            units::Duration::new(u64::try_from(share).unwrap_or(u64::MAX))
        };
        let in_faults = job.fault_wait.saturating_add(job.fault_cpu);
        let (delay, memory) = if job.late {
            (
                job.cpu_wait.saturating_add(job.call_wait).saturating_add(in_faults),
                in_faults,
            )
        } else {
            (0, 0)
        };
        JobReport {
            missed: job.late,
            running: units::Duration::new(job.cpu),
            remaining: units::Duration::new(nanos(self.given).saturating_sub(job.cpu)),
            swap_ins: u32::try_from(swap_ins).unwrap_or(u32::MAX),
            swap_time: part(job.fault_cpu),
            swap_delay: part(in_faults),
            delay: units::Duration::new(delay),
            memory_delay: units::Duration::new(memory),
            slack: units::Duration::new(nanos(self.period).saturating_sub(job.response())),
        }
    }

    /// Has the kernel enforce the budget that was decided on.
    fn give(&mut self, judgement: &Judgement) {
        let wanted = self
            .budget
            .saturating_add(Duration::from_nanos(judgement.swap_budget.get()));
        if judgement.swap_budget_rule == SwapBudgetRule::Off {
            return;
        }
        let set = match sched::policy(self.thread) {
            Ok(Policy::Deadline(class)) if class.runtime == wanted => Ok(()),
            Ok(Policy::Deadline(class)) => set_policy(
                self.thread,
                Policy::Deadline(Deadline {
                    runtime: wanted,
                    flags: DeadlineFlags::NONE,
                    ..class
                }),
            )
            .map_err(|error| error.to_string()),
            Ok(other) => Err(format!("its class is {}", class_name(other))),
            // It has ended: nobody needs the budget any more.
            Err(_) => return,
        };
        match set {
            Ok(()) => {
                self.given = wanted;
                self.not_given = None;
            }
            Err(why) => {
                self.counts.not_given += 1;
                if self.not_given.is_none() {
                    output::note(&format!(
                        "freehold: thread {} keeps its budget of {:?}, {wanted:?} is not given: {why}",
                        self.thread.get(),
                        self.given
                    ));
                }
                self.not_given = Some(why);
            }
        }
    }
}

/// What Linux calls a class.
pub(super) fn class_name(policy: Policy) -> String {
    match policy {
        Policy::Other { .. } => "SCHED_OTHER".to_owned(),
        Policy::Fifo { priority } => format!("SCHED_FIFO, priority {priority}"),
        Policy::Deadline(_) => "SCHED_DEADLINE".to_owned(),
        Policy::Unused(number) => format!("scheduling policy {number}"),
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Ratio, parse_ratio};

    #[test]
    fn ratios_are_above_zero_and_at_most_one() {
        assert_eq!(parse_ratio("0.98").map(Ratio::millionths), Ok(980_000));
        assert_eq!(parse_ratio("1"), Ok(Ratio::ONE));
        for wrong in ["0", "1.000001", "-0.5", "NaN", "inf", "much", ""] {
            assert!(parse_ratio(wrong).is_err(), "{wrong}");
        }
    }
}
