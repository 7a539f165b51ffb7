//! `app-live`: the real programs of paper 001 beside GraphChi, their pages in the pool of a memory server, and for
//! comparison under the kernel's own swap.

mod hog;
mod jobs;
mod kernel;
mod measurement;
mod process;
mod rows;
mod workload;
mod workload_files;

use std::time::Duration;

use clap::ValueEnum;
use freehold_core::ReadAhead;
use freehold_scenario::results::ReproduceRow;
use freehold_scenario::{parse_size, parse_time};

use super::Laboratory;
use super::{Experiment, Kind};
use freehold_command::exit_status::Failure;
use freehold_command::output;
use freehold_command::private_server::PrivateServer;
use measurement::{Place, Setting, Trial, count_lines};
use workload::Program;
use workload_files::WorkloadFiles;

/// How often everything runs, unless it is said.
const SEEDS: u32 = 3;
/// How long a run is measured, unless it is said.
const DURATION: Duration = Duration::from_secs(30);

/// Options of `app-live`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Of app-live: the programs that run, each by itself beside GraphChi
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "ranger,opencv,mplayer"
    )]
    programs: Vec<Program>,
    /// Of app-live: in which ways each runs, as in none,all,app+steady+restore [default: in all of them]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_way)]
    policies: Vec<&'static str>,
    /// Of app-live: the memory that programs and GraphChi share
    #[arg(long, value_name = "SIZE", default_value = "300MiB", value_parser = parse_bytes)]
    memory: u64,
    /// Of app-live: where the server puts evicted pages: memory that takes TIME for a page, or a file on the disk
    #[arg(long, value_name = "TIME|file", default_value = "4us", value_parser = parse_store)]
    store: Store,
    /// Of app-live: pages that the server reads back together, a power of two up to 64 (Linux: 8)
    #[arg(long, value_name = "PAGES", default_value = "1", value_parser = freehold_command::options::read_ahead)]
    read_ahead: ReadAhead,
    /// Of app-live: run the programs without a server too
    #[arg(long, value_enum)]
    baseline: Option<Baseline>,
    /// Of app-live: the graph has two to the power of this many vertices
    #[arg(long, value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u32).range(10..=24))]
    scale: u32,
}

/// The name of a way to run a program.
fn parse_way(text: &str) -> Result<&'static str, String> {
    let served = || RUNS.iter().filter(|(_, run)| !matches!(run, Run::Kernel { .. }));
    let way = |name: &str| name.replace(", ", "+").replace(" and ", "+");
    let found = served().find(|(name, _)| way(name) == text).map(|(name, _)| *name);
    found.ok_or_else(|| {
        let ways: Vec<String> = served().map(|(name, _)| way(name)).collect();
        format!("not one of {}", ways.join(", "))
    })
}

/// What the server is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Baseline {
    /// The kernel's own swap in a memory cgroup, with and without read-ahead, and with mlockall
    Kernel,
}

/// Where evicted pages go.
#[derive(Clone, Debug)]
enum Store {
    Memory(Duration),
    File,
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map(|size| size.get())
}

fn parse_store(text: &str) -> Result<Store, String> {
    if text == "file" {
        return Ok(Store::File);
    }
    let time = parse_time(text).map_err(|why| format!("neither `file` nor a time: {why}"))?;
    Ok(Store::Memory(Duration::from_nanos(time.get())))
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// By itself, without limits.
    Alone,
    /// Under a memory server, with these options of `freehold exec`.
    Served(&'static [&'static str]),
    /// Under the kernel's swap.
    Kernel { read_ahead: bool, lock_all: bool },
}

const NONE: &str = "none";
const ALL: &str = "all";
const APP: &str = "app";
const APP_NO_BUDGET: &str = "app-no-budget";
const LISTING: &str = "app, listing";
const STEADY: &str = "app, steady";
const RESTORE: &str = "app and restore";
const STEADY_RESTORE: &str = "app, steady and restore";

const RUNS: [(&str, Run); 12] = [
    ("alone", Run::Alone),
    (NONE, Run::Served(&[])),
    (ALL, Run::Served(&["--adaptive", "--pinning", "all"])),
    (APP, Run::Served(&["--adaptive", "--preset", "paper"])),
    (
        APP_NO_BUDGET,
        Run::Served(&["--adaptive", "--preset", "paper", "--pinning", "app-no-budget"]),
    ),
    (
        LISTING,
        Run::Served(&["--adaptive", "--preset", "paper", "--unpinned", "listing"]),
    ),
    (STEADY, Run::Served(&["--adaptive", "--preset", "paper", "--steady"])),
    (
        RESTORE,
        Run::Served(&["--adaptive", "--preset", "paper", "--restore", "2000"]),
    ),
    (
        STEADY_RESTORE,
        Run::Served(&["--adaptive", "--preset", "paper", "--steady", "--restore", "2000"]),
    ),
    ("kernel", KERNEL),
    (
        "kernel without read-ahead",
        Run::Kernel {
            read_ahead: false,
            lock_all: false,
        },
    ),
    (
        "kernel, mlockall",
        Run::Kernel {
            read_ahead: true,
            lock_all: true,
        },
    ),
];

const KERNEL: Run = Run::Kernel {
    read_ahead: true,
    lock_all: false,
};

/// One program in one way, once for each seed.
struct Series {
    name: &'static str,
    run: Run,
    trials: Vec<Trial>,
}

/// GraphChi by itself, seconds for an iteration with each seed.
#[derive(Default)]
struct HogAlone {
    served: Vec<f64>,
    kernel: Vec<f64>,
}

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "app-live",
    about: "Ranger, OpenCV and MPlayer beside GraphChi under a memory server: misses, and what each policy costs",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let bench = Bench::open(laboratory)?;
    let mut alone = HogAlone::default();
    let baseline = bench.options.baseline.is_some();
    let chosen = &bench.options.policies;
    let runs = RUNS.into_iter().filter(|(name, run)| match run {
        Run::Kernel { .. } => baseline,
        _ => chosen.is_empty() || chosen.contains(name),
    });
    let new = |(name, run)| Series {
        name,
        run,
        trials: Vec::new(),
    };
    let programs = bench.options.programs.iter();
    let mut all: Vec<(Program, Vec<Series>, Vec<bool>)> = programs
        .map(|program| (*program, runs.clone().map(new).collect(), Vec::new()))
        .collect();
    for seed in 1..=laboratory.seeds(SEEDS) {
        let hog = bench.trial(None, Run::Served(&[]), "alone", seed)?;
        alone.served.push(hog.iteration.unwrap_or(f64::NAN));
        if baseline {
            let hog = bench.trial(None, KERNEL, "alone under the kernel", seed)?;
            alone.kernel.push(hog.iteration.unwrap_or(f64::NAN));
        }
        for (program, series, equal) in &mut all {
            for one in series.iter_mut() {
                one.trials.push(bench.trial(Some(*program), one.run, one.name, seed)?);
            }
            equal.extend(bench.compare(*program, series, seed)?);
        }
    }
    let rows = all
        .iter()
        .flat_map(|(program, series, equal)| rows::of(*program, series, equal, &alone));
    Ok(rows.collect())
}

/// What every run needs.
struct Bench<'a> {
    laboratory: &'a Laboratory,
    options: &'a Options,
    files: WorkloadFiles,
    duration: Duration,
}

impl<'a> Bench<'a> {
    fn open(laboratory: &'a Laboratory) -> Result<Self, Failure> {
        let options = laboratory.live();
        let duration = laboratory.duration().map(|text| {
            let time = parse_time(text).map_err(|why| Failure::Input(format!("--duration: {why}")))?;
            Ok::<_, Failure>(Duration::from_nanos(time.get()))
        });
        let jars = workload::require(&options.programs)?;
        if options.baseline.is_some() {
            kernel::try_out()?;
        }
        Ok(Self {
            laboratory,
            options,
            files: WorkloadFiles::open(laboratory.clips(), &jars, &options.programs, options.scale)?,
            duration: duration.transpose()?.unwrap_or(DURATION),
        })
    }

    /// Runs a program and GraphChi, or GraphChi alone.
    fn trial(&self, program: Option<Program>, run: Run, name: &str, seed: u32) -> Result<Trial, Failure> {
        let stop = self.laboratory.session().stop();
        let start = |place, policy, lock_all, hog| {
            let setting = Setting {
                place,
                policy,
                lock_all,
                hog,
                seed,
            };
            measurement::run(&self.files, program, &setting, self.duration, stop)
        };
        let trial = match run {
            Run::Alone => start(Place::Kernel(None), &[], false, false)?,
            Run::Served(policy) => {
                let server = PrivateServer::start_with("--memory", self.options.memory, &self.store(), stop)?;
                start(Place::Server(&server), policy, false, true)?
            }
            Run::Kernel { read_ahead, lock_all } => {
                let limited = kernel::limited(self.options.memory)?;
                let _switched_off = (!read_ahead).then(kernel::NoReadAhead::new).transpose()?;
                // The kernel kills who does not fit: that is a result, and the numbers are missing.
                start(Place::Kernel(Some(&limited)), &[], lock_all, true).or_else(|failure| match failure {
                    Failure::Run(why) => {
                        output::note(&format!("freehold: {why}"));
                        Ok(Trial::default())
                    }
                    other => Err(other),
                })?
            }
        };
        let program = program.map_or("GraphChi", Program::name);
        output::note(&format!(
            "freehold: seed {seed}, {program}, {name}: {}",
            trial.in_words()
        ));
        Ok(trial)
    }

    fn store(&self) -> Vec<String> {
        let words = match &self.options.store {
            Store::Memory(latency) => ["--store-latency".to_owned(), format!("{}ns", latency.as_nanos())],
            Store::File => ["--store".to_owned(), "file".to_owned()],
        };
        let read_ahead = ["--read-ahead".to_owned(), self.options.read_ahead.pages().to_string()];
        words.into_iter().chain(read_ahead).collect()
    }

    /// Whether each run with this seed has written what a native one writes.
    fn compare(&self, program: Program, series: &[Series], seed: u32) -> Result<Vec<bool>, Failure> {
        let written: Vec<&[u8]> = series
            .iter()
            .filter_map(|one| one.trials.last())
            .map(|trial| trial.output.as_slice())
            .collect();
        let most = written.iter().map(|output| count_lines(output)).max().unwrap_or(0);
        let stop = self.laboratory.session().stop();
        let native = measurement::native(&self.files, program, most, seed, stop)?;
        Ok(written.iter().map(|output| native.starts_with(output)).collect())
    }
}

impl Trial {
    fn in_words(&self) -> String {
        let mut text = String::new();
        if let Some(jobs) = &self.jobs {
            text = format!(
                "{} jobs, {} late, response p50 {:.2} ms, p99 {:.2} ms, ran {:.2} ms",
                jobs.count, jobs.late, jobs.p50, jobs.p99, jobs.cpu
            );
            if let Some(swap_ins) = jobs.swap_ins {
                text.push_str(&format!(", {swap_ins} swap-ins"));
            }
            if let (Some(pinned), Some(budget)) = (jobs.pinned, jobs.swap_budget) {
                text.push_str(&format!(", {pinned:.0} pages pinned, swap budget {budget:.2} ms"));
            }
            if let Some(restored) = jobs.restored.filter(|restored| *restored > 0) {
                text.push_str(&format!(", {restored} brought back before releases"));
            }
            if jobs.lost_records > 0 {
                text.push_str(&format!(
                    ", {} records were lost, and jobs with them",
                    jobs.lost_records
                ));
            }
            text.push_str("; ");
        }
        let iteration = self
            .iteration
            .map(|seconds| format!("GraphChi: {seconds:.2} s for an iteration"));
        text + &iteration.unwrap_or_else(|| "no iteration of GraphChi".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_with_a_server_has_a_name_without_blanks_and_no_other_is_known() {
        for name in ["alone", NONE, ALL, APP, APP_NO_BUDGET] {
            assert_eq!(parse_way(name), Ok(name));
        }
        assert_eq!(parse_way("app+listing"), Ok(LISTING));
        assert_eq!(parse_way("app+restore"), Ok(RESTORE));
        assert_eq!(parse_way("app+steady+restore"), Ok(STEADY_RESTORE));
        assert!(parse_way("kernel").unwrap_err().contains("app+steady+restore"));
    }
}
