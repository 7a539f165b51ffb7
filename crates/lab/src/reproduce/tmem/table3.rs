//! Table III: what operations cost, in cycles, beside an allocator, a pool behind a mutex, and iceoryx2.

use freehold_scenario::results::ReproduceRow;

use crate::bench::rounds::Effort;
use crate::bench::tmem::{Operation, operations};
use crate::reproduce::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::exit_status::Failure;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "tmem-table3",
    about: "cycles of taking, releasing and finding buffers and of calls, beside malloc, a pool behind a mutex, and \
            iceoryx2 where FREEHOLD_ICEORYX2 names its program",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

/// The paper's cycles on its i7.
const fn paper(operation: Operation) -> Option<u64> {
    match operation {
        Operation::Pair => Some(245 + 317),
        Operation::Find => Some(304),
        Operation::Contended => Some(7605),
        Operation::Call => Some(860),
        Operation::Mutex | Operation::Malloc | Operation::Iceoryx2 => None,
    }
}

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let effort = Effort {
        rounds: 5,
        quick: false,
    };
    let megahertz = megahertz()?;
    let measured = operations(effort)?;
    let cycles = |nanos: f64| {
        let picoseconds = whole(nanos * 1000.0);
        picoseconds * megahertz / 1_000_000
    };
    let of = |wanted| {
        measured
            .iter()
            .find(|(operation, _)| *operation == wanted)
            .map(|(_, nanos)| cycles(*nanos))
    };
    let mut rows: Vec<ReproduceRow> = measured
        .iter()
        .map(|(operation, nanos)| {
            let shown = Some(cycles(*nanos));
            row(operation.name(), "cycles", paper(*operation), shown, Claim::Shown)
        })
        .collect();
    let mutex = of(Operation::Mutex).unwrap_or(0);
    let what = "a buffer taken and released: less than from a pool behind a mutex";
    rows.push(row(what, "cycles", None, of(Operation::Pair), Claim::AtMost(mutex)));
    if let Some(others) = of(Operation::Iceoryx2) {
        let pair = of(Operation::Pair)
            .zip(of(Operation::Find))
            .map(|(pair, find)| pair + find);
        let what = "a buffer taken, found and released: less than by iceoryx2";
        rows.push(row(what, "cycles", None, pair, Claim::AtMost(others)));
    }
    Ok(rows)
}

fn whole(number: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some seconds in picoseconds at most, and not negative"
    )]
    let whole = number as u64;
    whole
}

/// As the kernel tells it: cycles are of this clock.
fn megahertz() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| Failure::Run(error.to_string()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu MHz"));
    let number = line.and_then(|line| line.trim_start_matches([' ', '\t', ':']).parse::<f64>().ok());
    number
        .map(whole)
        .ok_or_else(|| Failure::Run("the kernel does not tell the CPU's clock".to_owned()))
}
