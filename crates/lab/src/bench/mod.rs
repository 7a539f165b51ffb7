//! `freehold bench`: a mechanism beside its floor, measured alternately in one run.
//!
//! Criterion measures throughput (`cargo bench -p freehold-core` and others): it looks for the mean of many equal
//! iterations, and compares with an earlier run. What is claimed here is another thing: the ratio of two latencies, at
//! the tail too, on a machine whose speed changes from second to second. So floor and ours are measured in turns,
//! rounds of the one between rounds of the other, each event by itself, and every sample goes into a histogram that
//! keeps the largest.
//!
//! A benchmark reports, it does not judge: a goal that is missed is printed and marked (`verdict`), and the exit status
//! is 0.

pub(crate) mod callgrind;
mod core;
mod driven;
mod ecache;
mod evict;
mod fill;
mod floor;
mod four;
pub(crate) mod isolation;
pub(crate) mod mounted;
mod named_program;
pub(crate) mod operations;
mod pairs;
mod pinning;
mod programs;
pub(crate) mod rounds;
mod rtl;
pub(crate) mod served;
pub(crate) mod shared;
mod sim;
mod soft;
pub(crate) mod tmem;
mod world;

use freehold_scenario::results::{Align, BenchResult, Judged, Ratio, TextTable, Verdict};
use serde_json::json;

use freehold_command::engine::Placement;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_command::progress::Progress;
use freehold_command::signals;

use crate::series::Series;
use rounds::{Effort, Found};

/// Options of `freehold bench`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The benchmark, or `all`
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
    /// Where the pager is; with `server`, `all` are the benchmarks that have such a side
    #[arg(long, value_enum, default_value_t = Placement::Embedded)]
    placement: Placement,
    /// Few samples in each round: shows that it works, and says little
    #[arg(long)]
    quick: bool,
    /// Print one JSON document; for several benchmarks {"benches": [..]}
    #[arg(long)]
    json: bool,
}

/// One benchmark.
struct Bench {
    name: &'static str,
    about: &'static str,
    floor: &'static str,
    unit: &'static str,
    judged: Judged,
    goal: f64,
    run: fn(Effort) -> Result<Found, Failure>,
}

/// The benchmarks with the pager in the process, or without one. A new one is a module above and a line here.
const EMBEDDED: &[&Bench] = &[
    &core::SMALL,
    &core::LARGE,
    &pinning::BENCH,
    &core::METADATA,
    &soft::BENCH,
    &four::BENCH,
    &fill::BENCH,
    &evict::BENCH,
    &shared::MAP,
    &shared::UNMAP,
    &sim::BENCH,
    &isolation::BENCH,
    &programs::BENCH,
    &ecache::PUT,
    &ecache::GET,
    &ecache::CHOOSE,
    &ecache::TRUSTED,
    &ecache::ZEROED,
    &ecache::REPLAY,
    &mounted::READ,
    &mounted::SEQUENTIAL,
    &mounted::EXEC,
    &rtl::PUT,
    &rtl::GET,
    &rtl::STREAM,
    &rtl::MEMORY,
    &tmem::PAIR,
    &tmem::MAP,
    &tmem::CONTENDED,
    &tmem::TAKE,
    &tmem::SHARED,
    &tmem::SEPARATE,
    &tmem::CHAIN,
    &tmem::PASSING,
];

/// Those with the pager in a memory server. Where it says something, what the pager in the faulting thread takes is
/// shown beside it.
const SERVED: &[&Bench] = &[
    &served::soft::BENCH,
    &served::fill::BENCH,
    &served::evict::BENCH,
    &isolation::server::BENCH,
];

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.list {
        return list(arguments);
    }
    let name = arguments.name.as_deref().unwrap_or_default();
    let wanted = choose(name, arguments.placement)?;
    let effort = Effort {
        rounds: arguments.rounds,
        quick: arguments.quick,
    };
    // A benchmark that does not look for a stop ends first.
    let stop = signals::catch()?;
    let mut series = Series::new(("benchmarks", "benches"), wanted.len(), &stop);
    for bench in &wanted {
        let measured = measure(bench, effort);
        if let Ok(result) = measured.as_ref()
            && !arguments.json
        {
            output::print(&format!("{}what: {}\n\n", result.to_text(), bench.about))?;
        }
        if !series.take(bench.name, measured) {
            break;
        }
    }
    if arguments.json {
        series.print_json()?;
    }
    series.end().map(|_| Status::Done)
}

/// The benchmarks of a placement.
fn all(placement: Placement) -> &'static [&'static Bench] {
    match placement {
        Placement::Embedded => EMBEDDED,
        Placement::Server => SERVED,
    }
}

fn choose(name: &str, placement: Placement) -> Result<Vec<&'static Bench>, Failure> {
    let benches = all(placement);
    if name == "all" {
        return Ok(benches.to_vec());
    }
    let known = || benches.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
    let bench = benches.iter().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| {
        Failure::Input(format!(
            "there is no benchmark `{name}` with the placement {placement}: there is {}, all",
            known()
        ))
    });
    Ok(vec![bench?])
}

fn measure(bench: &Bench, effort: Effort) -> Result<BenchResult, Failure> {
    let _progress = Progress::start(&format!("measuring {}", bench.name), None);
    let mut outcome = (bench.run)(effort)?;
    outcome.row("ratio of means", outcome.ours.mean() / outcome.floor.mean(), "");
    let (floor_ns, ours_ns) = (outcome.floor.quantiles(), outcome.ours.quantiles());
    let ratio = Ratio::of(&ours_ns, &floor_ns);
    let own = Verdict::of(bench.judged.judge(&ours_ns, &ratio, bench.goal));
    let verdict = outcome.rows.iter().map(|row| row.verdict).fold(own, Verdict::max);
    Ok(BenchResult {
        bench: bench.name.to_owned(),
        rounds: effort.rounds.into(),
        floor_ns,
        ours_ns,
        ratio,
        goal: bench.goal,
        unit: bench.unit.to_owned(),
        holds: verdict == Verdict::Held,
        verdict,
        judged: bench.judged,
        floor: bench.floor.to_owned(),
        sides: outcome.sides,
        rows: outcome.rows,
        notes: outcome.notes,
    })
}

fn list(arguments: &Arguments) -> Result<Status, Failure> {
    let benches = all(arguments.placement);
    if arguments.json {
        let row = |bench: &Bench| json!({"bench": bench.name, "about": bench.about, "floor": bench.floor});
        let rows: Vec<_> = benches.iter().copied().map(row).collect();
        output::print_json(&json!({ "benches": rows }))?;
    } else if arguments.names {
        let name = |bench: &Bench| format!("{}\n", bench.name);
        output::print(&benches.iter().copied().map(name).collect::<String>())?;
    } else {
        let left = Align::Left;
        let mut table = TextTable::new(&[("benchmark", left), ("what", left), ("floor", left)]);
        benches
            .iter()
            .for_each(|bench| table.row([bench.name, bench.about, bench.floor].map(str::to_owned)));
        output::print(&table.to_string())?;
    }
    Ok(Status::Done)
}
