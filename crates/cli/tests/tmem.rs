//! `freehold tmem plan` as its user calls it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FACTS: &str = r#"{"free": 1,
 "components": [{"name": "A", "allocated": 2, "requested": 4, "minimum": 1},
                {"name": "B", "allocated": 1, "requested": 3, "minimum": 1},
                {"name": "C", "allocated": 3, "requested": 1, "minimum": 1}],
 "threads": [{"name": "t1", "tardiness_ns": 5000, "blocked_ns": {"A": 4000, "B": 1000}},
             {"name": "t2", "tardiness_ns": 2600, "blocked_ns": {"B": 3000}}],
 "remembered": [{"thread": "t2", "component": "C", "impact_ns": 800}]}"#;

fn plan(name: &str, text: &str, more: &[&str]) -> Output {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, text).expect("a file for the test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["tmem", "plan"]).arg(file).args(more);
    command.output().expect("the command starts")
}

#[test]
fn a_plan_says_what_each_component_ought_to_have() {
    let output = plan("plan.json", FACTS, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(plan["desired"], serde_json::json!({"A": 4, "B": 2, "C": 1}));
    assert_eq!(plan["predicted_ns"], serde_json::json!({"t1": 500, "t2": 1100}));
    assert_eq!(plan["moves"][0], serde_json::json!({"from": null, "to": "A"}));
    let remembered = plan["remembered"].as_array().expect("rows");
    assert!(remembered.contains(&serde_json::json!({"thread": "t2", "component": "C", "impact_ns": 400})));
}

#[test]
fn what_is_wrong_with_the_numbers_is_said() {
    for (wrong, right, expected) in [
        ("\"B\": 3000", "\"X\": 3000", "there is no component `X`"),
        ("\"name\": \"B\"", "\"name\": \"A\"", "component `A` stands twice"),
        ("\"minimum\": 1}", "\"minimum\": -1}", "line 2"),
        ("\"free\"", "\"fre\"", "unknown field `fre`"),
        ("\"thread\": \"t2\"", "\"thread\": \"t3\"", "there is no thread `t3`"),
    ] {
        let output = plan("wrong.json", &FACTS.replacen(wrong, right, 1), &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("wrong.json") && said.contains(expected), "{said}");
    }
}

/// Runs the shipped scenario with components.
fn scenario(options: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/components/tmem-service.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("run").arg(file).args(options);
    command.output().expect("the command starts")
}

fn document(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn sum(document: &serde_json::Value, what: &str) -> u64 {
    let rows = document["transient"]["components"].as_array().expect("rows");
    rows.iter().map(|row| row[what].as_u64().expect("a number")).sum()
}

#[test]
fn a_scenario_with_components_says_what_units_did() {
    let tmem = document(&scenario(&["--json"]));
    let (transient, tasks) = (&tmem["transient"], tmem["tasks"].as_array().expect("rows"));
    let rows = transient["components"].as_array().expect("rows");
    assert_eq!(rows.len(), 8, "stacks and buffers of four components");
    for row in rows {
        assert!(row["allocated"].as_u64() >= row["minimum"].as_u64(), "{row}");
        let came = row["minimum"].as_u64().expect("a number") + row["granted"].as_u64().expect("a number");
        assert_eq!(
            came - row["taken"].as_u64().expect("a number"),
            row["allocated"].as_u64().expect("a number")
        );
        assert!(row["contended"].as_u64() >= row["handed_over"].as_u64(), "{row}");
    }
    // A stack is of two frames, a buffer of one.
    let frames = |row: &serde_json::Value| {
        row["allocated"].as_u64().expect("a number") * if row["kind"] == "stack" { 2 } else { 1 }
    };
    assert_eq!(transient["granted"], rows.iter().map(frames).sum::<u64>());
    assert!(transient["granted"].as_u64() <= transient["limit"].as_u64() && transient["runs"] == 32);
    let waited: u64 = tasks.iter().filter_map(|task| task["unit_wait_ns"].as_u64()).sum();
    assert!(waited >= sum(&tmem, "blocked_ns") && sum(&tmem, "blocked_ns") > 0);
    // With units for all nobody waits, and with the minima alone more do.
    let max = document(&scenario(&[
        "--json",
        "--set",
        "transient.policy=max",
        "--set",
        "transient.limit=1MiB",
    ]));
    let min = document(&scenario(&["--json", "--set", "transient.policy=min"]));
    assert_eq!(sum(&max, "contended"), 0);
    assert!(sum(&min, "blocked_ns") > sum(&tmem, "blocked_ns") && sum(&min, "granted") == 0);
    // The same in words, and as a page.
    let page = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("components.html");
    let output = scenario(&["--report", page.to_str().unwrap()]);
    let (text, page) = (
        String::from_utf8(output.stdout).unwrap(),
        std::fs::read_to_string(page).unwrap(),
    );
    for row in rows {
        let name = row["component"].as_str().unwrap();
        assert!(text.contains(name) && page.contains(name), "{name}");
    }
    assert!(text.contains('δ') && page.contains("Units of components"));
}

#[test]
fn the_kernel_follows_a_scenario_with_components_in_lockstep() {
    let output = scenario(&["--engine", "live", "--lockstep", "--set", "duration=2s", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("follow with their priorities") {
        eprintln!("left out: no right to real-time priorities");
        return;
    }
    // A count that differs would be a broken law.
    let live = document(&output);
    let simulated = document(&scenario(&["--set", "duration=2s", "--json"]));
    assert_eq!(live["transient"], simulated["transient"]);
    assert_eq!(live["memory"]["resident_measured"], live["transient"]["granted"]);
    assert!(sum(&live, "handed_over") > 0);
}

/// By the clock real threads call as they are scheduled: what waits is the machine's affair, what is counted is not.
#[test]
fn components_of_a_scenario_run_live_by_the_clock() {
    for policy in ["tmem", "min", "max"] {
        let set = format!("transient.policy=\"{policy}\"");
        let output = scenario(&["--engine", "live", "--set", "duration=1s", "--set", &set, "--json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("doctor") {
            eprintln!("left out: no right to real-time priorities");
            return;
        }
        // Books, pools and the kernel's count of pages agree: else a law would be broken.
        let live = document(&output);
        assert_eq!(live["laws"]["violations"], serde_json::json!([]), "{policy}");
        let transient = &live["transient"];
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        assert!(number(&transient["peak"]) <= number(&transient["limit"]), "{policy}");
        assert!(number(&live["memory"]["resident_measured"]) <= number(&transient["granted"]));
        for task in live["tasks"].as_array().unwrap() {
            assert!(number(&task["jobs"]) > 0, "{policy}: {task}");
        }
        for units in transient["components"].as_array().unwrap() {
            let [minimum, allocated] = ["minimum", "allocated"].map(|name| number(&units[name]));
            assert!(allocated >= minimum, "{policy}: {units}");
            // Every job of the example goes down to `disk`.
            let used = units["component"] != "disk" || number(&units["peak"]) > 0;
            assert!(used, "{policy}: {units}");
        }
        // What `tmem` grants depends on who had to wait.
        match policy {
            "min" => assert_eq!(sum(&live, "granted"), 0),
            "max" => assert!(sum(&live, "granted") > 0, "{transient}"),
            _ => {}
        }
    }
}

#[test]
fn components_run_live_without_a_server_only() {
    for options in [
        &["--engine", "live", "--placement", "server"][..],
        &["--engine", "live", "--placement", "server", "--lockstep"],
    ] {
        let output = scenario(options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("without a server only"), "{said}");
    }
}
