//! `freehold bench`: a mechanism beside its floor, measured alternately in one run.

mod core;
mod sim;

use std::time::Instant;

use freehold_scenario::results::{Align, BenchResult, Quantiles, Ratio, TextTable};
use hdrhistogram::Histogram;
use serde_json::json;

use crate::output;
use crate::progress::Progress;
use crate::status::{Failure, Status};

/// Options of `freehold bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The benchmark
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// List the benchmarks, and run none
    #[arg(long)]
    list: bool,
    /// With --list: names only, one a line
    #[arg(long, requires = "list", conflicts_with = "json")]
    names: bool,
    /// Rounds, floor and ours alternating
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One benchmark.
struct Bench {
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    goal: f64,
    run: fn(&mut Rounds) -> Result<(), Failure>,
}

const BENCHES: [Bench; 2] = [
    Bench {
        name: "core",
        about: "one fact handled by the core, tables in the cache; floor: one dependent load",
        unit: "ns",
        goal: 75.0,
        run: core::run,
    },
    Bench {
        name: "sim",
        about: "one reference simulated; floor: the same references only generated",
        unit: "ns",
        goal: 10.0,
        run: sim::run,
    },
];

/// What is measured, both in nanoseconds for one event.
#[derive(Debug)]
pub(crate) struct Rounds {
    wanted: u32,
    floor: Histogram<u64>,
    ours: Histogram<u64>,
}

/// Thousandths of a nanosecond: an event can take less than one.
const SCALE: u64 = 1_000;

impl Rounds {
    fn new(wanted: u32) -> Result<Self, Failure> {
        let histogram = || {
            Histogram::new_with_bounds(1, 1 << 50, 3)
                .map_err(|error| Failure::Run(format!("cannot make a histogram: {error}")))
        };
        Ok(Self {
            wanted,
            floor: histogram()?,
            ours: histogram()?,
        })
    }

    /// Measures both alternately: in each round each is called `samples` times. A call returns how many events it was;
    /// a sample is the mean of its events.
    ///
    /// # Errors
    /// Those of `floor` and `ours`.
    pub(crate) fn alternate(
        &mut self,
        samples: u32,
        mut floor: impl FnMut() -> Result<u64, Failure>,
        mut ours: impl FnMut() -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        for _ in 0..self.wanted {
            (0..samples).try_for_each(|_| sample(&mut self.floor, &mut floor))?;
            (0..samples).try_for_each(|_| sample(&mut self.ours, &mut ours))?;
        }
        Ok(())
    }
}

fn sample(into: &mut Histogram<u64>, call: &mut impl FnMut() -> Result<u64, Failure>) -> Result<(), Failure> {
    let began = Instant::now();
    let events = call()?;
    let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX / SCALE);
    into.saturating_record((took * SCALE / events.max(1)).max(1));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    let ns = |scaled: u64| (scaled as f64) / (SCALE as f64);
    let at = |quantile| ns(histogram.value_at_quantile(quantile));
    Quantiles {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: ns(histogram.max()),
    }
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.list {
        return list(arguments);
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let known = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| Failure::Input(format!("there is no benchmark `{name}`: there is {}", known())))?;
    let mut rounds = Rounds::new(arguments.rounds)?;
    {
        let _progress = Progress::start(&format!("measuring {name}"), None);
        (bench.run)(&mut rounds)?;
    }
    let (floor_ns, ours_ns) = (quantiles(&rounds.floor), quantiles(&rounds.ours));
    let result = BenchResult {
        bench: bench.name.to_owned(),
        rounds: arguments.rounds.into(),
        floor_ns,
        ours_ns,
        ratio: Ratio::of(&ours_ns, &floor_ns),
        goal: bench.goal,
        unit: bench.unit.to_owned(),
    };
    if arguments.json {
        output::print_json(&result)?;
    } else {
        let rate = format!("{:.2} million per second", 1e3 / ours_ns.p50);
        output::print(&format!("{}{rate}: {}\n", result.to_text(), bench.about))?;
    }
    Ok(Status::Done)
}

fn list(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.json {
        let rows: Vec<_> = BENCHES
            .iter()
            .map(|bench| json!({"bench": bench.name, "about": bench.about}))
            .collect();
        output::print_json(&json!({ "benches": rows }))?;
    } else if arguments.names {
        output::print(
            &BENCHES
                .iter()
                .map(|bench| format!("{}\n", bench.name))
                .collect::<String>(),
        )?;
    } else {
        let mut table = TextTable::new(&[("benchmark", Align::Left), ("what", Align::Left)]);
        BENCHES
            .iter()
            .for_each(|bench| table.row([bench.name.to_owned(), bench.about.to_owned()]));
        output::print(&table.to_string())?;
    }
    Ok(Status::Done)
}
