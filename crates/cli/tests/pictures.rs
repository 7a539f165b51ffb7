//! `--report` and `--trace`: files that appear whole, beside a result that is the same without them.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{document, freehold, root, run, status, stderr, stdout};

const NONE: &str = "scenarios/two-tasks-none.toml";
const SPC: &str = "scenarios/two-tasks-spc.toml";

/// A folder that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-pictures-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn pictures_are_written_and_the_result_is_the_same() {
    let folder = Folder::new("both");
    let (report, trace) = (folder.file("x.html"), folder.file("x.pftrace"));
    let with = run(&["run", NONE, SPC, "--json", "--report", &report, "--trace", &trace]);
    assert_eq!(status(&with), 0, "{}", stderr(&with));
    assert_eq!(document(&with), document(&run(&["run", NONE, SPC, "--json"])));
    for path in [&report, &trace] {
        assert!(stderr(&with).contains(path), "{}", stderr(&with));
    }
    assert_eq!(folder.names(), ["x.html", "x.pftrace"]);
    let page = std::fs::read_to_string(&report).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for word in ["two-tasks-none", "two-tasks-spc", "Comparison", "3 of 24 jobs late"] {
        assert!(page.contains(word), "{word}");
    }
    let bytes = std::fs::read(&trace).expect("a trace");
    // Every packet is the first field of the trace; names are inside as they are.
    assert_eq!(bytes.first(), Some(&0x0a));
    for word in ["two-tasks-none", "two-tasks-spc", "shared swap-in", "deadline missed"] {
        assert!(bytes.windows(word.len()).any(|part| part == word.as_bytes()), "{word}");
    }
    // The same run, the same files, in place of those before.
    let again = run(&["run", NONE, SPC, "--report", &report, "--trace", &trace]);
    assert_eq!(status(&again), 0, "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(&report).expect("a page"), page);
    assert_eq!(std::fs::read(&trace).expect("a trace"), bytes);
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let folder = Folder::new("refused");
    let absent = folder.file("absent/x.html");
    let same = folder.file("same");
    for arguments in [
        &["--report", &absent][..],
        &["--trace", &absent],
        &["--report", "/"],
        &["--report", "/dev/null"],
        &["--report", &same, "--trace", &same],
        &["--report", &same, "--trace", &folder.file("./same")],
    ] {
        let output = run(&[&["run", SPC][..], arguments].concat());
        assert_eq!(status(&output), 2, "{arguments:?}");
        assert!(
            stdout(&output).is_empty() && stderr(&output).contains(arguments[1]),
            "{}",
            stderr(&output)
        );
    }
    let lockstep = [
        "run",
        SPC,
        "--engine",
        "live",
        "--lockstep",
        "--report",
        &folder.file("x.html"),
    ];
    let output = run(&lockstep);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("by the clock"), "{}", stderr(&output));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_run_that_fails_leaves_nothing_behind() {
    let folder = Folder::new("failed");
    let report = folder.file("x.html");
    std::fs::write(&report, "before").expect("a file");
    let output = run(&["run", SPC, "scenarios/absent.toml", "--report", &report]);
    assert_eq!(status(&output), 2);
    assert_eq!(folder.names(), ["x.html"]);
    assert_eq!(std::fs::read_to_string(Path::new(&report)).expect("a file"), "before");
}

#[test]
fn a_command_that_is_killed_leaves_nothing_behind() {
    let folder = Folder::new("killed");
    let (report, trace) = (folder.file("x.html"), folder.file("x.pftrace"));
    let long = [
        "run",
        SPC,
        "--set",
        "duration=100000s",
        "--report",
        &report,
        "--trace",
        &trace,
    ];
    let mut child = freehold(&long)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // It says that it runs, so the files have been looked at.
    let mut said = [0];
    let told = child.stderr.as_mut().expect("standard error").read(&mut said);
    assert_eq!(told.expect("a line"), 1);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_file_past_the_limit_on_files_is_said_and_leaves_nothing_behind() {
    let folder = Folder::new("limit");
    let command = format!(
        "ulimit -f 8; exec {} run {SPC} --report {}",
        env!("CARGO_BIN_EXE_freehold"),
        folder.file("x.html")
    );
    let output = Command::new("sh").args(["-c", &command]).current_dir(root()).output();
    let output = output.expect("a shell");
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("x.html: cannot be written"),
        "{}",
        stderr(&output)
    );
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

/// Real pages: the page says what the document says, wherever the pager is.
#[test]
fn a_live_run_is_drawn() {
    if status(&run(&["doctor"])) != 0 {
        eprintln!("skipped: `freehold doctor` says that live runs are not possible here");
        return;
    }
    for placement in ["embedded", "server"] {
        let folder = Folder::new(placement);
        let (report, trace) = (folder.file("x.html"), folder.file("x.pftrace"));
        let live = ["run", NONE, "--engine", "live", "--set", "duration=600ms", "--json"];
        let placed = ["--placement", placement, "--report", &report, "--trace", &trace];
        let output = run(&[&live[..], &placed].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let page = std::fs::read_to_string(&report).expect("a page");
        assert!(page.contains(&format!("live, {placement}")) && !page.contains("nothing was recorded"));
        for task in document(&output)["tasks"].as_array().expect("tasks") {
            for count in ["zero_fills", "soft_faults", "cpu_ns"] {
                let shown = format!("<data value=\"{}\">", task[count]);
                assert!(page.contains(&shown), "{placement}, {count}: {task}");
            }
        }
        let bytes = std::fs::read(&trace).expect("a trace");
        for word in ["two-tasks-none: live", "zero fill", "r1: held"] {
            let found = bytes.windows(word.len()).any(|part| part == word.as_bytes());
            assert!(found, "{placement}: {word}");
        }
    }
}

/// A server that runs already records nothing for one of its clients.
#[test]
fn a_server_that_runs_already_is_not_asked_to_record() {
    let folder = Folder::new("elsewhere");
    let report = folder.file("x.html");
    let live = [
        "run",
        NONE,
        "--engine",
        "live",
        "--placement",
        "server",
        "--socket",
        "/nowhere",
    ];
    let output = run(&[&live[..], &["--report", &report]].concat());
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("leave out --socket"), "{}", stderr(&output));
}
