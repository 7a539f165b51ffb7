//! `freehold reproduce app-live`, very short. Its programs are not installed for tests: what is missing is said.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn freehold(words: &[&str]) -> Output {
    start(words).1
}

/// Its process and what it said.
fn start(words: &[&str]) -> (u32, Output) {
    let clips = Path::new(env!("CARGO_TARGET_TMPDIR")).join("app-live-clips");
    std::fs::create_dir_all(&clips).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["reproduce", "app-live", "--json", "--clips"]).arg(clips);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().expect("freehold");
    (child.id(), child.wait_with_output().expect("its output"))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether it could run; what is missing is said.
fn could_run(output: &Output) -> bool {
    let errors = errors(output);
    let lacks = [
        "not installed",
        "is not possible",
        "must see when jobs end",
        "not allowed",
        "CAP_SYS_PTRACE",
    ];
    let missing = lacks.iter().any(|lack| errors.contains(lack));
    if missing {
        println!("NOT CHECKED: {errors}");
    }
    !missing
}

#[test]
fn opencv_beside_graphchi_writes_what_it_writes_natively_under_every_policy() {
    let options = [
        "--programs",
        "opencv",
        "--scale",
        "10",
        "--seeds",
        "1",
        "--duration",
        "2s",
    ];
    let output = freehold(&options);
    if !could_run(&output) {
        return;
    }
    let table: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    assert_eq!(
        (&table["experiment"], &table["engine"]),
        (&"app-live".into(), &"live".into())
    );
    let rows = table["rows"].as_array().expect("rows");
    let value = |what: &str| {
        let row = rows
            .iter()
            .find(|row| row["what"].as_str().is_some_and(|name| name.starts_with(what)));
        row.unwrap_or_else(|| panic!("{what}: {table}"))["ours"].clone()
    };
    const POLICIES: [&str; 8] = [
        "none",
        "all",
        "app",
        "app-no-budget",
        "app, listing",
        "app, steady",
        "app and restore",
        "app, steady and restore",
    ];
    // One more alone.
    assert_eq!(value("opencv: runs that wrote what a native run writes"), 9.0);
    for policy in POLICIES {
        assert!(
            value(&format!("opencv, {policy}: response, median")).is_number(),
            "{table}"
        );
        assert!(
            value(&format!("opencv, {policy}: swap-ins of a job")).is_number(),
            "{table}"
        );
    }
    assert!(value("opencv, all: pinned").as_f64() > Some(1000.0), "{table}");
    assert!(
        rows.iter()
            .all(|row| row["claim"].is_string() && row["holds"].is_boolean())
    );
    let said = errors(&output);
    assert!(said.contains("seed 1, opencv, app, steady: "), "{said}");
}

#[test]
fn the_kernels_swap_is_undone_after_the_comparison() {
    let cluster = || std::fs::read_to_string("/proc/sys/vm/page-cluster").unwrap_or_default();
    let before = cluster();
    let words = [
        "--programs",
        "opencv",
        "--scale",
        "10",
        "--seeds",
        "1",
        "--duration",
        "1s",
    ];
    let (process, output) = start(&[&words[..], &["--baseline", "kernel"]].concat());
    assert_eq!(cluster(), before);
    let name = format!("freehold-{process}-");
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    assert!(!swaps.contains(&name), "{swaps}");
    for folder in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/tmp"] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        for entry in entries {
            let entry = entry.file_name().to_string_lossy().into_owned();
            assert!(!entry.starts_with(&name), "{folder}/{entry} is left");
        }
    }
    if !could_run(&output) {
        return;
    }
    let table: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    let rows = table["rows"].as_array().expect("rows");
    for way in ["kernel", "kernel without read-ahead", "kernel, mlockall"] {
        let what = format!("opencv, {way}: response, median");
        assert!(rows.iter().any(|row| row["what"] == what.as_str()), "{table}");
    }
    assert!(errors(&output).contains("vm.page-cluster"), "{}", errors(&output));
}

#[test]
fn what_cannot_be_is_refused() {
    for words in [
        ["--programs", "nothing"],
        ["--store", "disk"],
        ["--memory", "much"],
        ["--scale", "99"],
    ] {
        let output = freehold(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", errors(&output));
    }
}
