//! `freehold bench`: a mechanism beside its floor, measured alternately in one run.
//!
//! Criterion measures throughput (`cargo bench -p freehold-core` and others): it looks for the mean of many equal
//! iterations, and compares with an earlier run. What is claimed here is another thing: the ratio of two latencies, at
//! the tail too, on a machine whose speed changes from second to second. So floor and ours are measured in turns,
//! rounds of the one between rounds of the other, each event by itself, and every sample goes into a histogram that
//! keeps the largest.
//!
//! A benchmark reports, it does not judge: a goal that is missed is printed and marked (`holds`), and the exit status
//! is 0.

pub(crate) mod callgrind;
mod core;
mod driven;
mod evict;
mod fill;
mod floor;
mod four;
pub(crate) mod isolation;
pub(crate) mod operations;
mod pairs;
mod pinning;
mod programs;
pub(crate) mod rounds;
pub(crate) mod served;
pub(crate) mod shared;
mod sim;
mod soft;
mod world;

use std::sync::atomic::Ordering;

use freehold_scenario::results::{Align, BenchResult, Judged, Ratio, TextTable};
use serde_json::json;

use freehold_command::engine::Placement;
use freehold_command::output;
use freehold_command::progress::Progress;
use freehold_command::signals;
use freehold_command::status::{Failure, Status};

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

/// Those with the pager in a memory server. Where it says something, what the pager in the faulting thread takes is
/// shown beside it.
const SERVED: &[Bench] = &[
    Bench {
        name: "fault-soft",
        about: "a fault on a resident page that is not mapped, served by the memory server",
        floor: "message mode: a SCHED_FIFO process on the same CPU reads the message, UFFDIO_CONTINUE",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.5,
        run: served::soft::run,
    },
    Bench {
        name: "fault-fill",
        about: "a fault on a page in the memory server's store (in memory, latency 0), a free frame at hand",
        floor: "message mode: UFFDIO_COPY of 4 KiB to a locked frame, UFFDIO_CONTINUE",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.5,
        run: served::fill::run,
    },
    Bench {
        name: "evict-fill",
        about: "steady state at a full reservation of the memory server: each fault evicts a dirty page and fills one; \
                a sample is the mean of the 16 faults of one batch",
        floor: "message mode, the same batches of 16: protect, copy out, drop; UFFDIO_COPY to a locked frame, \
                UFFDIO_CONTINUE",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.5,
        run: served::evict::run,
    },
    Bench {
        name: "isolation",
        about: "the response time of a reserved task of a memory server beside another process under it that faults \
                as fast as it can",
        floor: "the same task alone",
        unit: "ns",
        judged: Judged::RatioP999,
        goal: 1.2,
        run: isolation::server::run,
    },
];

const BENCHES: &[Bench] = &[
    Bench {
        name: "core",
        about: "one fault event handled by the core with all that follows from it, tables in the cache",
        floor: "one dependent load",
        unit: "ns",
        judged: Judged::OursP50,
        goal: 150.0,
        run: core::small,
    },
    Bench {
        name: "core-large",
        about: "one fault event handled by the core, 10^6 pages touched at random",
        floor: "one dependent load over a table as large as the core's",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 6.0,
        run: core::large,
    },
    Bench {
        name: "core-pinning",
        about: "one fault event of over-committed memory beside a pinned page pool that pins and unpins, tables in the \
                cache",
        floor: "the same without the pool: the global lists only",
        unit: "ns",
        judged: Judged::OursP50,
        goal: 200.0,
        run: pinning::run,
    },
    Bench {
        name: "metadata",
        about: "all tables of the core for each mapped page, every frame in use",
        floor: "the paper's page descriptor with its pointer, 56 + 8",
        unit: "bytes",
        judged: Judged::OursP50,
        goal: 32.0,
        run: core::metadata,
    },
    Bench {
        name: "fault-soft",
        about: "a fault on a resident page that is not mapped, through the whole pager",
        floor: "SIGBUS, UFFDIO_CONTINUE, return",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.25,
        run: soft::run,
    },
    Bench {
        name: "fault-soft-four",
        about: "soft faults of three real-time threads and a best-effort one at the same time",
        floor: "the same four threads on the bare mechanism",
        unit: "ns",
        judged: Judged::RatioP999,
        goal: 3.0,
        run: four::run,
    },
    Bench {
        name: "fault-fill",
        about: "a fault on a page in the memory store (latency 0), a free frame at hand",
        floor: "SIGBUS, a locked frame, a copy of 4 KiB, UFFDIO_CONTINUE, return",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.3,
        run: fill::run,
    },
    Bench {
        name: "evict-fill",
        about: "steady state at a full reservation: each fault evicts a dirty page and fills one; a sample is the \
                mean of the 16 faults of one batch",
        floor: "the same in the same batches of 16: zap, copy out, drop; locked frame, copy in, UFFDIO_CONTINUE",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.3,
        run: evict::run,
    },
    Bench {
        name: "map-shared",
        about: "a page that another reservation owns is mapped, with Shared-Page Conservation",
        floor: "the same under `none`",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.05,
        run: shared::map,
    },
    Bench {
        name: "unmap-shared",
        about: "a sharer ends: what each of its pages costs, with Shared-Page Conservation",
        floor: "the same under `none`",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.05,
        run: shared::unmap,
    },
    Bench {
        name: "sim",
        about: "references simulated",
        floor: "the same references only generated",
        unit: "million/s",
        judged: Judged::OursP50AtLeast,
        goal: 5.0,
        run: sim::run,
    },
    Bench {
        name: "isolation",
        about: "the response time of a reserved task beside a sibling that faults as fast as it can",
        floor: "the same task alone",
        unit: "ns",
        judged: Judged::RatioP999,
        goal: 1.2,
        run: isolation::run,
    },
    Bench {
        name: "programs",
        about: "ordinary programs under `freehold exec` with an ample reservation; with half and a quarter of what \
                they use they must do the same too",
        floor: "the same programs as they are",
        unit: "ns",
        judged: Judged::RatioP50,
        goal: 1.15,
        run: programs::run,
    },
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
    let mut results = Vec::new();
    let mut failed = None;
    for bench in &wanted {
        let measured = measure(bench, effort);
        if stop.load(Ordering::Relaxed) {
            failed = Some(Failure::Stopped);
        }
        let result = match measured {
            Ok(result) => result,
            // What was measured is shown all the same.
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        };
        if !arguments.json {
            output::print(&format!("{}what: {}\n\n", result.to_text(), bench.about))?;
        }
        results.push(result);
        if failed.is_some() {
            break;
        }
    }
    if arguments.json {
        match results.as_slice() {
            [result] if name != "all" => output::print_json(result)?,
            results if failed.is_none() => output::print_json(&json!({ "benches": results }))?,
            results => output::print_json(&json!({ "benches": results, "stopped": true }))?,
        }
    }
    match failed {
        Some(failure) if results.len() < wanted.len() => Err(failure),
        _ => Ok(Status::Done),
    }
}

/// The benchmarks of a placement.
fn all(placement: Placement) -> &'static [Bench] {
    match placement {
        Placement::Embedded => BENCHES,
        Placement::Server => SERVED,
    }
}

fn choose(name: &str, placement: Placement) -> Result<Vec<&'static Bench>, Failure> {
    let benches = all(placement);
    if name == "all" {
        return Ok(benches.iter().collect());
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
    let held = bench.judged.judge(&ours_ns, &ratio, bench.goal);
    Ok(BenchResult {
        bench: bench.name.to_owned(),
        rounds: effort.rounds.into(),
        floor_ns,
        ours_ns,
        ratio,
        goal: bench.goal,
        unit: bench.unit.to_owned(),
        holds: held && outcome.rows.iter().all(|row| row.holds),
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
        let rows: Vec<_> = benches.iter().map(row).collect();
        output::print_json(&json!({ "benches": rows }))?;
    } else if arguments.names {
        let name = |bench: &Bench| format!("{}\n", bench.name);
        output::print(&benches.iter().map(name).collect::<String>())?;
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
