//! The contract of the command that needs no engine: usage, input errors, lists, the files that ship.

mod common;

use common::{Scratch, document, freehold, run, scenarios, status, stderr, stdout};

const SPC: &str = "scenarios/two-tasks-spc.toml";

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [
        &["frobnicate"][..],
        &[],
        &["run"],
        &["run", SPC, "--engine", "quantum"],
        &["size", SPC],
        &["bench"],
        &["bench", "nothing-of-the-kind"],
        &["bench", "core", "--rounds", "0"],
        &["reproduce", "spc-fig1"],
        &["reproduce", "--show", "nothing.toml"],
        &["doctor", "--memory", "10MB"],
        &["size", SPC, "--task", "tau1", "--step", "5KiB"],
        &["size", SPC, "--task", "tau1", "--step", "0B"],
        &["size", SPC, "--task", "nobody"],
    ] {
        let output = run(arguments);
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?}");
        assert!(!stderr(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn what_this_version_lacks_is_refused_by_name() {
    for (arguments, word) in [
        (&["--placement", "server"][..], "server"),
        (&["--lockstep"], "--lockstep"),
        (&["--socket", "nowhere"], "--socket"),
        (
            &[
                "--engine",
                "live",
                "--placement",
                "server",
                "--lockstep",
                "--socket",
                "x",
            ],
            "--lockstep",
        ),
        (&["--engine", "live", "--lockstep", "--report", "x.html"], "--report"),
    ] {
        let output = run(&[&["run", SPC][..], arguments].concat());
        assert_eq!(status(&output), 2, "{arguments:?}");
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

#[test]
fn help_and_version_are_done() {
    for arguments in [&["--help"][..], &["--version"], &["help", "run"], &["size", "--help"]] {
        let output = run(arguments);
        assert_eq!(status(&output), 0, "{arguments:?}");
        assert!(stdout(&output).to_lowercase().contains("freehold"), "{arguments:?}");
    }
}

#[test]
fn input_errors_name_file_line_and_key() {
    let text = "name = \"x\"\nduration = \"1s\"\nmemory.pool = \"1MiB\"\nmemory.pole = \"2MiB\"\n";
    let unknown = Scratch::new("unknown", text);
    let output = run(&["run", unknown.path()]);
    assert_eq!(status(&output), 2);
    let place = format!("{}:4: memory.pole", unknown.path());
    assert!(stderr(&output).contains(&place), "{}", stderr(&output));

    // What cannot be read has no lines.
    let output = run(&["run", "/no/such/scenario.toml"]);
    assert_eq!(status(&output), 2);
    let said = stderr(&output);
    assert!(
        said.contains("/no/such/scenario.toml cannot be read") && !said.contains(":1"),
        "{said}"
    );

    let output = run(&["run", SPC, "--set", "reservation.r1.size=70MiB"]);
    assert_eq!(status(&output), 2);
    assert!(
        stderr(&output).contains("--set reservation.r1.size=70MiB"),
        "{}",
        stderr(&output)
    );

    let output = run(&["run", "scenarios/absent.toml"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("scenarios/absent.toml"), "{}", stderr(&output));
}

#[test]
fn a_bad_file_costs_no_waiting() {
    // The second file is bad: nothing runs, nothing is printed.
    let output = run(&["run", SPC, "scenarios/absent.toml"]);
    assert_eq!(status(&output), 2);
    assert!(stdout(&output).is_empty());
}

#[test]
fn every_shipped_file_is_read() {
    for file in scenarios("scenarios").into_iter().chain(scenarios("experiments")) {
        freehold_scenario::Scenario::load::<&str>(&common::root().join(&file), &[]).expect(&file);
    }
}

#[test]
fn lists_name_what_there_is() {
    let output = run(&["bench", "--list", "--json"]);
    assert_eq!(status(&output), 0);
    assert_eq!(document(&output)["benches"][0]["bench"], "core");
    assert!(
        stdout(&run(&["bench", "--list", "--names"]))
            .lines()
            .any(|name| name == "core")
    );

    let output = run(&["reproduce", "--list", "--json"]);
    let files = document(&output)["experiments"].as_array().expect("a list").clone();
    assert_eq!(files.len(), 31);
    for file in files.iter().flat_map(|row| row["files"].as_array().expect("files")) {
        let shown = run(&["reproduce", "--show", file.as_str().expect("a name")]);
        let shipped = std::fs::read_to_string(common::root().join("experiments").join(file.as_str().expect("a name")));
        assert_eq!(stdout(&shown), shipped.expect("the file"), "{file}");
    }
}

#[test]
fn every_experiment_file_ships_with_the_command() {
    let output = run(&["reproduce", "--list"]);
    for file in scenarios("experiments") {
        let name = file.strip_prefix("experiments/").expect("the folder");
        assert!(stdout(&output).contains(name), "{name}");
    }
}

#[test]
fn doctor_says_what_is_missing_and_how_to_get_it() {
    let output = run(&["doctor", "--json"]);
    let found = document(&output);
    assert_eq!(status(&output), if found["live"] == true { 0 } else { 1 });
    for finding in found["findings"].as_array().expect("findings") {
        assert_eq!(finding["fix"].is_null(), finding["status"] == "present", "{finding}");
        assert!(!finding["why"].as_str().expect("text").is_empty());
    }
    let page = stdout(&run(&["doctor"]));
    assert!(page.contains("Live runs are"), "{page}");
}

#[test]
fn a_reader_that_has_gone_is_no_panic() {
    let mut child = freehold(&["reproduce", "--show", "spc-fig9.toml"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn doctor_says_what_can_be_done_and_tries_what_it_is_told() {
    let store = std::env::temp_dir();
    let store = store.to_str().expect("text");
    let output = run(&["doctor", "--json", "--store", store, "--socket", "/nowhere/freehold"]);
    let found = document(&output);
    let finding = |name: &str| {
        let findings = found["findings"].as_array().expect("findings");
        findings
            .iter()
            .find(|finding| finding["name"] == name)
            .expect("the finding")
            .clone()
    };
    assert_eq!(finding("server")["status"], "absent");
    assert!(
        finding("server")["detail"]
            .as_str()
            .is_some_and(|text| text.contains("/nowhere/freehold"))
    );
    assert_ne!(finding("file-store")["status"], "absent");
    for wanted in [
        "agent-library",
        "c-library",
        "userfaultfd-event-fork",
        "open-files",
        "cgroup-memory",
        "overcommit",
    ] {
        assert!(
            !finding(wanted)["detail"].as_str().expect("text").is_empty(),
            "{wanted}"
        );
    }
    let uses = found["uses"].as_array().expect("uses");
    for found in uses {
        let missing = found["missing"].as_array().expect("names");
        assert_eq!(found["possible"], missing.is_empty(), "{found}");
        for name in missing {
            assert_ne!(finding(name.as_str().expect("a name"))["status"], "present");
        }
    }
    let nowhere = run(&["doctor", "--json", "--store", "/nowhere"]);
    let found = document(&nowhere);
    let findings = found["findings"].as_array().expect("findings");
    assert!(
        findings
            .iter()
            .any(|finding| finding["name"] == "file-store" && finding["status"] == "absent")
    );
}
