//! The command with the simulator: results, laws, sizes, experiments, signals.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use common::{Scratch, document, freehold, run, scenarios, status, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const DEMO: [&str; 3] = [
    "scenarios/two-tasks-none.toml",
    "scenarios/two-tasks-spc.toml",
    "scenarios/two-tasks-spel.toml",
];

fn task<'a>(result: &'a Value, name: &str) -> &'a Value {
    let tasks = result["tasks"].as_array().expect("tasks");
    tasks
        .iter()
        .find(|task| task["name"] == name)
        .unwrap_or_else(|| panic!("no task {name}"))
}

#[test]
fn every_shipped_file_keeps_the_laws() {
    for file in scenarios("scenarios").into_iter().chain(scenarios("experiments")) {
        let output = run(&["run", &file, "--json", "--engine", "sim"]);
        assert_eq!(status(&output), 0, "{file}: {}", stderr(&output));
        let result = document(&output);
        assert_eq!(result["engine"], "sim");
        assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{file}");
        for task in result["tasks"].as_array().expect("tasks") {
            assert!(task["jobs"].as_u64() > Some(0), "{file}: {task}");
        }
    }
}

/// The models of paper 001, which are long, until shortly after the jobs have begun.
#[test]
fn the_workload_models_keep_the_laws() {
    for file in scenarios("experiments/app") {
        let output = run(&["run", &file, "--json", "--engine", "sim", "--set", "duration=2400ms"]);
        assert_eq!(status(&output), 0, "{file}: {}", stderr(&output));
        let result = document(&output);
        assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{file}");
        for task in result["tasks"].as_array().expect("tasks") {
            assert!(task["jobs"].as_u64() > Some(0), "{file}: {task}");
        }
    }
}

#[test]
fn the_demo_tells_who_missed_what_and_why() {
    let output = run(&[&["run"][..], &DEMO].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("laws: all held"), "{text}");
    assert!(text.contains("another evicted"), "{text}");

    let output = run(&[&["run", "--json"][..], &DEMO].concat());
    let runs = document(&output)["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 3);
    assert!(task(&runs[0], "tau1")["misses"].as_u64() >= Some(2), "{}", runs[0]);
    assert_eq!(task(&runs[0], "tau2")["misses"], 0);
    for result in &runs[1..] {
        assert_eq!(task(result, "tau1")["misses"], 0);
        assert_eq!(task(result, "tau1")["shared_swap_ins"], 0);
        assert_eq!(task(result, "tau2")["misses"], 0);
    }
}

#[test]
fn a_run_repeats_exactly_and_a_seed_changes_it() {
    let file = "scenarios/window-zipf.toml";
    let first = stdout(&run(&["run", file, "--json"]));
    assert_eq!(first, stdout(&run(&["run", file, "--json"])));
    let other = run(&["run", file, "--json", "--seed", "8"]);
    assert_eq!(document(&other)["seed"], 8);
    assert_ne!(first, stdout(&other));
}

#[test]
fn overrides_reach_the_run() {
    let output = run(&[
        "run",
        DEMO[1],
        "--json",
        "--set",
        "duration=500ms",
        "--set",
        "region.shm.sharing=none",
    ]);
    let result = document(&output);
    assert_eq!(result["duration_ns"], 500_000_000);
    assert_eq!(result["regions"][0]["sharing"], "none");
}

#[test]
fn size_finds_a_size_that_holds_above_one_that_does_not() {
    let file = "experiments/spc-fig8-tau2.toml";
    let output = run(&["size", file, "--task", "tau2", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let answer = document(&output);
    let (pages, failing) = (
        answer["pages"].as_u64().expect("a size"),
        answer["failing_pages"].as_u64(),
    );
    assert!(pages <= 512, "{answer}");
    assert!(answer["tried"].as_u64() > Some(3), "{answer}");
    let misses = |pages: u64| {
        let set = format!("reservation.r2.size={}KiB", pages * 4);
        let output = run(&["run", file, "--json", "--set", &set]);
        (status(&output) == 0).then(|| task(&document(&output), "tau2")["misses"].as_u64().expect("a count"))
    };
    assert_eq!(misses(pages), Some(0));
    assert_eq!(failing, Some(pages - 1));
    assert_ne!(misses(pages - 1), Some(0));
}

const HOPELESS: &str = r#"
name = "hopeless"
duration = "1s"
memory.pool = "4MiB"
[[region]]
name = "pages"
kind = "private"
size = "1MiB"
[[reservation]]
name = "r"
size = "1MiB"
[[task]]
name = "slow"
reservation = "r"
period = "10ms"
deadline = "1us"
compute = "5ms"
[[task.access]]
region = "pages"
pattern = "sequential"
write = true
[[task]]
name = "free"
compute = "1ms"
"#;

const FULL: &str = r#"
name = "full"
duration = "1s"
memory.pool = "4MiB"
memory.swap = { store = "compressed", capacity = "64KiB" }
[[region]]
name = "pages"
kind = "private"
size = "512KiB"
[[reservation]]
name = "r"
size = "512KiB"
[[task]]
name = "t"
reservation = "r"
period = "100ms"
[[task.access]]
region = "pages"
pattern = "sequential"
amount = "512KiB"
write = true
"#;

#[test]
fn size_finds_no_size_at_which_the_store_gets_full() {
    let full = Scratch::new("full", FULL);
    let answer = document(&run(&["size", full.path(), "--task", "t", "--json"]));
    // 128 pages, 16 of which have room in the store.
    let pages = answer["pages"].as_u64().expect("a size");
    assert!((112..=128).contains(&pages), "{answer}");
    let failed = |pages: u64| {
        let set = format!("reservation.r.size={}KiB", pages * 4);
        let result = document(&run(&["run", full.path(), "--json", "--set", &set]));
        assert_eq!(task(&result, "t")["misses"], 0);
        task(&result, "t")["failed_accesses"].as_u64().expect("a count")
    };
    assert_eq!(failed(pages), 0);
    assert!(failed(pages - 1) > 0);
}

#[test]
fn size_says_when_nothing_works() {
    let hopeless = Scratch::new("hopeless", HOPELESS);
    let output = run(&["size", hopeless.path(), "--task", "slow"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("no size"), "{}", stdout(&output));
    let output = run(&["size", hopeless.path(), "--task", "slow", "--json"]);
    assert_eq!(status(&output), 1);
    assert!(document(&output)["pages"].is_null());

    let output = run(&["size", hopeless.path(), "--task", "free"]);
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("no reservation"), "{}", stderr(&output));
}

#[test]
fn misses_of_an_own_reservation_are_no_failure() {
    let output = run(&[
        "run",
        "experiments/spc-fig8-tau1.toml",
        "--json",
        "--set",
        "reservation.r1.size=10MiB",
    ]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(task(&document(&output), "tau1")["misses"].as_u64() > Some(0));
}

#[test]
fn the_paper_is_reproduced() {
    let output = run(&["reproduce", "all", "--json"]);
    let reports = document(&output);
    for report in reports["experiments"].as_array().expect("reports") {
        for row in report["rows"].as_array().expect("rows") {
            assert_eq!(row["holds"], true, "{}: {row}", report["experiment"]);
        }
    }
    assert_eq!(status(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_figure_of_pinning_is_drawn_from_the_models() {
    let output = run(&[
        "reproduce",
        "app-fig6",
        "--seeds",
        "1",
        "--duration",
        "2200ms",
        "--json",
    ]);
    let report = document(&output);
    let rows = report["rows"].as_array().expect("rows");
    let find = |what: &str| {
        let found = rows
            .iter()
            .find(|row| row["what"].as_str().is_some_and(|name| name.starts_with(what)));
        found.unwrap_or_else(|| panic!("{what}: {rows:?}")).clone()
    };
    // Each is there with a number, and the status says whether every claim holds.
    for policy in ["none", "app-no-budget", "app"] {
        let row = find(&format!("{policy}: misses of ranger"));
        assert!(
            row["ours"]
                .as_f64()
                .is_some_and(|misses| (0.0..=100.0).contains(&misses)),
            "{row}"
        );
    }
    let fewer = find("app: fewer misses");
    assert_eq!(
        fewer["holds"],
        fewer["ours"].as_f64() >= fewer["paper"].as_f64(),
        "{fewer}"
    );
    let holds = rows.iter().all(|row| row["holds"] == true);
    assert_eq!(status(&output), i32::from(!holds), "{}", stderr(&output));
}

#[test]
fn misses_are_told_against_beta() {
    let options = ["--seeds", "1", "--duration", "3500ms", "--json"];
    let output = run(&[&["reproduce", "app-beta"], &options[..]].concat());
    let report = document(&output);
    let rows = report["rows"].as_array().expect("rows");
    for policy in ["app", "app, listing"] {
        let of = |beta: &str, what: &str| {
            let name = format!("{policy}, beta {beta}: {what}");
            let row = rows
                .iter()
                .find(|row| row["what"].as_str().is_some_and(|what| what.starts_with(&name)));
            row.and_then(|row| row["ours"].as_f64())
                .unwrap_or_else(|| panic!("{name}: {rows:?}"))
        };
        assert!((0.0..=100.0).contains(&of("0.98", "misses")), "{rows:?}");
        assert!(
            of("0.9", "pinned") <= of("1", "pinned"),
            "a pool that does not shrink has no fewer pages: {rows:?}"
        );
    }
}

#[test]
fn the_swing_of_a_capacity_is_told() {
    let options = ["--seeds", "2", "--duration", "3500ms", "--json"];
    let output = run(&[&["reproduce", "app-stationary"], &options[..]].concat());
    let report = document(&output);
    let rows = report["rows"].as_array().expect("rows");
    for policy in ["app", "app, steady", "app, steady and restore"] {
        let of = |what: &str| {
            let name = format!("{policy}: {what}");
            let row = rows
                .iter()
                .find(|row| row["what"].as_str().is_some_and(|what| what.starts_with(&name)));
            row.and_then(|row| row["ours"].as_f64())
                .unwrap_or_else(|| panic!("{name}: {rows:?}"))
        };
        let (lowest, mean, highest) = (of("lowest capacity"), of("mean capacity"), of("highest capacity"));
        assert!(lowest <= mean && mean <= highest, "{rows:?}");
        let misses = of("misses");
        assert!((0.0..=100.0).contains(&misses), "{rows:?}");
    }
    assert!(
        rows.iter().all(|row| row["interval"].is_number()),
        "of two seeds: {rows:?}"
    );
}

#[test]
fn a_signal_stops_cleanly() {
    for signal in [Signal::INT, Signal::TERM] {
        let file = "scenarios/best-effort-neighbour.toml";
        let mut child = freehold(&["run", file, "--json", "--set", "duration=3600s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        // It takes longer than a second, so it says what it is doing, in a plain line.
        let mut said = String::new();
        errors.read_line(&mut said).expect("a line");
        assert!(said.contains("running best-effort-neighbour (sim)"), "{said}");
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        let output = child.wait_with_output().expect("it ends");
        errors.read_to_string(&mut said).expect("the rest");
        assert_eq!(status(&output), 1, "{said}");
        assert!(said.contains("stopped"), "{said}");
    }
}

#[test]
fn a_warning_is_said_once() {
    let set = ["--set", "task.tau1.stop=3600s"];
    let words = "is after the end";
    let output = run(&[&["run", "scenarios/two-tasks-spc.toml"][..], &set].concat());
    assert_eq!(stderr(&output).matches(words).count(), 1, "{}", stderr(&output));
    assert!(!stdout(&output).contains(words), "{}", stdout(&output));
    // A document is complete by itself.
    let output = run(&[&["run", "scenarios/two-tasks-spc.toml", "--json"][..], &set].concat());
    assert!(document(&output)["warnings"].to_string().contains(words));
}
