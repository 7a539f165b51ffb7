//! What a recording costs a run: the same scenario recorded and not, in turn, and the core's lock as samples hold it.
//!
//! `cargo run --release -p freehold-live --example recording_cost FILE.toml [ROUNDS]`
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use freehold_live::{Options, Outcome, run_with};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{Capacity, Recording};

fn percentiles(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len().saturating_sub(1) * part / 1000)
            .copied()
            .unwrap_or(0)
    };
    let (p50, p99, max) = (at(500), at(990), at(1000));
    println!(
        "  {what:28} {:7} of them, p50 {p50:6}  p99 {p99:6}  max {max:8} ns",
        times.len()
    );
}

fn show(outcome: &Outcome) {
    for task in &outcome.result.tasks {
        let faults = task.faults.soft_faults + task.faults.zero_fills + task.faults.swap_ins + task.write_faults;
        println!(
            "  {:28} {faults:7} faults, {:5} ns service each; response p50 {} max {} ns; {} of {} jobs late",
            task.name,
            task.times.fault_service_ns / faults.max(1),
            task.response_ns.p50,
            task.response_ns.max,
            task.misses,
            task.jobs
        );
    }
}

fn show_recording(recording: &Recording) {
    let held = |task: bool| {
        let holds = recording.lock_holds.iter().filter(|hold| hold.task.is_some() == task);
        holds.map(|hold| hold.to_ns - hold.from_ns).collect()
    };
    percentiles("held for samples", held(false));
    percentiles("held by tasks, where recorded", held(true));
    let spans: usize = recording.tasks.iter().map(|task| task.spans.len()).sum();
    let faults: usize = recording.tasks.iter().map(|task| task.faults.len()).sum();
    println!(
        "  {faults} faults, {spans} spans, {} evictions, {} transfers, {} samples; {} lost",
        recording.evictions.len(),
        recording.transfers.len(),
        recording.samples.len(),
        recording.lost
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = arguments.first().expect("a scenario file");
    let rounds = arguments.get(1).map_or(3, |rounds| rounds.parse().unwrap());
    let scenario = Scenario::load::<String>(Path::new(file), &[]).unwrap();
    for _ in 0..rounds {
        for recording in [None, Some(Capacity::default())] {
            println!(
                "{}",
                if recording.is_some() {
                    "recorded"
                } else {
                    "not recorded"
                }
            );
            let outcome = run_with(&scenario, &Options { recording }, &AtomicBool::new(false)).unwrap();
            show(&outcome);
            if let Some(recording) = &outcome.recording {
                show_recording(recording);
            }
        }
    }
}
