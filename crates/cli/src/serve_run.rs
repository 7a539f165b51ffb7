//! `freehold serve-run`: the memory server of one run (`freehold run --placement server`). It is `freehold serve` with
//! tables for the scenario, for this user alone, and ends when its standard input does, with the run.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_core::ReadAhead;
use freehold_core::units::{FrameCount, PageCount};
use freehold_linux::folder::{self, StaleFolder};
use freehold_scenario::recording::Capacity;
use freehold_scenario::{Class, Scenario, plan};
use freehold_server::log::{self, Format};
use freehold_server::serve::{self, Options};
use freehold_server::{Backing, Limits, Quotas, RecordingRoom, Settings};

use crate::serve::read_ahead;
use crate::status::{Failure, Status};

/// The priority of pager threads beside tasks without a fixed priority.
const PRIORITY: u32 = 60;
/// The highest there is.
const HIGHEST: u32 = 99;
/// Faults recorded of all tasks together.
const MOST_FAULTS: usize = 400_000;

/// Options of `freehold serve-run`, made by [`arguments`].
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Frames of the pool
    #[arg(long)]
    frames: u32,
    /// Pages of all regions
    #[arg(long)]
    pages: u32,
    /// Pages under `none`
    #[arg(long)]
    compared_pages: u32,
    /// Locked pages that others pay
    #[arg(long)]
    shared_locks: u32,
    /// Priority of the pager threads
    #[arg(long)]
    priority: u32,
    /// `memory`, `compressed` or `file`
    #[arg(long)]
    store: String,
    /// Of `memory`: nanoseconds of a transfer
    #[arg(long)]
    latency: u64,
    /// Of `memory` and `file`: transfers at a time
    #[arg(long)]
    parallel: u16,
    /// Pages that tasks without a reservation read back together
    #[arg(long, value_parser = read_ahead, default_value = "1")]
    read_ahead: ReadAhead,
    /// Of `compressed`: bytes it may take, 0 for as many as it needs
    #[arg(long)]
    capacity: u64,
    /// Of `file`: its directory
    #[arg(long)]
    directory: PathBuf,
    /// The run sets its pace
    #[arg(long)]
    paced: bool,
    /// Record what happens: so many faults at most, 0 for nothing
    #[arg(long, default_value_t = 0)]
    record_faults: usize,
    /// So many evictions, transfers and holds of the engine, each
    #[arg(long, default_value_t = 0)]
    record_others: usize,
    /// So many samples
    #[arg(long, default_value_t = 0)]
    record_samples: usize,
    /// Nanoseconds between two samples
    #[arg(long, default_value_t = 0)]
    record_step: u64,
    /// Where to listen
    socket: PathBuf,
}

/// The subcommand's arguments for a scenario, but for the socket.
pub(crate) fn arguments(scenario: &Scenario) -> Vec<OsString> {
    let limits = plan::limits(scenario);
    let store = &scenario.store;
    let capacity = store.capacity.map_or(0, |pages| pages.to_bytes().get());
    let numbers = [
        ("--frames", u64::from(limits.frames.get())),
        ("--pages", u64::from(limits.pages.get())),
        ("--compared-pages", u64::from(limits.compared_pages.get())),
        ("--shared-locks", u64::from(limits.shared_locks.get())),
        ("--priority", u64::from(priority(scenario))),
        ("--latency", store.latency.get()),
        ("--parallel", u64::from(store.parallel)),
        ("--read-ahead", u64::from(store.read_ahead.pages())),
        ("--capacity", capacity),
    ];
    let mut arguments = words(&numbers);
    arguments.push(format!("--store={}", store.kind.name()).into());
    arguments.extend(["--directory".into(), store.directory.clone().into_os_string()]);
    arguments
}

/// The same for a server whose pace the run sets.
pub(crate) fn paced(scenario: &Scenario) -> Vec<OsString> {
    let mut arguments = arguments(scenario);
    arguments.push("--paced".into());
    arguments
}

/// The same for a server that records the run.
pub(crate) fn recorded(scenario: &Scenario, capacity: &Capacity) -> Vec<OsString> {
    let faults = capacity.per_task_faults.saturating_mul(scenario.tasks.len());
    let others = capacity.evictions.max(capacity.transfers).max(capacity.lock_holds);
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut arguments = arguments(scenario);
    arguments.extend(options(&[
        ("--record-faults", number(faults.min(MOST_FAULTS))),
        ("--record-others", number(others)),
        ("--record-samples", number(capacity.samples)),
        ("--record-step", capacity.sample_step_ns(scenario.duration.get())),
    ]));
    arguments
}

/// The same for a server with so many frames and pages, and a store in memory without latency.
pub(crate) fn plain(frames: u32, pages: u32) -> Vec<OsString> {
    let mut arguments = words(&[
        ("--frames", frames.into()),
        ("--pages", pages.into()),
        ("--compared-pages", 0),
        ("--shared-locks", 0),
        ("--priority", PRIORITY.into()),
        ("--latency", 0),
        ("--parallel", 1),
        ("--capacity", 0),
    ]);
    arguments.extend(["--store=memory".into(), "--directory=.".into()]);
    arguments
}

fn words(numbers: &[(&str, u64)]) -> Vec<OsString> {
    std::iter::once("serve-run".into()).chain(options(numbers)).collect()
}

fn options(numbers: &[(&str, u64)]) -> impl Iterator<Item = OsString> {
    numbers.iter().map(|(name, number)| format!("{name}={number}").into())
}

/// Above every fixed priority of the run, as far as there is room: a fault is not to wait behind a task.
fn priority(scenario: &Scenario) -> u32 {
    let fixed = scenario.tasks.iter().filter_map(|task| match task.class {
        Class::Fifo { priority } => Some(u32::from(priority)),
        Class::Deadline | Class::BestEffort => None,
    });
    fixed.max().map_or(PRIORITY, |most| (most + 1).clamp(PRIORITY, HIGHEST))
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    log::start(Format::Text, log::Level::ERROR).map_err(|error| Failure::Run(format!("cannot log: {error}")))?;
    let settings = settings(arguments)?;
    let own = rustix::process::geteuid().as_raw();
    let defaults = Limits::default();
    let limits = Limits {
        user_pages: u64::from(settings.pages.get()),
        // Who sets the pace asks at every step.
        requests_per_second: if arguments.paced {
            u32::MAX
        } else {
            defaults.requests_per_second
        },
        requests_at_once: if arguments.paced {
            u32::MAX
        } else {
            defaults.requests_at_once
        },
        ..defaults
    };
    let options = Options {
        settings,
        quotas: Quotas::new(own, FrameCount::ZERO),
        limits,
        socket: arguments.socket.clone(),
        mode: 0o600,
        metrics: None,
    };
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let stop = input.map_err(|error| Failure::Run(format!("no standard input: {error}")))?;
    let served = serve::serve(&options, &stop);
    remove_what_a_killed_run_left(&arguments.socket);
    match served {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::Run(error.to_string())),
    }
}

/// The directory is the run's, which removes it; but it may have been killed.
fn remove_what_a_killed_run_left(socket: &Path) {
    let Some(directory) = socket.parent() else { return };
    let names = directory.parent().zip(directory.file_name());
    if let Some((parent, name)) = names {
        let left = folder::left_behind(parent, &name.to_string_lossy());
        left.into_iter().for_each(StaleFolder::remove);
    }
}

fn recording(arguments: &Arguments) -> Option<RecordingRoom> {
    let others = arguments.record_others;
    let room = RecordingRoom {
        faults: arguments.record_faults,
        evictions: others,
        transfers: others,
        holds: others,
        samples: arguments.record_samples,
        sample_step: Duration::from_nanos(arguments.record_step),
    };
    (room.faults > 0).then_some(room)
}

fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let mut settings = Settings::new(FrameCount::new(arguments.frames));
    settings.pages = PageCount::new(arguments.pages.max(1));
    settings.compared_pages = PageCount::new(arguments.compared_pages);
    settings.shared_locks = PageCount::new(arguments.shared_locks);
    settings.priority = arguments.priority;
    settings.paced = arguments.paced;
    settings.recording = recording(arguments);
    settings.read_ahead = arguments.read_ahead;
    settings.store = match arguments.store.as_str() {
        "memory" => Backing::Memory {
            latency: Duration::from_nanos(arguments.latency),
            parallel: arguments.parallel,
        },
        "compressed" => Backing::Compressed {
            bytes: arguments.capacity,
        },
        "file" => Backing::File {
            directory: arguments.directory.clone(),
            parallel: arguments.parallel,
        },
        other => return Err(Failure::Input(format!("there is no store {other:?}"))),
    };
    Ok(settings)
}
