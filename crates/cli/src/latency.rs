//! `freehold latency`: how late a real-time thread wakes up, and why.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_latency::load::{self, Load};
use freehold_latency::session;
use freehold_latency::settings::{Interval, Settings, Spaces};
use freehold_linux::{sched, tracefs};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_command::process::own_executable;
use freehold_command::progress::Progress;

use crate::exec::parse_span;

/// The least urgent: the reference thread is one below.
const LEAST: u32 = 2;
/// The most urgent: threads of the kernel's own are above.
const MOST: u32 = 98;
/// The largest histogram, in microseconds.
const MOST_BOUND: u64 = 1_000_000;
/// The longest measurement: a day.
const MOST_SECONDS: u64 = 24 * 60 * 60;

/// Options of `freehold latency`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Priority of the measured thread, SCHED_FIFO, 2 to 98
    #[arg(short = 'p', long, value_name = "PRIORITY", default_value_t = 80)]
    priority: u32,
    /// Microseconds from one wake-up to the next
    #[arg(
        short = 'i',
        long,
        value_name = "US",
        default_value_t = 1000,
        conflicts_with = "random"
    )]
    interval: u64,
    /// Intervals spread over a range instead, such as 2ms..30ms
    #[arg(long, value_name = "FROM..TO")]
    random: Option<String>,
    /// How long each combination of space and load is measured: 10s, or a number of seconds
    #[arg(short = 'D', long, value_name = "TIME", default_value = "10s")]
    duration: String,
    /// The CPU [default: the last that this process may use]
    #[arg(short = 'a', long, value_name = "CPU")]
    affinity: Option<usize>,
    /// Where the load runs: shared (the thread's own process), separate (another), or both
    #[arg(long, value_name = "SPACE", default_value = "both")]
    space: Spaces,
    /// What runs beside: none, spin, flood, kernel, flood+kernel
    #[arg(long, value_name = "LOADS", value_delimiter = ',', default_value = "none,spin,flood")]
    load: Vec<Load>,
    /// Add what the kernel's events show of each wake-up: irq, hrtimer, waking and switch
    #[arg(long)]
    events: bool,
    /// Measure another program in turns: cyclictest (package rt-tests)
    #[arg(long, value_name = "PROGRAM", value_parser = ["cyclictest"])]
    peer: Option<String>,
    /// Where the histogram ends, in microseconds
    #[arg(short = 'h', long, value_name = "US", default_value_t = 400)]
    histogram: u64,
    /// Write the histogram to a file
    #[arg(long, value_name = "FILE")]
    histfile: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print help: -h is the histogram, as it is cyclictest's
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Options of the process of a load.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArguments {
    load: Load,
    cpu: usize,
}

/// Runs a load until the end of standard input.
pub(crate) fn serve_load(arguments: &LoadArguments) -> Result<Status, Failure> {
    load::serve(arguments.load, arguments.cpu).map_err(|error| Failure::Run(error.to_string()))?;
    Ok(Status::Done)
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let settings = arguments.settings()?;
    if let Some(path) = &arguments.histfile {
        check_writable(path).map_err(|error| Failure::Input(format!("--histfile {}: {error}", path.display())))?;
    }
    let itself = own_executable()?;
    let process = |load| load::command(&itself, load, settings.cpu);
    if arguments.events {
        // Where it cannot be had, the report names the levels that are missing.
        let _ = tracefs::mount_for_this_thread();
    }
    let progress = Progress::start("measuring latencies", Some(settings.takes()));
    let report = session::measure(&settings, arguments.events, process);
    drop(progress);
    let report = report.map_err(|error| Failure::Run(error.to_string()))?;
    if let Some(path) = &arguments.histfile {
        let wrong = |error| Failure::Run(format!("{}: cannot be written: {error}", path.display()));
        std::fs::write(path, report.histogram_file(&settings)).map_err(wrong)?;
    }
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.to_string())?;
    }
    Ok(Status::Done)
}

/// Whether a file can be written to, found out before all is measured. Nothing is left of one that is not there yet.
fn check_writable(path: &Path) -> std::io::Result<()> {
    let is_there = path.exists();
    if is_there && !path.is_file() {
        // A device or a pipe; whoever reads that may not be there yet.
        return if path.is_dir() {
            Err(ErrorKind::IsADirectory.into())
        } else {
            Ok(())
        };
    }
    OpenOptions::new().append(true).create(true).open(path)?;
    // A link that led nowhere stays one.
    if is_there {
        Ok(())
    } else {
        std::fs::remove_file(path.canonicalize()?)
    }
}

impl Arguments {
    fn settings(&self) -> Result<Settings, Failure> {
        let wrong = |message: String| Failure::Input(message);
        if !(LEAST..=MOST).contains(&self.priority) {
            return Err(wrong(format!(
                "--priority {}: choose from {LEAST} to {MOST}",
                self.priority
            )));
        }
        if !(1..=MOST_BOUND).contains(&self.histogram) {
            return Err(wrong(format!(
                "--histogram {}: choose from 1 to {MOST_BOUND}",
                self.histogram
            )));
        }
        if self.peer.is_some() && self.random.is_some() {
            return Err(wrong(
                "--random, --peer: cyclictest has one interval only; leave one out".to_owned(),
            ));
        }
        Ok(Settings {
            priority: self.priority,
            interval: self.interval()?,
            duration: self.duration()?,
            cpu: self.cpu()?,
            spaces: self.space.0.clone(),
            loads: self.load.clone(),
            peer: self.peer.is_some(),
            bound: self.histogram,
        })
    }

    fn interval(&self) -> Result<Interval, Failure> {
        let Some(range) = &self.random else {
            let fixed = Interval::fixed(Duration::from_micros(self.interval));
            return fixed.map_err(|error| Failure::Input(format!("--interval {}: {error}", self.interval)));
        };
        let wrong = |error: String| Failure::Input(format!("--random {range}: {error}"));
        let (from, to) = range
            .split_once("..")
            .ok_or_else(|| wrong("write two times, such as 2ms..30ms".to_owned()))?;
        let (from, to) = (parse_span(from).map_err(wrong)?, parse_span(to).map_err(wrong)?);
        Interval::between(from, to).map_err(|error| wrong(error.to_string()))
    }

    fn duration(&self) -> Result<Duration, Failure> {
        let text = &self.duration;
        let wrong = |error: String| Failure::Input(format!("--duration {text}: {error}"));
        let span = match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => parse_span(text).map_err(wrong)?,
        };
        let fits = !span.is_zero() && span <= Duration::from_secs(MOST_SECONDS);
        fits.then_some(span)
            .ok_or_else(|| wrong("choose more than nothing and at most a day".to_owned()))
    }

    fn cpu(&self) -> Result<usize, Failure> {
        let allowed = sched::allowed_cpus().map_err(|error| Failure::Run(error.to_string()))?;
        let last = allowed.last().copied().unwrap_or(0);
        let cpu = self.affinity.unwrap_or(last);
        let known = allowed.contains(&cpu).then_some(cpu);
        known.ok_or_else(|| Failure::Input(format!("--affinity {cpu}: this process may use CPUs {allowed:?}")))
    }
}
