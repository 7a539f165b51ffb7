//! `freehold exec --adaptive`: Adaptive Page Pinning of programs that know nothing of it. No test looks at times.

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "common/campaign.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use freehold_client::{JobReport, Observer, Options, PinningSettings};
use freehold_core::units::{Duration as Span, PageCount};
use rustix::process::Signal;
use serde_json::Value;
use server::{Managed, Server};

/// No wait of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn compiled(name: &str) -> PathBuf {
    common::compiled(name).expect("a C compiler")
}

fn exec(server: &Server, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("exec").arg("--socket").arg(server.socket()).args(options);
    command
}

/// Runs it to its end with nothing to read.
fn run(server: &Server, options: &[&str]) -> Output {
    let output = exec(server, options).stdin(Stdio::null()).output();
    output.expect("freehold")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const PERIODIC: [&str; 7] = [
    "--adaptive",
    "--preset",
    "paper",
    "--period",
    "40ms",
    "--budget",
    "20ms",
];

/// Whether jobs can be seen here, and threads put into the deadline class; what is missing is said.
fn allowed(server: &Server) -> bool {
    let output = run(server, &[&PERIODIC[..], &["--", "sleep", "0.2"]].concat());
    if !output.status.success() {
        println!("NOT CHECKED: {}", errors(&output));
    }
    output.status.success()
}

/// A program in a pinned page pool.
fn start(server: &Server, options: &[&str], program: &Path, words: &[&str]) -> Managed {
    server.exec_with(&[&PERIODIC[..], options].concat(), program, words)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn pools(server: &Server) -> Vec<Value> {
    let status = server.status();
    status["pinned_pools"].as_array().expect("a list").clone()
}

/// Nothing of a pool is left, and every frame is on the pool's lists or free.
fn expect_nothing_left(server: &Server) {
    server.wait_without("steady");
    wait("the pool is still open", || pools(server).is_empty());
    wait("a frame is lost, or in flight", || {
        let memory = &server.status()["memory"];
        memory["used"] == memory["pool_pages"] && memory["committed"] == 0 && memory["in_flight"] == 0
    });
}

/// The rows of a report, and its last line.
fn report(path: &Path) -> (Vec<Value>, Value) {
    let text = std::fs::read_to_string(path).expect("a report");
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document"))
        .collect();
    let last = lines.pop().expect("a last line");
    lines.remove(0);
    (lines, last)
}

fn kill(process: u64) {
    let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    // It may have ended.
    let _ = rustix::process::kill_process(process.expect("a process"), Signal::KILL);
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("adaptive-{name}-{}", std::process::id()))
}

/// Every number that a program's pool may show at any moment.
fn check(pool: &Value) {
    let (active, inactive) = (number(pool, "active"), number(pool, "inactive"));
    assert_eq!(number(pool, "pinned"), active + inactive, "{pool}");
    assert!(number(pool, "peak") >= active + inactive, "{pool}");
    assert!(number(pool, "swap_budget_ns") <= number(pool, "highest_swap_budget_ns"));
    for rules in ["capacity_rules", "swap_budget_rules"] {
        let rules = pool[rules].as_object().expect("rules");
        let sum: u64 = rules.values().filter_map(Value::as_u64).sum();
        assert_eq!(sum, number(pool, "jobs"), "{pool}");
    }
}

#[test]
fn a_periodic_program_beside_a_hog_gets_pages_by_its_jobs() {
    let server = Server::start("adaptive", &["--pool", "40MiB", "--log-level", "debug"]);
    if !allowed(&server) {
        return;
    }
    let (steady, hog) = (compiled("steady"), compiled("hog"));
    let before = number(&server.status()["pinning"], "jobs");
    let _hog = server.exec(None, &hog, &["60", "1"]);
    let rows = file("report");
    let options = ["--capacity", "16MiB", "--report-jobs", rows.to_str().expect("a path")];
    let mut program = start(&server, &options, &steady, &["4", "100", "40000"]);
    let mut explained = String::new();
    wait("no page was pinned", || {
        let pool = pools(&server).pop().expect("the pool");
        check(&pool);
        explained = explain(&server, &server.clients("steady")[0]);
        number(&pool, "pinned_total") > 0
    });
    assert!(
        explained.contains("has no reservation, but a pinned page pool"),
        "{explained}"
    );
    assert!(explained.contains("pinning: pinned page pool steady"), "{explained}");
    let top = common::freehold(&["top", "--once", "--socket"])
        .arg(server.socket())
        .output();
    let top = String::from_utf8_lossy(&top.expect("freehold").stdout).into_owned();
    assert!(top.contains("pinned page pools") && top.contains("(pinned)"), "{top}");
    let metrics = metrics(&server);
    for name in [
        "capacity_pages",
        "pinned_pages",
        "swap_budget_seconds",
        "judgements_total",
    ] {
        assert!(
            metrics.contains(&format!("freehold_pinned_pool_{name}{{pool=\"steady")),
            "{name}: {metrics}"
        );
    }
    program.expect_line("done");
    let pool = pools(&server).pop().expect("the pool");
    check(&pool);
    assert!(number(&pool, "jobs") > 0);
    assert_ne!(number(&pool, "capacity"), 4096, "judgements move it: {pool}");
    let (status, _, errors) = program.rest();
    assert!(status.success() && errors.contains(" judged, at last "), "{errors}");
    let (rows, last) = report(&rows);
    let judged = rows.iter().filter(|row| row["judgement"].is_object());
    assert_eq!(judged.count() as u64, number(&last, "judgements"));
    expect_nothing_left(&server);
    let after = number(&server.status()["pinning"], "jobs");
    assert_eq!(
        after - before,
        number(&last, "judgements"),
        "as many judgements as jobs reported"
    );
}

#[test]
fn pages_are_brought_back_before_releases_where_that_is_asked_for() {
    let server = Server::start("adaptive-restore", &["--pool", "40MiB"]);
    if !allowed(&server) {
        return;
    }
    let (steady, hog) = (compiled("steady"), compiled("hog"));
    let _hog = server.exec(None, &hog, &["60", "1"]);
    let rows = file("restored-rows");
    let options = [
        "--capacity",
        "16KiB",
        "--highest-capacity",
        "16KiB",
        "--restore",
        "200",
        "--report-jobs",
    ];
    let options = [&options[..], &[rows.to_str().expect("a path")]].concat();
    let mut program = start(&server, &options, &steady, &["8", "100", "40000"]);
    program.expect_line("done");
    let pool = pools(&server).pop().expect("the pool");
    check(&pool);
    assert_eq!(number(&pool, "restore"), 200, "{pool}");
    let restored = number(&pool, "restored");
    assert!(restored > 0 && restored <= 200 * number(&pool, "jobs"), "{pool}");
    assert!(metrics(&server).contains("freehold_pinned_pool_restored_total{pool=\"steady"));
    let (status, _, errors) = program.rest();
    assert!(
        status.success() && errors.contains("brought back before releases"),
        "{errors}"
    );
    let (rows, _) = report(&rows);
    let counts = rows
        .iter()
        .filter_map(|row| row["judgement"]["restored_pages"].as_u64());
    assert!(counts.max().expect("judgements") > 0);
    expect_nothing_left(&server);
}

fn explain(server: &Server, client: &Value) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["explain", &number(client, "pid").to_string(), "--socket"]);
    let output = command.arg(server.socket()).output().expect("freehold");
    String::from_utf8(output.stdout).expect("text")
}

fn metrics(server: &Server) -> String {
    let observer = observer(server);
    observer
        .ask(freehold_client::Question::Metrics, "")
        .expect("a document")
}

#[test]
fn whoever_is_killed_leaves_no_pool() {
    let server = Server::start("adaptive-killed", &["--pool", "40MiB"]);
    if !allowed(&server) {
        return;
    }
    let steady = compiled("steady");
    let words = ["4", "100000", "40000"];
    // The program: exec ends, and the pool with it.
    let mut program = start(&server, &[], &steady, &words);
    assert_eq!(pools(&server).len(), 1);
    kill(number(&server.clients("steady")[0], "pid"));
    let (status, ..) = program.rest();
    assert!(!status.success());
    expect_nothing_left(&server);
    // The command: the program goes on in its pool, and nobody judges its jobs any more.
    let mut program = start(&server, &[], &steady, &words);
    program.child.kill().expect("a child");
    let client = server.clients("steady").pop().expect("it goes on");
    assert_eq!(client["tasks"][0]["pinned_pool"], pools(&server)[0]["name"]);
    kill(number(&client, "pid"));
    let _ = program.child.wait();
    expect_nothing_left(&server);
}

#[test]
fn where_no_budget_is_enforced_that_is_said() {
    let server = Server::start("adaptive-class", &["--pool", "40MiB"]);
    if !allowed(&server) {
        return;
    }
    let steady = compiled("steady");
    let mut program = start(&server, &["--class", "none"], &steady, &["1", "5", "40000"]);
    let pool = pools(&server).pop().expect("the pool");
    assert_eq!(pool["policy"], "app-no-budget, paper", "{pool}");
    let (status, _, said) = program.rest();
    assert!(
        status.success() && said.contains("nobody enforces its budget"),
        "{said}"
    );
    let output = run(&server, &[&PERIODIC[..], &["--", "sleep", "0.2"]].concat());
    assert!(
        errors(&output).contains("enforced at a tick of "),
        "{}",
        errors(&output)
    );
}

#[test]
fn settings_that_cannot_be_are_refused_with_a_reason() {
    let server = Server::start("adaptive-refused", &["--pool", "40MiB"]);
    let usage: [(&[&str], &str); 9] = [
        (&["--adaptive"], "--period"),
        (&["--adaptive", "--period", "40ms"], "--budget"),
        (
            &["--adaptive", "--period", "4ms", "--budget", "5ms"],
            "not over --period",
        ),
        (&["--adaptive", "--period", "40ms", "--budget", "20us"], "tick"),
        (&["--alpha", "0.5"], "--adaptive"),
        (
            &["--adaptive", "--period", "40ms", "--budget", "20ms", "--alpha", "0"],
            "at most 1",
        ),
        (
            &["--adaptive", "--period", "40ms", "--budget", "20ms", "--beta", "1.5"],
            "at most 1",
        ),
        (
            &["--adaptive", "--period", "40ms", "--budget", "20ms", "--gamma", "0"],
            "gamma",
        ),
        (
            &[
                "--adaptive",
                "--period",
                "40ms",
                "--budget",
                "20ms",
                "--reserve",
                "8MiB",
            ],
            "--reserve",
        ),
    ];
    for (options, word) in usage {
        let output = run(&server, &[options, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(125), "{options:?}: {}", errors(&output));
        assert!(errors(&output).contains(word), "{options:?}: {}", errors(&output));
    }
    let small = ["--capacity", "8MiB", "--highest-capacity", "4MiB", "--", "true"];
    let output = run(&server, &[&PERIODIC[..], &small].concat());
    assert_eq!(output.status.code(), Some(125));
    assert!(errors(&output).contains("begin with fewer"), "{}", errors(&output));
    assert!(pools(&server).is_empty());
}

fn observer(server: &Server) -> Observer {
    let mut options = Options::named("test");
    options.socket = Some(server.socket());
    Observer::connect(&options).expect("a connection")
}

fn settings() -> PinningSettings {
    PinningSettings {
        initial_capacity: PageCount::new(1000),
        highest_capacity: PageCount::new(1010),
        highest_swap_budget: millis(10),
        ..PinningSettings::paper(millis(5), millis(30))
    }
}

fn millis(count: u64) -> Span {
    Span::new(count * 1_000_000)
}

#[test]
fn the_server_believes_no_claim() {
    let server = Server::start("adaptive-claims", &["--pool", "40MiB"]);
    let observer = observer(&server);
    let change = |with: fn(&mut PinningSettings)| {
        let mut settings = settings();
        with(&mut settings);
        settings
    };
    for (settings, word) in [
        (change(|all| all.budget = Span::ZERO), "not over the period"),
        (change(|all| all.budget = millis(60)), "not over the period"),
        (change(|all| all.highest_swap_budget = all.period), "swap budget"),
        (change(|all| all.gamma = 0), "gamma"),
        (
            change(|all| all.highest_capacity = PageCount::new(999)),
            "begin with fewer",
        ),
    ] {
        let refused = observer.open_pool("wrong", settings).expect_err("refused").to_string();
        assert!(refused.contains(word), "{word}: {refused}");
    }
    assert!(pools(&server).is_empty());
    // As many as a connection may hold, and not one more.
    let mut all = Vec::new();
    let refused = loop {
        match observer.open_pool("one of many", settings()) {
            Ok(pool) => all.push(pool),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        all.len() == 16 && refused.contains("at most 16"),
        "{}: {refused}",
        all.len()
    );
    drop(observer);
    drop(all);
    wait("pools are left", || pools(&server).is_empty());
}

#[test]
fn jobs_are_judged_by_the_algorithms() {
    let server = Server::start("adaptive-judged", &["--pool", "40MiB"]);
    let pool = observer(&server).open_pool("right", settings()).expect("a pool");
    let late = JobReport {
        missed: true,
        running: millis(5),
        swap_ins: 8,
        swap_time: millis(7),
        ..JobReport::default()
    };
    let judged = |job: &JobReport| {
        let judged = pool.judge(job, None).expect("a judgement").judgement;
        (judged.capacity.get(), judged.swap_budget)
    };
    assert_eq!(judged(&late), (1008, millis(7)));
    assert_eq!(judged(&late), (1010, millis(10)), "as far as allowed");
    let met = JobReport {
        running: millis(1),
        remaining: millis(14),
        ..JobReport::default()
    };
    assert_eq!(judged(&met), (989, millis(8)));
    let found = pools(&server).pop().expect("the pool");
    check(&found);
    let rules = &found["capacity_rules"];
    assert_eq!(
        (
            number(rules, "grown"),
            number(rules, "at-limit"),
            number(rules, "shrunk")
        ),
        (1, 1, 1)
    );
    assert_eq!((number(&found, "jobs"), number(&found, "misses")), (3, 2));
    drop(pool);
    assert!(pools(&server).is_empty());
}
