//! Scenarios with their pages brought by a memory server. Counts, laws and statuses, never absolute times.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{SERVED, Scratch, children, count, document, freehold, run, scenarios, served, status, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn assert_sound(result: &Value) {
    assert_eq!(result["placement"], "server");
    assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{result}");
    assert!(count(&result["laws"], "checked") > 0, "{result}");
    assert!(result["lock"].is_null(), "{result}");
    for task in result["tasks"].as_array().expect("tasks") {
        assert_eq!(count(task, "failed_accesses"), 0, "{task}");
    }
}

/// Waits until something is there.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The server that a run has started: its only child.
fn server_of(run: &Child) -> Pid {
    wait("the run's server", || {
        let server = *children(run.id()).first()?;
        Pid::from_raw(server.cast_signed())
    })
}

fn is_there(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    // One that nobody has waited for is no process any more.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Whether the run's tasks are at work: everything has been set up.
fn is_at_work(run: &Child) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", run.id())) else {
        return false;
    };
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "tight")
}

#[test]
fn conservation_protects_across_the_process_boundary_as_it_does_inside() {
    let demo = [
        "scenarios/two-tasks-none.toml",
        "scenarios/two-tasks-spc.toml",
        "scenarios/two-tasks-spel.toml",
    ];
    let output = served(&[&["--json", "--set", "duration=1s"][..], &demo].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let runs = document(&output)["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 3);
    runs.iter().for_each(assert_sound);
    // Which pages are lost does not depend on time: tau2's second job evicts what it has of the region.
    let none = &runs[0]["tasks"][0];
    assert!(count(none, "shared_swap_ins") > 0, "{none}");
    assert_eq!(count(none, "shared_swap_ins"), count(none, "swap_ins"), "{none}");
    for result in &runs[1..] {
        let tau1 = &result["tasks"][0];
        let lost = (
            count(tau1, "shared_swap_ins"),
            count(tau1, "swap_ins"),
            count(tau1, "evictions"),
        );
        assert_eq!(lost, (0, 0, 0), "{tau1}");
    }
    let used = |result: &Value| count(&result["memory"], "used");
    assert!(
        used(&runs[2]) < used(&runs[1]),
        "one of two lockers pays for the region"
    );
}

#[test]
fn every_scenario_runs_that_needs_no_view() {
    for file in scenarios("scenarios") {
        let output = served(&["--json", "--set", "duration=1200ms", &file]);
        if file.contains("copy-on-write") {
            assert_eq!(status(&output), 2, "{file}: {}", stderr(&output));
            continue;
        }
        assert_eq!(status(&output), 0, "{file}: {}", stderr(&output));
        assert_sound(&document(&output));
    }
}

/// A server of the test's own.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(name: &str) -> Self {
        let socket = std::env::temp_dir().join(format!("freehold-{}-{name}.sock", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let process = freehold(&["serve", "--pool", "64MiB", "--log-level", "warn", "--socket"])
            .arg(&socket)
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        wait("the socket", || socket.exists().then_some(()));
        Self { process, socket }
    }

    fn path(&self) -> &str {
        self.socket.to_str().expect("a path of text")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A server that is killed leaves both.
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.socket.with_extension("sock.lck"));
    }
}

#[test]
fn several_runs_use_one_server_and_leave_nothing_in_it() {
    let server = Server::start("several");
    let start = |file: &str| {
        freehold(&SERVED)
            .args(["--json", "--set", "duration=500ms", "--socket", server.path(), file])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a run")
    };
    let runs = [
        start("scenarios/private-only.toml"),
        start("scenarios/private-only.toml"),
    ];
    for run in runs {
        let output = run.wait_with_output().expect("an end");
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let result = document(&output);
        assert_sound(&result);
        assert_eq!(count(&result["tasks"][0], "zero_fills"), 256);
        assert_eq!(
            count(&result["tasks"][0], "swap_ins"),
            0,
            "a task inside its reservation, in company"
        );
    }
    wait("an empty server", || {
        let output = run(&["status", "--json", "--socket", server.path()]);
        let status = document(&output);
        let empty = |key: &str| status[key].as_array().is_some_and(Vec::is_empty);
        (empty("reservations") && empty("objects") && empty("clients")).then_some(())
    });
}

fn start_long() -> Child {
    freehold(&SERVED)
        .args(["--set", "duration=60s", "scenarios/private-only.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a run")
}

#[test]
fn a_run_that_is_killed_takes_its_server_with_it() {
    let mut long = start_long();
    let server = server_of(&long);
    wait("the run's tasks", || is_at_work(&long).then_some(()));
    long.kill().expect("the run can be killed");
    long.wait().expect("an end");
    wait("the end of the server", || (!is_there(server)).then_some(()));
}

#[test]
fn a_run_whose_server_is_killed_ends_and_says_why() {
    let long = start_long();
    let server = server_of(&long);
    wait("the run's tasks", || is_at_work(&long).then_some(()));
    kill_process(server, Signal::KILL).expect("the server can be killed");
    let output = long.wait_with_output().expect("an end");
    assert_eq!(output.status.signal(), Some(9), "{}", stderr(&output));
    assert!(stderr(&output).contains("memory server"), "{}", stderr(&output));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let output = served(&["--socket", "/nowhere/freehold.sock", "scenarios/private-only.toml"]);
    assert_eq!(status(&output), 1);
    assert!(
        stderr(&output).contains("/nowhere/freehold.sock"),
        "{}",
        stderr(&output)
    );
    assert!(!Path::new("/nowhere").exists());
}

/// The rows of an experiment, and what was said of it.
fn reproduced(name: &str) -> (Vec<Value>, String) {
    let arguments = ["reproduce", name, "--engine", "live", "--placement", "server", "--json"];
    let output = run(&arguments);
    // 1 is a claim that does not hold: which those are is looked at by itself.
    assert!(status(&output) <= 1, "{name}: {}", stderr(&output));
    let rows = document(&output)["rows"].as_array().expect("rows").clone();
    (rows, stderr(&output))
}

#[test]
fn an_experiment_that_counts_pages_holds_with_a_server() {
    let (rows, _) = reproduced("spc-table3");
    assert_eq!(rows.len(), 18);
    for row in rows {
        let what = row["what"].as_str().expect("text");
        if what.ends_with("measured") {
            // Frames that hold no page need not be there: the run's warnings say how many are not.
            assert!(row["ours"].as_f64() <= row["paper"].as_f64(), "{row}");
        } else {
            assert_eq!(row["holds"], true, "{row}");
        }
    }
}

#[test]
fn an_experiment_leaves_out_by_name_what_is_not_the_servers() {
    let (rows, said) = reproduced("spc-table2");
    assert_eq!(rows.len(), 12, "{rows:?}");
    assert!(said.contains("left out with --placement server"), "{said}");
}

#[test]
fn sizing_runs_with_a_server() {
    let output = run(&[
        "size",
        "scenarios/private-only.toml",
        "--task=steady",
        "--engine=live",
        "--placement=server",
        "--step=1MiB",
        "--set=duration=200ms",
        "--json",
    ]);
    // Whether deadlines are kept is the machine's affair now; every size tried has been run.
    assert!(status(&output) <= 1, "{}", stderr(&output));
    let answer = document(&output);
    assert_eq!(answer["engine"], "live");
    assert!(count(&answer, "tried") > 0, "{answer}");
}

/// What a task did to its pages, whatever the clock says.
fn counts_of(result: &Value) -> Vec<Vec<u64>> {
    let keys = [
        "jobs",
        "soft_faults",
        "zero_fills",
        "write_faults",
        "swap_ins",
        "shared_swap_ins",
        "evictions",
    ];
    let tasks = result["tasks"].as_array().expect("tasks");
    tasks
        .iter()
        .map(|task| keys.iter().map(|key| count(task, key)).collect())
        .collect()
}

/// Scenarios whose tasks have nothing to do with each other's pages, nor more to do than there is time for: what
/// happens to their pages is the same, whatever the order between tasks is.
const ALONE: [(&str, &[&str]); 4] = [
    ("scenarios/private-only.toml", &[]),
    ("experiments/spc-fig8-tau1.toml", &["duration=500ms"]),
    ("experiments/spc-fig8-tau2.toml", &["duration=2s"]),
    (
        "experiments/spc-fig8-tau2.toml",
        &["duration=2s", "reservation.r2.size=1MiB"],
    ),
];

/// A task without a reservation beside one that goes through more than there is.
const PINNED: &str = r#"
name = "beside-a-hog"
duration = "1200ms"
machine.cpus = 2
memory.pool = "2MiB"
memory.swap = { store = "memory", latency = "20us" }

[[region]]
name = "own"
size = "640KiB"
sharing = "none"

[[region]]
name = "much"
size = "4MiB"
sharing = "none"

[[task]]
name = "soft"
class = "deadline"
period = "20ms"
budget = "8ms"
pinning = "all"
[[task.access]]
region = "own"
write = true

[[task]]
name = "hog"
class = "best-effort"
cpus = [1]
[[task.access]]
region = "much"
pattern = "random"
amount = "512KiB"
write = true
"#;

#[test]
fn pinned_page_pools_are_the_servers_and_jobs_are_judged_there() {
    let file = Scratch::new("pinned-served", PINNED);
    let output = served(&["--json", file.path()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    assert_sound(&found);
    let (soft, hog) = (&found["tasks"][0], &found["tasks"][1]);
    assert_eq!(
        (count(soft, "pinned_pages"), count(soft, "swap_ins")),
        (160, 0),
        "{soft}"
    );
    assert!(count(hog, "swap_ins") > 0, "{hog}");
    for (pinning, capacity) in [("app", "64KiB"), ("app-no-budget", "8KiB")] {
        let sets = [
            format!("task.soft.pinning={pinning}"),
            "task.soft.app.preset=paper".to_owned(),
            format!("task.soft.app.capacity={capacity}"),
        ];
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let output = served(&["--json", file.path()].into_iter().chain(sets).collect::<Vec<_>>());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let found = document(&output);
        assert_sound(&found);
        let soft = &found["tasks"][0];
        assert!(soft["capacity_pages"].is_u64(), "{soft}");
        assert!(count(soft, "job_swap_ins_max") <= count(soft, "swap_ins"), "{soft}");
        assert!(pinning == "app" || count(soft, "swap_budget_ns") == 0, "{soft}");
    }
    // The default preset brings pages back.
    let options = ["--json", file.path(), "--set", "task.soft.pinning=app"];
    let output = served(&options);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    assert_sound(&found);
    let soft = &found["tasks"][0];
    assert!(count(soft, "restored") <= 1024 * count(soft, "jobs"), "{soft}");
    let output = served(&[&["--lockstep"], &options[..]].concat());
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("soft: pages cannot be restored in lockstep with a server"),
        "{}",
        stderr(&output)
    );
}

/// A served run, if all its jobs kept their deadlines.
fn in_time(file: &str, sets: &[&str]) -> Option<Value> {
    let output = served(&[&["--json", file][..], sets].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found = document(&output);
    assert_sound(&found);
    let tasks = found["tasks"].as_array().expect("tasks");
    let late = tasks.iter().any(|task| count(task, "misses") > 0);
    (!late).then_some(found)
}

#[test]
fn a_server_counts_what_the_simulator_does_where_no_order_depends_on_time() {
    for (file, sets) in ALONE {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let simulated = run(&[&["run", "--json", file][..], &sets].concat());
        assert_eq!(status(&simulated), 0, "{}", stderr(&simulated));
        let simulated = document(&simulated);
        let Some(found) = (0..3).find_map(|_| in_time(file, &sets)) else {
            println!("not compared: {file}: the machine was late three times, and a late job may not end");
            continue;
        };
        assert_eq!(counts_of(&found), counts_of(&simulated), "{file}");
        assert_eq!(found["memory"]["used"], simulated["memory"]["used"], "{file}");
    }
}

/// A task that reads a file of which little fits, from a store that takes its time.
const SLOW_FILE: &str = r#"
name = "slow-file"
duration = "1s"
memory.pool = "8MiB"
memory.swap = { store = "memory", latency = "1ms" }

[[region]]
name = "library"
size = "4MiB"
kind = "file"

[[reservation]]
name = "log"
size = "1MiB"

[[task]]
name = "log"
reservation = "log"
access = [{ region = "library", amount = "256KiB" }]
"#;

/// What is declared of the store holds for regions of kind file as for others: a second has time for a thousand pages.
#[test]
fn pages_of_files_take_the_time_that_is_declared() {
    let scenario = Scratch::new("slow-file", SLOW_FILE);
    let output = served(&["--json", scenario.path()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let result = document(&output);
    let jobs = count(&result["tasks"][0], "jobs");
    // 64 pages a job; read past the store there would be hundreds of jobs.
    assert!((1..=17).contains(&jobs), "{jobs} jobs in the time for 16: {result}");
}
