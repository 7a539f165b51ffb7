//! What an operation of the core costs in instructions, counted by valgrind's callgrind over a run of this command
//! itself. The count does not depend on the machine's mood.

use std::process::{Command, Stdio};
use std::time::Instant as Wall;

use clap::ValueEnum;
use freehold_core::limits::Regime;

use super::operations::{Core, GROUPS, Operation};
use super::rounds::refused;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::process::own_executable;

/// Options of the hidden subcommand that valgrind runs.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    operation: Operation,
    #[arg(value_enum)]
    regime: CoreRegime,
    /// In how many groups of pages
    groups: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CoreRegime {
    None,
    Spc,
}

impl CoreRegime {
    fn of(regime: Regime) -> Self {
        match regime {
            Regime::Unmanaged => Self::None,
            Regime::Conserve => Self::Spc,
        }
    }

    fn regime(self) -> Regime {
        match self {
            Self::None => Regime::Unmanaged,
            Self::Spc => Regime::Conserve,
        }
    }
}

/// The hidden subcommand: sets up, does the operation, and ends.
pub(crate) fn perform(arguments: &Arguments) -> Result<Status, Failure> {
    Core::new(arguments.operation, arguments.regime.regime())?.perform(arguments.groups)?;
    Ok(Status::Done)
}

/// The cost of one operation on one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// Counted.
    Instructions(f64),
    /// There is no valgrind: timed.
    Nanoseconds(f64),
}

impl Cost {
    /// The number.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Instructions(value) | Self::Nanoseconds(value) => value,
        }
    }

    /// Its unit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Instructions(_) => "instructions",
            Self::Nanoseconds(_) => "ns",
        }
    }

    /// What is to be said of it, if anything.
    pub(crate) fn note(self) -> Option<String> {
        if cfg!(debug_assertions) {
            return Some("a build with debug assertions: the core checks its books after every step".to_owned());
        }
        matches!(self, Self::Nanoseconds(_)).then(|| {
            "valgrind is not installed (apt install valgrind): the core's own cost is a time, not instructions"
                .to_owned()
        })
    }
}

/// Counts one operation: the difference of two runs, so that set-up cancels.
///
/// # Errors
/// A run that fails.
pub(crate) fn cost(operation: Operation, regime: Regime, quick: bool) -> Result<Cost, Failure> {
    let (few, many) = if quick { (1, 2) } else { (2, GROUPS - 2) };
    let Some(less) = instructions(operation, regime, few)? else {
        return time(operation, regime).map(Cost::Nanoseconds);
    };
    let more = instructions(operation, regime, many)?.unwrap_or(less);
    let pages = u64::from(many - few) * u64::from(super::operations::PAGES);
    Ok(Cost::Instructions(ratio(more.saturating_sub(less), pages)))
}

/// Instructions of a whole run; none where there is no valgrind.
fn instructions(operation: Operation, regime: Regime, groups: u16) -> Result<Option<u64>, Failure> {
    let me = own_executable()?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me);
    command
        .arg("bench-core")
        .arg(name(&operation))
        .arg(name(&CoreRegime::of(regime)));
    command
        .arg(groups.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| refused(format!("valgrind: {error}")))?,
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(collected);
    match count.filter(|_| output.status.success()) {
        Some(count) => Ok(Some(count)),
        None => Err(refused(format!("valgrind did not count: {}", said.trim()))),
    }
}

/// `==1== Collected : 123`
fn collected(line: &str) -> Option<u64> {
    let (_, number) = line.split_once("Collected :")?;
    number.trim().parse().ok()
}

fn name(value: &impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// The shortest of several runs, in nanoseconds for one page.
fn time(operation: Operation, regime: Regime) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let mut core = Core::new(operation, regime)?;
        let begun = Wall::now();
        let pages = core.perform(GROUPS)?;
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        best = best.min(ratio(took, pages));
    }
    Ok(best)
}

#[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
fn ratio(total: u64, parts: u64) -> f64 {
    total as f64 / parts.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_count_is_found_in_what_valgrind_says() {
        assert_eq!(collected("==77== Collected : 4711"), Some(4711));
        assert_eq!(collected("==77== Events    : Ir"), None);
    }
}
