//! The command with the live engine: real pages, threads and signals. Counts, laws and statuses, never absolute times.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, count, document, freehold, root, run, scenarios, status, stderr, stdout};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

const DEMO: [&str; 3] = [
    "scenarios/two-tasks-none.toml",
    "scenarios/two-tasks-spc.toml",
    "scenarios/two-tasks-spel.toml",
];

/// Longer than any of these runs may take to end once it is told to.
const PATIENCE: Duration = Duration::from_secs(20);

/// A user who has no right.
const NOBODY: u32 = 65_534;

const SMALL: &str = r#"
name = "small"
duration = "100ms"
memory.pool = "1MiB"
[[region]]
name = "pages"
kind = "private"
size = "64KiB"
[[reservation]]
name = "r"
size = "64KiB"
[[task]]
name = "t"
reservation = "r"
class = "fifo"
period = "10ms"
budget = "5ms"
[[task.access]]
region = "pages"
pattern = "sequential"
amount = "64KiB"
write = true
"#;

/// Runs live, for as long as `--set` says.
fn live(arguments: &[&str]) -> Output {
    run(&[&["run", "--engine", "live"][..], arguments].concat())
}

/// What every live document says by the clock: how long the core's lock was held.
fn assert_timed(result: &Value) {
    assert_sound(result);
    assert!(count(&result["lock"], "longest_hold_ns") > 0, "{result}");
}

/// What every live document says, whatever ran.
fn assert_sound(result: &Value) {
    assert_eq!(result["engine"], "live");
    assert_eq!(result["placement"], "embedded");
    assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{result}");
    assert!(count(&result["laws"], "checked") > 0, "{result}");
    assert_eq!(
        result["memory"]["used"], result["memory"]["resident_measured"],
        "{result}"
    );
    for task in result["tasks"].as_array().expect("tasks") {
        assert!(count(task, "jobs") > 0, "{task}");
    }
}

#[test]
fn the_demo_runs_on_real_pages_and_gives_one_document() {
    let output = live(&[&["--json", "--set", "duration=1s"][..], &DEMO].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let runs = document(&output)["runs"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 3);
    runs.iter().for_each(assert_timed);
    // Which pages are lost does not depend on time: tau2's second job evicts what it has of the region.
    let (none, rest) = (&runs[0]["tasks"], &runs[1..]);
    assert_eq!(
        count(&none[0], "shared_swap_ins"),
        count(&none[0], "swap_ins"),
        "{none}"
    );
    assert!(count(&none[0], "shared_swap_ins") > 0, "{none}");
    for result in rest {
        let tau1 = &result["tasks"][0];
        assert_eq!(
            (count(tau1, "shared_swap_ins"), count(tau1, "evictions")),
            (0, 0),
            "{tau1}"
        );
    }
    // One of two lockers pays for the region.
    let held = |result: &Value| result["memory"]["used"].as_u64();
    assert!(
        held(&runs[2]) < held(&runs[1]),
        "{:?} {:?}",
        held(&runs[2]),
        held(&runs[1])
    );
}

#[test]
fn several_runs_print_one_table() {
    let output = live(&[&["--set", "duration=1s"][..], &DEMO[..2]].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.matches("laws: all held").count(), 1, "{text}");
    assert!(text.contains("another evicted"), "{text}");
    for row in ["two-tasks-none  none", "two-tasks-spc   spc"] {
        assert!(text.contains(row), "{text}");
    }
}

#[test]
fn shipped_scenarios_in_lockstep_break_no_law() {
    for file in scenarios("scenarios") {
        if file.ends_with("copy-on-write.toml") {
            continue;
        }
        let output = live(&[&file, "--lockstep", "--json"]);
        assert_eq!(status(&output), 0, "{file}: {}", stderr(&output));
        assert_sound(&document(&output));
    }
}

#[test]
fn a_figure_of_pinning_is_run_on_real_pages() {
    let output = run(&[
        "reproduce",
        "app-stationary",
        "--engine",
        "live",
        "--duration",
        "3s",
        "--json",
    ]);
    let report = document(&output);
    assert_eq!(report["engine"], "live", "{report}");
    let rows = report["rows"].as_array().expect("rows");
    let named = |what: &str| rows.iter().find(|row| row["what"].as_str() == Some(what));
    for policy in ["app", "app, steady", "app, steady and restore"] {
        // A figure is there only if the jobs' judgements were recorded.
        let mean = named(&format!("{policy}: mean capacity")).and_then(|row| row["ours"].as_f64());
        assert!(mean.is_some_and(|mean| mean >= 0.0), "{policy}: {report}");
        let unseen = named(&format!("{policy}: jobs that were not looked at"));
        assert!(unseen.is_none(), "{report}");
    }
    let holds = rows.iter().all(|row| row["holds"] == true);
    assert_eq!(status(&output), i32::from(!holds), "{}", stderr(&output));
}

#[test]
fn what_cannot_run_live_is_an_input_error() {
    let small = Scratch::new("live-small", SMALL);
    for (arguments, words) in [
        (
            &["scenarios/copy-on-write.toml"][..],
            &["writer-image", "copy-on-write", "--engine sim"][..],
        ),
        (&["scenarios/copy-on-write.toml", "--lockstep"], &["writer-image"]),
        (&[DEMO[1], "--set", "reservation.r2.size=60MiB"], &["r1", "r2", "pool"]),
        (&[small.path(), "--set", "machine.cpus=1000"], &["machine.cpus", "256"]),
        (
            &[small.path(), "--set", "machine.cpus=256"],
            &["machine.cpus", "256 CPUs"],
        ),
    ] {
        let output = live(&[arguments, &["--json"]].concat());
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?}");
        for word in words {
            assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        }
    }
}

/// The entries of a process's folder of threads, or of its children.
fn threads(child: &Child) -> usize {
    fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count)
}

fn children(child: &Child) -> String {
    let (id, mut text) = (child.id(), String::new());
    for thread in fs::read_dir(format!("/proc/{id}/task")).expect("it runs").flatten() {
        text += &fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    }
    text
}

#[test]
fn a_signal_in_the_middle_stops_cleanly_and_prints_what_ran() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = freehold(&["run", DEMO[1], "--engine", "live", "--json", "--set", "duration=3600s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let began = Instant::now();
        // The command, the progress and both tasks.
        while threads(&child) < 3 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(child.try_wait().expect("a child").is_none(), "an hour is long");
        assert_eq!(children(&child), "", "tasks are threads");
        let told = Instant::now();
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        let id = child.id();
        let output = child.wait_with_output().expect("it ends");
        assert!(told.elapsed() < PATIENCE);
        assert_eq!(status(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("stopped"), "{}", stderr(&output));
        assert!(!Path::new(&format!("/proc/{id}/task")).exists(), "threads are left");
        let result = document(&output);
        assert_timed(&result);
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("stopped"), "the document does not say so: {warnings}");
    }
}

#[test]
fn this_machine_can_run_live() {
    let output = run(&["doctor", "--json"]);
    assert_eq!(status(&output), 0, "{}", stdout(&output));
    assert_eq!(document(&output)["live"], true);
}

/// A folder that everybody can read, with the command in it; it is removed at the end.
struct Public(PathBuf);

impl Public {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-public-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let public = Self(folder);
        fs::copy(env!("CARGO_BIN_EXE_freehold"), public.0.join("freehold")).expect("a copy");
        fs::copy(root().join(DEMO[1]), public.0.join("spc.toml")).expect("a copy");
        fs::write(public.0.join("small.toml"), SMALL).expect("a file");
        for file in ["", "freehold", "spc.toml", "small.toml"] {
            fs::set_permissions(public.0.join(file), Permissions::from_mode(0o755)).expect("open to all");
        }
        public
    }

    /// Runs the command without any right: as nobody where the tests are run by root, else as whoever runs them.
    fn run_without_rights(&self, arguments: &str) -> Output {
        let mut command = Command::new("sh");
        // The child's own limits: a machine may be generous.
        let script = format!("ulimit -l 4096 && ulimit -r 0 && exec ./freehold {arguments}");
        command.args(["-c", &script]).current_dir(&self.0).process_group(0);
        if geteuid().is_root() {
            // What is executed by another user has no capability left.
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().expect("a shell")
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_missing_right_is_named_with_its_fix() {
    let public = Public::new();
    for (arguments, words) in [
        ("run spc.toml", &["RLIMIT_MEMLOCK", "CAP_IPC_LOCK", "doctor"][..]),
        ("run small.toml", &["task t", "CAP_SYS_NICE", "RLIMIT_RTPRIO", "doctor"]),
        (
            "run small.toml --set task.t.class=deadline",
            &["task t", "CAP_SYS_NICE", "doctor"],
        ),
    ] {
        let output = public.run_without_rights(&format!("{arguments} --engine live --json"));
        assert_eq!(status(&output), 1, "{arguments}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{}", stdout(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        }
    }
    // In virtual time no right is needed, and doctor gives every fix.
    let output = public.run_without_rights("run spc.toml --json --set duration=500ms");
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&public.run_without_rights("doctor"));
    for word in ["ulimit -l", "ulimit -r", "CAP_SYS_NICE"] {
        assert!(text.contains(word), "{text}");
    }
    let text = stdout(&public.run_without_rights("doctor --memory 2MiB"));
    assert!(
        text.contains("of class best-effort; tasks of class fifo, deadline"),
        "{text}"
    );
}
