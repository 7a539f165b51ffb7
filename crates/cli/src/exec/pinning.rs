//! `exec --adaptive`: a pinned page pool for the program, and what its jobs mean for it.

use std::time::Duration;

use clap::ValueEnum;
use freehold_client::{PinningPolicy, PinningSettings, Ratio, UnpinnedGoTo};
use freehold_core::units::{self, FrameCount, PageCount};
use freehold_linux::tick;

use super::{Arguments, parse_frames};
use freehold_command::exec::deadline::Class;
use freehold_command::exit_status::Failure;

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
    units::Duration::new(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
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
