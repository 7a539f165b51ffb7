//! The recording of a run with a server: as one of a pager in this process, event by event.

#[path = "../../live/tests/support/recorded.rs"]
mod recorded;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use freehold_command::run_server::{RunRecording, RunServer};
use freehold_live::{Launch, Options, Outcome, Server, run_on_server};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{Capacity, FaultKind, Recording, TaskState};
use recorded::{THRASHING, check, of_kind};

const PROGRAM: &str = env!("CARGO_BIN_EXE_freehold");

/// A server with tables for the scenario, that keeps so many events of each kind.
fn launch(scenario: &Scenario, events: u64) -> Launch {
    let events = usize::try_from(events).expect("few");
    let recording = RunRecording {
        faults: events,
        others: events,
        samples: events,
        step: 5_000_000,
    };
    let server = RunServer {
        recording: (events > 0).then_some(recording),
        ..RunServer::of(scenario)
    };
    server.launch_by(PROGRAM.into())
}

fn recorded(scenario: &Scenario, events: u64) -> (Outcome, Recording) {
    let server = Server::Own(launch(scenario, events));
    let options = Options {
        recording: Some(Capacity::default()),
    };
    let mut outcome = run_on_server(scenario, &server, &options, &AtomicBool::new(false)).expect("a run");
    let recording = outcome.recording.take().expect("a recording");
    (outcome, recording)
}

fn shipped(name: &str, sets: &[&str]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Scenario::load(&file, sets).expect("a scenario")
}

#[test]
fn a_run_with_a_server_is_recorded_event_by_event() {
    let scenario = Scenario::parse(THRASHING, "test").expect("a scenario");
    let (outcome, recording) = recorded(&scenario, 100_000);
    check(&scenario, &outcome, &recording);
    for task in &recording.tasks[..2] {
        assert!(of_kind(task, &[FaultKind::SwapIn]) > 0);
        assert!(task.spans.iter().any(|span| span.state == TaskState::StoreWait));
    }
    assert!(recording.transfers.iter().any(|transfer| transfer.task == Some(1)));
    for reservation in [0, 1] {
        let whose = |eviction: &freehold_scenario::recording::Eviction| eviction.reservation == Some(reservation);
        assert!(recording.evictions.iter().any(whose), "reservation {reservation}");
    }
    assert!(!recording.lock_holds.is_empty());
}

#[test]
fn shipped_scenarios_are_recorded_with_a_server() {
    for name in [
        "two-tasks-spel.toml",
        "two-tasks-none.toml",
        "firm-borrowing.toml",
        "best-effort-neighbour.toml",
    ] {
        let scenario = shipped(name, &["duration=2s"]);
        let (outcome, recording) = recorded(&scenario, 100_000);
        check(&scenario, &outcome, &recording);
        let locked = recording
            .samples
            .iter()
            .any(|sample| sample.reservations[0].lists.locked > 0);
        assert_eq!(locked, name.contains("spel"), "{name}");
    }
}

#[test]
fn events_that_find_no_room_are_counted() {
    let scenario = Scenario::parse(THRASHING, "test").expect("a scenario");
    let (_, recording) = recorded(&scenario, 100);
    let faults: usize = recording.tasks.iter().map(|task| task.faults.len()).sum();
    assert!(faults <= 100 && recording.evictions.len() <= 100 && recording.transfers.len() <= 100);
    assert!(recording.lost > 1_000, "{} lost", recording.lost);
}

#[test]
fn a_server_that_records_nothing_says_so() {
    let scenario = Scenario::parse(THRASHING, "test").expect("a scenario");
    let options = Options {
        recording: Some(Capacity::default()),
    };
    let server = Server::Own(launch(&scenario, 0));
    let error = run_on_server(&scenario, &server, &options, &AtomicBool::new(false)).expect_err("nothing to give");
    assert!(error.to_string().contains("records nothing"), "{error}");
}
