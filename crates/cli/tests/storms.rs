//! Hundreds of threads that fault at once, while others change the address space: each has what it wrote.

mod common;

use std::process::Stdio;

const THREADS: &str = "500";

/// Runs the program natively, or in a reservation under a server of its own.
fn storm(reserve: Option<&str>) {
    let Some(program) = common::compiled("storm") else {
        return;
    };
    let mut command = common::in_reserve(reserve, &program);
    let output = command.arg(THREADS).stdin(Stdio::null()).output().expect("it starts");
    let said = (output.status.code(), common::stdout(&output));
    let right = (Some(0), format!("{THREADS} threads, 0 wrong\n"));
    assert_eq!(said, right, "{reserve:?}: {}", common::stderr(&output));
}

#[test]
fn natively_and_in_ample_memory() {
    storm(None);
    storm(Some("128MiB"));
}

#[test]
fn in_a_third_of_what_they_touch() {
    storm(Some("17MiB"));
}

#[test]
fn in_a_tenth() {
    storm(Some("5MiB"));
}
