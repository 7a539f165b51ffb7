//! Compositions: an HTTP service of components under load, of which one is killed; and what is refused.
#![allow(clippy::unwrap_used, reason = "tests")]

mod components;

use components::{Composed, Folder, PATIENCE, document, end, rows};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// Starts a service of the example, whose first front listens there.
fn start(folder: &Folder, file: &str, port: u16, options: &[&str]) -> Child {
    let mut command = folder.run(file, options);
    command.env("FREEHOLD_HTTP_PORT", port.to_string()).spawn().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The answer to one request; nothing where nobody listens.
fn get(port: u16, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    connection
        .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn is_served(answer: Option<&String>) -> bool {
    answer
        .is_some_and(|answer| answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("\r\n\r\nserved by components\n"))
}

fn until_served(port: u16) {
    let began = Instant::now();
    while !is_served(get(port, "/").as_ref()) {
        assert!(began.elapsed() < PATIENCE, "the service does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_service_goes_on_when_a_component_is_killed() {
    let folder = Folder::of_example("killed");
    let port = free_port();
    let child = start(&folder, "http.toml", port, &[]);
    until_served(port);
    for _ in 0..100 {
        assert!(is_served(get(port, "/").as_ref()));
    }
    assert!(get(port, "/nothing").unwrap().starts_with("HTTP/1.0 404 "));
    for name in ["http ", "files ", "log "] {
        folder.until_shown(name);
    }
    assert!(folder.ask(&["kill", "files"]).status.success());
    // Whatever comes meanwhile is answered; nobody waits for ever.
    folder.until_shown("restarts 1");
    until_served(port);
    for _ in 0..100 {
        assert!(is_served(get(port, "/").as_ref()));
    }
    let document = end(child);
    assert_eq!(
        rows(&document, "files")
            .iter()
            .map(|row| row["restarts"].as_u64())
            .max(),
        Some(Some(1))
    );
    assert_eq!(rows(&document, "http")[0]["restarts"], 0);
    let thread = &document["threads"][0];
    assert!(thread["jobs"].as_u64() > Some(0) && thread["failed"] == 0);
    let memory = &document["transient"];
    assert!(
        memory["resident_measured"].as_u64() <= memory["granted"].as_u64(),
        "{memory}"
    );
    assert!(memory["peak"].as_u64() <= memory["limit"].as_u64());
    assert_eq!(String::from_utf8(folder.ask(&["ps"]).stdout).unwrap(), "");
}

#[test]
fn the_same_objects_run_in_one_address_space_under_each_policy() {
    let folder = Folder::of_example("shared");
    for policy in ["tmem", "min", "static", "fair", "greedy"] {
        let port = free_port();
        let child = start(&folder, "http.toml", port, &["--space", "shared", "--policy", policy]);
        until_served(port);
        let document = end(child);
        assert_eq!(
            (&document["space"], &document["policy_name"]),
            (&"shared".into(), &policy.into())
        );
        assert!(document["transient"]["granted"].as_u64() <= document["transient"]["limit"].as_u64());
    }
}

/// The first of as many ports in a row that are free now.
fn free_ports(count: u16) -> u16 {
    loop {
        let first = free_port();
        let all = (0..count).map_while(|at| TcpListener::bind(("127.0.0.1", first.checked_add(at)?)).ok());
        if all.collect::<Vec<_>>().len() == usize::from(count) {
            return first;
        }
    }
}

#[test]
fn a_service_of_twelve_processes_counts_answers_by_class() {
    let folder = Folder::of_example("classes");
    let port = free_ports(8);
    let child = start(&folder, "service.toml", port, &["--policy", "tmem"]);
    let served = |front: u16| get(port + front, "/").is_some_and(|answer| answer.ends_with("served by components\n"));
    let began = Instant::now();
    while !(0..8).all(served) {
        assert!(began.elapsed() < PATIENCE, "the service does not answer");
    }
    folder.until_shown(" service  restarts 0");
    let processes = String::from_utf8(folder.ask(&["ps"]).stdout).unwrap();
    assert_eq!(processes.matches(" service  restarts 0").count(), 12, "{processes}");
    std::thread::scope(|threads| {
        for front in 0..8 {
            threads.spawn(move || (0..25).for_each(|_| assert!(get(port + front, "/a.html").is_some())));
        }
    });
    let document = end(child);
    let [fast, others] = [0, 1].map(|class| &document["classes"][class]);
    assert_eq!((&fast["name"], &others["name"]), (&"fast".into(), &"others".into()));
    // At least those that were answered here; the last may be counted after its answer.
    assert!(
        fast["jobs"].as_u64() >= Some(25) && others["jobs"].as_u64() >= Some(7 * 25),
        "{fast} {others}"
    );
    assert!(fast["response_mean_ns"].as_u64() > Some(0) && others["late"] == 0);
    assert_eq!(rows(&document, "front1")[0]["restarts"], 0);
}

#[test]
fn a_circle_of_calls_and_unknown_names_are_refused() {
    let folder = Folder::of_example("refused");
    let file = folder.0.join("http.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("contexts = 2\n", "calls = [\"http\"]\n")).unwrap();
    let output = start(&folder, "http.toml", 0, &[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("could wait for itself"));
    assert_eq!(folder.ask(&["kill", "nobody"]).status.code(), Some(1));
}

/// Runs a composition of the component `tests/programs/hold.c` to its end; the runs of its policy stand in `trace`.
fn run_held(name: &str, text: &str, options: &[&str]) -> serde_json::Value {
    let Composed { folder, child } = Composed::start(name, "hold", text, options);
    let mut document = document(child);
    let trace = std::fs::read_to_string(folder.0.join("trace.json")).unwrap();
    let lines = trace
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    document["trace"] = lines.collect();
    document
}

/// Three threads want the only buffer at the same time; whoever of them is ordinary lends nothing.
const CONTENDED: &str = r#"
name = "contended"
[transient]
limit = "256KiB"
[[component]]
name = "hold"
object = "hold.so"
contexts = 4
bound = "5s"
stack = { size = "16KiB", minimum = 4, most = 8 }
cbuf = { size = "16KiB", minimum = 1, most = 8 }
[[thread]]
name = "first"
component = "hold"
arguments = [3000]
period = "10ms"
deadline = "4ms"
[[thread]]
name = "second"
component = "hold"
arguments = [3000]
period = "10ms"
deadline = "4ms"
[[thread]]
name = "third"
component = "hold"
arguments = [3000]
period = "10ms"
deadline = "4ms"
"#;

#[test]
fn buffers_come_to_who_is_late_and_waits_count_for_its_jobs() {
    let document = run_held("late", CONTENDED, &["--duration", "4s", "--policy", "tmem"]);
    let buffers = rows(&document, "hold")[1];
    assert_eq!((&buffers["kind"], &buffers["overruns"]), (&"cbuf".into(), &0.into()));
    assert!(
        buffers["contended"].as_u64() > Some(0) && buffers["granted"].as_u64() > Some(0),
        "{buffers}"
    );
    let memory = &document["transient"];
    assert!(
        memory["resident_measured"].as_u64() <= memory["granted"].as_u64(),
        "{memory}"
    );
    let mut waits = 0;
    for thread in document["threads"].as_array().unwrap() {
        assert!(thread["jobs"].as_u64() > Some(0) && thread["failed"] == 0, "{thread}");
        let blocked = thread["blocked"].as_array().unwrap();
        assert!(
            blocked
                .iter()
                .all(|row| row["kind"] == "cbuf" && row["time_ns"].as_u64() > Some(0)),
            "{thread}"
        );
        waits += blocked.iter().filter_map(|row| row["count"].as_u64()).sum::<u64>();
    }
    // Callees wait, each for the job that it serves: no wait is nobody's.
    assert_eq!(Some(waits), buffers["contended"].as_u64());
    // The trace tells of the time before: units were borrowed, and more were wanted.
    let trace = document["trace"].as_array().unwrap();
    assert!(trace.iter().any(|line| line["borrowed_pages"].as_u64() > Some(0)));
    let cbuf = |line: &serde_json::Value, what: &str| line["components"][1][what].as_u64().unwrap();
    assert!(
        trace
            .iter()
            .any(|line| cbuf(line, "desired") > 1 && cbuf(line, "requested") > 1)
    );
    assert!(trace.iter().all(|line| cbuf(line, "allocated") <= 8));
}

#[test]
fn units_unused_for_four_runs_are_given_back() {
    // The second and the third thread end their work for good after the first second: their period is long.
    let text = CONTENDED.replace(
        "name = \"second\"\ncomponent = \"hold\"\narguments = [3000]\nperiod = \"10ms\"",
        "name = \"second\"\ncomponent = \"hold\"\narguments = [300000]\nperiod = \"60s\"",
    );
    let text = text.replace(
        "name = \"third\"\ncomponent = \"hold\"\narguments = [3000]\nperiod = \"10ms\"",
        "name = \"third\"\ncomponent = \"hold\"\narguments = [300000]\nperiod = \"60s\"",
    );
    let held = Composed::start("idle", "hold", &text, &["--policy", "tmem"]);
    let units = |line: &serde_json::Value, what: &str| line["components"][1][what].as_u64().unwrap();
    // It runs until its buffers came and went, however long that takes.
    let began = Instant::now();
    let trace = loop {
        let trace = held.trace();
        let came = trace.iter().position(|line| units(line, "allocated") > 1);
        if came.is_some_and(|came| trace[came..].iter().any(|line| units(line, "allocated") == 1)) {
            break trace;
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", trace.last());
        std::thread::sleep(Duration::from_millis(20));
    };
    let document = end(held.child);
    // A buffer goes in the fourth run of which none wanted it, not before and not later.
    for (run, four) in trace.windows(4).enumerate() {
        let wanted = four.iter().map(|line| units(line, "requested")).max().unwrap();
        let (before, desired) = (units(&four[2], "desired"), units(&four[3], "desired"));
        assert!(desired >= before.min(wanted.max(1)), "run {run}: {four:?}");
        assert!(desired <= wanted.max(1), "run {run}: {four:?}");
    }
    let buffers = rows(&document, "hold")[1];
    assert!(buffers["taken"].as_u64() > Some(0), "{buffers}");
}

/// A thread of the component's own wants the only buffer, which a call has taken and not released.
const KEPT: &str = r#"
name = "kept"
[transient]
limit = "256KiB"
[[component]]
name = "hold"
object = "hold.so"
bound = "200ms"
stack = { size = "16KiB" }
cbuf = { size = "16KiB" }
restart_hung = true
[[thread]]
name = "begins"
component = "hold"
function = 4
period = "60s"
[[thread]]
name = "keeps"
component = "hold"
function = 1
period = "2s"
"#;

#[test]
fn a_component_that_keeps_a_unit_is_started_again_where_its_file_says_so() {
    let document = run_held("kept", KEPT, &["--duration", "5s", "--policy", "min"]);
    let row = rows(&document, "hold")[1];
    assert_eq!(row["restarts"], 1, "{row}");
    assert!(row["overruns"].as_u64() > Some(0), "{row}");
    // Calls go on afterwards.
    let keeps = &document["threads"][1];
    assert!(keeps["jobs"].as_u64() > Some(1), "{keeps}");
    assert_eq!(keeps["failed"], 0, "{keeps}");
}

/// `front` waits for `hangs` in each call; `stops` and `stays` are called directly.
const STALLED: &str = r#"
name = "stalled"
[transient]
limit = "512KiB"
[[component]]
name = "front"
object = "hold.so"
bound = "300ms"
stack = { size = "16KiB" }
calls = ["hangs"]
restart_hung = true
[[component]]
name = "hangs"
object = "hold.so"
bound = "300ms"
stack = { size = "16KiB" }
restart_hung = true
[[component]]
name = "stops"
object = "hold.so"
bound = "50ms"
stack = { size = "16KiB" }
restart_hung = true
[[component]]
name = "stays"
object = "hold.so"
bound = "300ms"
stack = { size = "16KiB" }
[[thread]]
name = "through"
component = "front"
function = 3
period = "20ms"
[[thread]]
name = "stopping"
component = "stops"
function = 2
arguments = [1]
period = "20ms"
[[thread]]
name = "staying"
component = "stays"
function = 2
period = "20ms"
"#;

#[test]
fn a_component_that_hangs_in_a_call_is_started_again_and_not_who_waits_for_it() {
    let document = run_held("stalled", STALLED, &["--duration", "4s"]);
    let restarts = |name: &str| rows(&document, name)[0]["restarts"].as_u64().unwrap();
    assert_eq!((restarts("front"), restarts("stays")), (0, 0), "{document}");
    assert!(restarts("hangs") > 0 && restarts("stops") > 0, "{document}");
    let threads = document["threads"].as_array().unwrap();
    for (thread, goes_on) in threads.iter().zip([true, true, false]) {
        let (jobs, failed) = (thread["jobs"].as_u64().unwrap(), thread["failed"].as_u64().unwrap());
        assert!(failed > 0 && (jobs > failed + 5) == goes_on, "{thread}");
    }
}
