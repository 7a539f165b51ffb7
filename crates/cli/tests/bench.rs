//! Every benchmark runs, measures what it says, and prints its document. No time is asserted.

mod common;

use common::{document, run, status, stderr, stdout};
use serde_json::Value;
use std::path::Path;

fn names() -> Vec<String> {
    stdout(&run(&["bench", "--list", "--names"]))
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The documents of these benchmarks, as short as they can be.
fn quick(name: &str) -> Value {
    let output = run(&["bench", name, "--rounds", "1", "--quick", "--json"]);
    assert_eq!(status(&output), 0, "{name}: {}", stderr(&output));
    document(&output)
}

/// Live benchmarks need what live runs need.
fn can_run_live() -> bool {
    let found = document(&run(&["doctor", "--json"]));
    let live = found["live"] == true;
    if !live {
        println!("skipped: `freehold doctor` says that live runs are not possible here");
    }
    live
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("a number, not {of}"))
}

fn assert_shape(found: &Value) {
    assert_eq!(found["rounds"], 1);
    for side in ["floor_ns", "ours_ns"] {
        let [p50, p99, p999, max] = ["p50", "p99", "p999", "max"].map(|name| number(&found[side][name]));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= p999, "{found}");
        // A histogram's largest value is known to three digits, like the others.
        assert!(p999 <= max * 1.01, "{found}");
    }
    for name in ["p50", "p99", "p999"] {
        let ratio = number(&found["ours_ns"][name]) / number(&found["floor_ns"][name]);
        assert!((number(&found["ratio"][name]) - ratio).abs() < 1e-9, "{found}");
    }
    assert!(number(&found["goal"]) > 0.0);
    let rows = found["rows"].as_array().expect("rows");
    for row in rows {
        let kept = row["goal"].is_null() || number(&row["value"]) <= number(&row["goal"]);
        // Where an interval is judged, its lower end keeps a goal that is open.
        let verdicts: &[&str] = if kept { &["held", "open"] } else { &["missed"] };
        assert!(verdicts.contains(&row["verdict"].as_str().expect("a verdict")), "{row}");
        assert_eq!(row["holds"], row["verdict"] == "held", "{row}");
    }
    let judged = match found["judged"].as_str().expect("a name") {
        "ratio.p50" => number(&found["ratio"]["p50"]) <= number(&found["goal"]),
        "ratio.p999" => number(&found["ratio"]["p999"]) <= number(&found["goal"]),
        "ours.p50" => number(&found["ours_ns"]["p50"]) <= number(&found["goal"]),
        "ours.p50 at least" => number(&found["ours_ns"]["p50"]) >= number(&found["goal"]),
        other => panic!("{other}"),
    };
    assert_eq!(
        found["holds"],
        judged && rows.iter().all(|row| row["holds"] == true),
        "{found}"
    );
    for text in ["unit", "floor"] {
        assert!(!found[text].as_str().expect("text").is_empty());
    }
}

#[test]
fn what_needs_no_rights_runs_anywhere() {
    for name in ["core", "core-large", "metadata", "sim"] {
        let found = quick(name);
        assert_eq!(found["bench"], name);
        assert_shape(&found);
    }
}

#[test]
fn the_tables_are_as_small_as_they_are_said_to_be() {
    let found = quick("metadata");
    // 8 bytes of the page and 20 of the entry, and little beside them.
    assert!((28.0..32.0).contains(&number(&found["ours_ns"]["p50"])), "{found}");
    assert_eq!(found["holds"], true);
}

#[test]
fn what_is_live_measures_what_it_says() {
    if !can_run_live() {
        return;
    }
    for name in names() {
        // Programs take minutes, and `transparent` runs them.
        if ["core", "core-large", "metadata", "sim", "programs"].contains(&name.as_str()) {
            continue;
        }
        if name.starts_with("mount-") && !(rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists()) {
            println!("not run: {name} takes root and /dev/fuse");
            continue;
        }
        let found = quick(&name);
        assert_eq!(found["bench"], name);
        assert_shape(&found);
    }
}

#[test]
fn what_a_server_serves_measures_what_it_says() {
    if !can_run_live() {
        return;
    }
    let served = ["--placement", "server"];
    let listed = stdout(&run(&[&["bench", "--list", "--names"][..], &served].concat()));
    let listed: Vec<&str> = listed.lines().collect();
    assert_eq!(listed, ["fault-soft", "fault-fill", "evict-fill", "isolation"]);
    for name in listed {
        let quick = ["bench", name, "--rounds", "1", "--quick", "--json"];
        let output = run(&[&quick[..], &served].concat());
        assert_eq!(status(&output), 0, "{name}: {}", stderr(&output));
        let found = document(&output);
        assert_eq!(found["bench"], name);
        assert_shape(&found);
    }
    let output = run(&[&["bench", "metadata"][..], &served].concat());
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("isolation"), "{}", stderr(&output));
}

#[test]
fn the_core_is_counted_in_instructions_or_says_that_it_is_not() {
    if !can_run_live() {
        return;
    }
    for name in ["map-shared", "unmap-shared"] {
        let found = quick(name);
        let rows = found["rows"].as_array().expect("rows");
        let units: Vec<&str> = rows.iter().filter_map(|row| row["unit"].as_str()).collect();
        match units[..] {
            ["instructions", "instructions", "", ""] => assert!(number(&rows[0]["value"]) > 50.0, "{found}"),
            ["ns", "ns", "", ""] => assert!(!found["notes"].as_array().expect("notes").is_empty(), "{found}"),
            _ => panic!("{found}"),
        }
    }
}

#[test]
fn a_page_for_readers_says_whether_the_goal_is_held() {
    let page = stdout(&run(&["bench", "metadata", "--rounds", "1", "--quick"]));
    assert!(page.contains("goal held") && page.contains("bytes"), "{page}");
}
