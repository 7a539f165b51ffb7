//! Components with faults, and ends that nobody has planned: whoever is not at fault does not notice, and what a run
//! has is not lost.
#![allow(clippy::unwrap_used, reason = "tests")]

mod components;

use components::{Composed, Folder, document, end, eventually, rows, send};
use std::io::Read;
use std::time::Duration;

/// `front` calls `back` each 5 ms, and `bad` each 10; `bad` calls `back` too.
const FAULTY: &str = r#"
name = "faulty"
[transient]
limit = "1MiB"
period = "50ms"
[[component]]
name = "front"
object = "faults.so"
contexts = 2
bound = "2s"
stack = { size = "16KiB" }
cbuf = { size = "4KiB" }
calls = ["back", "bad"]
[[component]]
name = "bad"
object = "faults.so"
contexts = 2
bound = "50ms"
stack = { size = "16KiB" }
cbuf = { size = "4KiB" }
calls = ["back"]
classes = ["own"]
[[component]]
name = "back"
object = "faults.so"
contexts = 2
bound = "1s"
restart_hung = true
stack = { size = "16KiB" }
cbuf = { size = "4KiB" }
classes = ["others"]
[[class]]
name = "own"
[[class]]
name = "others"
[[thread]]
name = "passes"
component = "front"
period = "5ms"
priority = 20
[[thread]]
name = "asks"
component = "front"
function = 2
period = "10ms"
priority = 10
"#;

fn processes(folder: &Folder) -> Vec<u32> {
    let shown = folder.ask(&["ps", "--json"]);
    let all: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let components = all[0]["components"].as_array().cloned().unwrap_or_default();
    components
        .iter()
        .map(|row| row[1].as_u64().unwrap().try_into().unwrap())
        .collect()
}

fn kill_bad(folder: &Folder) {
    let killed = folder.ask(&["kill", "bad"]);
    assert!(killed.status.success(), "{}", String::from_utf8_lossy(&killed.stderr));
}

#[test]
fn a_component_that_writes_anything_anywhere_is_named_and_harms_only_its_own_callers() {
    let folder = Folder::new("faulty");
    let fault = folder.0.join("faulty");
    std::fs::write(&fault, "").unwrap();
    let Composed { folder, child } = Composed::start_in(folder, "faults", FAULTY, &[]);
    // A composition that has not begun yet has no component to kill.
    folder.until_shown("restarts 0");
    // Each new process of it finds what the one before has written, and begins again.
    for restarts in 1..=3 {
        std::thread::sleep(Duration::from_millis(700));
        kill_bad(&folder);
        folder.until_shown(&format!("restarts {restarts}"));
    }
    eventually("it is named", || {
        let shown = String::from_utf8(folder.ask(&["ps"]).stdout).unwrap();
        shown.contains("VIOLATIONS")
    });
    // One without the fault is as if there had been none.
    std::fs::remove_file(&fault).unwrap();
    kill_bad(&folder);
    folder.until_shown("restarts 4");
    let asked = || std::fs::read_to_string(folder.0.join("asked")).unwrap_or_default();
    eventually("it is called again", || asked() == "0\n");

    send("-INT", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("component `bad` has a fault"), "{said}");
    assert!(!said.contains("`front`") && !said.contains("`back`"), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let passes = &document["threads"][0];
    assert!(passes["jobs"].as_u64() > Some(100) && passes["failed"] == 0, "{passes}");
    for name in ["front", "back"] {
        for row in rows(&document, name) {
            assert_eq!((&row["restarts"], &row["violations"]), (&0.into(), &0.into()), "{row}");
        }
    }
    let others = &document["classes"][1];
    assert_eq!(
        (&others["name"], &others["jobs"]),
        (&"others".into(), &0.into()),
        "{document}"
    );
    let memory = &document["transient"];
    assert!(
        memory["resident_measured"].as_u64() <= memory["granted"].as_u64(),
        "{memory}"
    );
}

/// One component, called each 10 ms, which is not started again.
const ONCE: &str = r#"
name = "once"
[transient]
limit = "256KiB"
[[component]]
name = "once"
object = "faults.so"
bound = "50ms"
stack = { size = "16KiB" }
restart = false
[[thread]]
name = "calls"
component = "once"
function = 3
period = "10ms"
"#;

fn until_it_runs(composed: &Composed) {
    eventually("the policy has run", || !composed.trace().is_empty());
}

#[test]
fn a_terminals_interrupt_ends_a_run_with_its_document() {
    let composed = Composed::start("interrupted", "faults", ONCE, &[]);
    until_it_runs(&composed);
    // As a terminal does: to every process of the group in the foreground.
    send("-INT", &format!("-{}", composed.child.id()));
    let document = document(composed.child);
    let calls = &document["threads"][0];
    assert!(calls["jobs"].as_u64() > Some(0) && calls["failed"] == 0, "{calls}");
}

#[test]
fn a_component_that_has_ended_for_good_ends_the_run_with_its_document() {
    let composed = Composed::start("ended", "faults", ONCE, &[]);
    until_it_runs(&composed);
    assert!(composed.folder.ask(&["kill", "once"]).status.success());
    let output = composed.child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("`once` has ended"), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["threads"][0]["jobs"].as_u64() > Some(0), "{document}");
}

#[test]
fn a_stopped_component_does_not_outlive_a_killed_manager() {
    let stops = ONCE.replace("function = 3", "function = 4");
    let mut composed = Composed::start("orphan", "faults", &stops, &[]);
    until_it_runs(&composed);
    let all = processes(&composed.folder);
    let state = |process: &u32| {
        let mut stat = String::new();
        let file = std::fs::File::open(format!("/proc/{process}/stat"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut stat));
        let after_name = stat.rsplit(") ").next();
        after_name.and_then(|rest| rest.chars().next())
    };
    assert_eq!(all.len(), 1);
    eventually("it is stopped", || state(&all[0]) == Some('T'));
    composed.child.kill().unwrap();
    composed.child.wait().unwrap();
    // Somebody else waits for it, whenever.
    eventually("it has ended", || matches!(state(&all[0]), None | Some('Z')));
}

#[test]
fn a_thread_with_a_budget_is_scheduled_by_its_deadline() {
    let with = |budget: &str| ONCE.replace("period = \"10ms\"", &format!("period = \"10ms\"\n{budget}"));
    let composed = Composed::start("budget", "faults", &with("budget = \"2ms\""), &[]);
    until_it_runs(&composed);
    let manager = composed.child.id();
    let classes = std::fs::read_dir(format!("/proc/{manager}/task"))
        .unwrap()
        .map(|thread| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            let mut fields = stat.rsplit(") ").next().unwrap().split(' ');
            fields.nth(38).unwrap().to_owned()
        });
    // The kernel's number of SCHED_DEADLINE.
    assert_eq!(classes.filter(|class| class == "6").count(), 1);
    let document = end(composed.child);
    let calls = &document["threads"][0];
    assert!(calls["jobs"].as_u64() > Some(0) && calls["failed"] == 0, "{calls}");
    for wrong in [
        "budget = \"20ms\"",
        "budget = \"2ms\"\npriority = 3",
        "priority = 100",
        "budget = \"1us\"",
    ] {
        let composed = Composed::start("budget", "faults", &with(wrong), &[]);
        let output = composed.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("`calls`"),
            "{wrong}: {output:?}"
        );
    }
}

/// Two components, each on a CPU.
const PLACED: &str = r#"
name = "placed"
[transient]
limit = "256KiB"
[[component]]
name = "front"
object = "faults.so"
cpu = FRONT
bound = "500ms"
stack = { size = "16KiB" }
cbuf = { size = "4KiB" }
calls = ["back"]
[[component]]
name = "back"
object = "faults.so"
cpu = BACK
bound = "500ms"
stack = { size = "16KiB" }
[[thread]]
name = "passes"
component = "front"
period = "5ms"
"#;

fn usable_cpus() -> Vec<usize> {
    freehold_linux::sched::allowed_cpus().unwrap()
}

#[test]
fn calls_to_another_cpu_are_counted() {
    let cpus = usable_cpus();
    let on = |front: usize, back: usize| {
        PLACED
            .replace("FRONT", &front.to_string())
            .replace("BACK", &back.to_string())
    };
    let places = [(cpus[0], cpus[0]), (cpus[0], cpus[cpus.len() - 1])];
    for (front, back) in places {
        let composed = Composed::start("placed", "faults", &on(front, back), &[]);
        until_it_runs(&composed);
        let document = end(composed.child);
        let crossed = |name: &str| rows(&document, name)[0]["cross_cpu_calls"].as_u64().unwrap();
        let passes = &document["threads"][0];
        assert_eq!(passes["failed"], 0, "{passes}");
        let all = if front == back {
            0
        } else {
            passes["jobs"].as_u64().unwrap()
        };
        assert_eq!((crossed("front"), crossed("back")), (0, all), "{document}");
    }
    let none = cpus.iter().max().unwrap() + 1;
    let composed = Composed::start("misplaced", "faults", &on(cpus[0], none), &[]);
    let output = composed.child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("`back` is to run on CPU {none}")), "{said}");
}
