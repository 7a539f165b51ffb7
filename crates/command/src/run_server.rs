//! How the memory server of one run is started: the words of `freehold serve-run`.

use std::ffi::OsString;

use freehold_live::Launch;
use freehold_scenario::recording::Capacity;
use freehold_scenario::{Class, Scenario, ScenarioDevice, plan};

use crate::process::own_executable;
use crate::status::Failure;

/// The priority of pager threads beside tasks without a fixed priority.
const PRIORITY: u32 = 60;
/// The highest there is.
const HIGHEST: u32 = 99;
/// Faults recorded of all tasks together.
const MOST_FAULTS: usize = 400_000;

/// How a server with these arguments is started.
///
/// # Errors
/// This program's own file is not known.
pub fn launch(arguments: Vec<OsString>) -> Result<Launch, Failure> {
    own_executable().map(|program| Launch { program, arguments })
}

/// The subcommand's arguments for a scenario, but for the socket.
pub fn arguments(scenario: &Scenario) -> Vec<OsString> {
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
    arguments.extend(scenario.devices.iter().map(device));
    arguments
}

/// A device, as `serve-run` takes it: in the scenario's order.
fn device(device: &ScenarioDevice) -> OsString {
    let trusted = if device.trusted { ",trusted" } else { "" };
    format!("--device={}{trusted}", device.size.get()).into()
}

/// The same for a server whose pace the run sets.
pub fn paced(scenario: &Scenario) -> Vec<OsString> {
    let mut arguments = arguments(scenario);
    arguments.push("--paced".into());
    arguments
}

/// The same for a server that records the run.
pub fn recorded(scenario: &Scenario, capacity: &Capacity) -> Vec<OsString> {
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
pub fn plain(frames: u32, pages: u32) -> Vec<OsString> {
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
