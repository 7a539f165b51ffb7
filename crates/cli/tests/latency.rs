//! `freehold latency`: what it says, what it refuses, and that nothing of it stays.

mod common;

use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn latency(arguments: &[&str]) -> Output {
    common::run(&[&["latency"], arguments].concat())
}

fn document(arguments: &[&str]) -> Value {
    let output = latency(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one document")
}

fn rows(document: &Value) -> Vec<(String, String, String)> {
    let text = |row: &Value, key| row[key].as_str().unwrap_or_default().to_owned();
    let rows = document["rows"].as_array().into_iter().flatten();
    rows.map(|row| (text(row, "space"), text(row, "load"), text(row, "level")))
        .collect()
}

#[test]
fn each_space_and_load_has_its_row_and_every_wake_up_is_counted() {
    let document = document(&[
        "-D",
        "500ms",
        "-i",
        "1000",
        "--load",
        "none,spin,flood,kernel",
        "--json",
    ]);
    let mut wanted = Vec::new();
    for load in ["none", "spin", "flood", "kernel"] {
        for space in ["shared", "separate"] {
            wanted.push((space.to_owned(), load.to_owned(), "thread".to_owned()));
        }
    }
    assert_eq!(rows(&document), wanted);
    for row in document["rows"].as_array().unwrap() {
        let wakeups = row["wakeups"].as_u64().unwrap();
        // What has passed before the thread goes to sleep again is left out, on a busy machine too.
        assert!((1..=500).contains(&wakeups), "{row}");
        assert_eq!(row["faults"], 0, "{row}");
        let at = |name: &str| row["us"][name].as_f64().unwrap();
        assert!(at("p50") <= at("p99") && at("p99") <= at("max"), "{row}");
        let outliers = row["outliers"].as_array().unwrap();
        assert!(
            outliers.iter().all(|late| late["us"].as_f64().unwrap() >= 100.0),
            "{row}"
        );
    }
    assert_eq!(
        document["cpu_dma_latency"].as_str().map(|word| word.is_empty()),
        Some(false)
    );
}

#[test]
fn what_the_kernel_shows_comes_before_the_thread() {
    let document = document(&[
        "-D", "400ms", "--space", "separate", "--load", "spin", "--events", "--json",
    ]);
    let missing = document["unavailable"].as_array().unwrap();
    if !missing.is_empty() {
        println!("NOT CHECKED: {missing:?}");
        return;
    }
    let median = |level: &str| {
        let rows = document["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["level"] == level).unwrap();
        row["us"]["p50"].as_f64().unwrap()
    };
    let way = ["irq", "hrtimer", "waking", "switch", "thread"].map(median);
    assert!(way.is_sorted(), "{way:?}");
}

#[test]
fn a_histogram_file_holds_every_wake_up() {
    let file = std::env::temp_dir().join(format!("freehold-histogram-{}", std::process::id()));
    let path = file.to_str().unwrap();
    let arguments = [
        "-D",
        "300ms",
        "--space",
        "shared",
        "--load",
        "none",
        "-h",
        "100",
        "--histfile",
        path,
        "--json",
    ];
    let document = document(&arguments);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 100);
    let counted: u64 = lines
        .iter()
        .filter_map(|line| line.split('\t').nth(1)?.parse::<u64>().ok())
        .sum();
    let row = &document["rows"][0];
    let (wakeups, overflow) = (row["wakeups"].as_u64().unwrap(), row["overflow"].as_u64().unwrap());
    assert_eq!(counted + overflow, wakeups);
    assert!(
        text.contains(&format!("# Histogram Overflows: {overflow:05}")),
        "{text}"
    );
}

#[test]
fn what_cannot_be_measured_is_named_with_the_option() {
    let cases: [(&[&str], &str); 6] = [
        (&["-p", "99"], "--priority 99: choose from 2 to 98"),
        (&["-i", "10"], "--interval 10: an interval is from 100us to 10s long"),
        (&["--random", "30ms..2ms"], "--random 30ms..2ms:"),
        (&["-a", "4000"], "--affinity 4000: this process may use CPUs"),
        (&["-D", "0"], "--duration 0: choose more than nothing"),
        (&["--random", "2ms..3ms", "--peer", "cyclictest"], "--random, --peer:"),
    ];
    for (arguments, wanted) in cases {
        let output = latency(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_killed_measurement_leaves_no_load_running() {
    let mut command = common::freehold(&["latency", "-D", "60", "--space", "separate", "--load", "spin"]);
    let mut measurement = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut loads = Vec::new();
    for _ in 0..1000 {
        loads = common::children(measurement.id());
        if !loads.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(loads.len(), 1, "a load was begun");
    measurement.kill().unwrap();
    measurement.wait().unwrap();
    for _ in 0..1000 {
        let gone = |number: &u32| !std::path::Path::new(&format!("/proc/{number}/exe")).exists();
        if loads.iter().all(gone) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{loads:?} still run");
}
