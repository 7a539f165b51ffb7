//! `freehold advise`: the paper's task sets in the document and in the page, by both engines.

mod common;

use common::{document, run, status, stderr, stdout};
use serde_json::Value;

const BOTH: &str = "experiments/spc-table3-12.toml";

fn advise(arguments: &[&str]) -> Value {
    let output = run(&[&["advise", "--json"][..], arguments].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    document(&output)
}

/// What the paper's Tables III and IV say of {tau1, tau2}: 13 MB conserved, 12 MB locked.
fn assert_both(found: &Value) {
    let region = &found["regions"][0];
    assert_eq!(region["name"], "shm", "{found}");
    let numbers = ["max", "n", "frames_spc", "frames_spel"].map(|key| region[key].as_u64());
    assert_eq!(numbers, [2560, 2, 3328, 3072].map(Some), "{region}");
    assert_eq!(region["max_below_n_avg"], true, "{region}");
    assert_eq!(region["choice"], "spel", "{region}");
    let parts = region["reservations"].as_array().expect("a list");
    let part = |part: &Value| {
        let count = |key: &str| part[key].as_u64().expect("a count");
        (
            count("max"),
            part["avg"].as_f64().expect("a mean"),
            count("frames_spel"),
        )
    };
    let parts: Vec<(u64, f64, u64)> = parts.iter().map(part).collect();
    assert_eq!(parts, [(2560, 2560.0, 2816), (2560, 256.0, 2816)], "{region}");
    // Each private region has one user.
    assert_eq!(found["regions"][1]["choice"], Value::Null, "{found}");
}

#[test]
fn the_papers_task_sets_in_the_document() {
    let found = advise(&[BOTH]);
    assert_eq!(
        (&found["engine"], &found["scenario"]),
        (&"sim".into(), &"spc-table3-12".into())
    );
    assert_both(&found);
    let several = advise(&[BOTH, "experiments/spc-table3-22.toml"]);
    assert_both(&several["advice"][0]);
    let region = &several["advice"][1]["regions"][0];
    assert_eq!(
        (&region["frames_spc"], &region["frames_spel"]),
        (&1024.into(), &3072.into())
    );
    assert_eq!(region["choice"], "spc");
}

#[test]
fn a_profile_from_real_pages_says_the_same() {
    let found = advise(&[BOTH, "--engine", "live"]);
    assert_eq!(found["engine"], "live");
    assert_both(&found);
}

#[test]
fn the_page_gives_pages_and_kib_and_a_sentence() {
    let output = run(&["advise", "scenarios/two-tasks-auto.toml", BOTH]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let page = stdout(&output);
    for words in [
        "Max < n*Avg",
        "2560  10240  1408.0  5632  2  yes",
        "table: spel: Max(S) of 512 pages is below n*Avg(S) of 1024.0: the eviction lock takes 1024 frames",
        "log: spc: Max(S) of 1024 pages is not below n*Avg(S) of 128.0",
        "private1: nothing to choose: of the reservations only r1 maps it",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn a_run_says_what_was_asked_and_what_was_decided() {
    let output = run(&["run", BOTH, "--set", "region.shm.sharing=auto", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    let region = &found["regions"][0];
    assert_eq!((&region["asked"], &region["sharing"]), (&"auto".into(), &"spel".into()));
    assert_eq!(region["advice"]["frames_spel"], 3072);
    assert_eq!(found["memory"]["used"], 3072);
    let page = stdout(&run(&["run", "scenarios/two-tasks-auto.toml"]));
    assert!(page.contains("spel (auto)") && page.contains("spc (auto)"), "{page}");
}

#[test]
fn both_engines_decide_alike() {
    let decided = |engine: &[&str]| {
        let file = ["run", "scenarios/two-tasks-auto.toml", "--json", "--set", "duration=1s"];
        let output = run(&[&file[..], engine].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let found = document(&output);
        let regions = found["regions"].as_array().expect("regions").iter();
        let said: Vec<Value> = regions.map(|region| region["advice"].clone()).collect();
        (said, found["memory"]["used"].clone())
    };
    let simulated = decided(&[]);
    assert_eq!(simulated, decided(&["--engine", "live"]));
    assert_eq!(simulated, decided(&["--engine", "live", "--lockstep"]));
}

#[test]
fn sharing_that_differs_by_reservation_is_named() {
    let output = run(&["run", BOTH, "--set", "reservation.r1.sharing.shm=spel"]);
    assert!(stdout(&output).contains("spc, r1 spel"), "{}", stdout(&output));
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [
        &["advise"][..],
        &["advise", BOTH, "--lockstep"],
        &["advise", "scenarios/absent.toml"],
        &["advise", BOTH, "--set", "region.shm.sharing=both"],
        &["advise", "scenarios/copy-on-write.toml", "--engine", "live"],
    ] {
        let output = run(arguments);
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
}
