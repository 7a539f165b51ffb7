//! A program that uses little of much, in terabytes or in thousands of mappings, runs in what it touches.

mod common;

use std::process::Stdio;

/// Runs the program natively, or in a reservation under a server of its own.
fn sparse(reserve: Option<&str>) {
    let Some(program) = common::compiled("sparse") else {
        return;
    };
    let mut command = common::in_reserve(reserve, &program);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    // The command says how much came back, which is no fault.
    let errors = common::stderr(&output);
    let others: Vec<&str> = errors
        .lines()
        .filter(|line| !line.contains("came back from the store"))
        .collect();
    let said = (output.status.code(), common::stdout(&output), others.join("\n"));
    let right = (Some(0), "0 and 0 wrong\n".to_owned(), String::new());
    assert_eq!(said, right, "{reserve:?}");
}

#[test]
fn natively_and_in_ample_memory() {
    sparse(None);
    sparse(Some("192MiB"));
}

#[test]
fn in_half_of_what_it_touches() {
    sparse(Some("48MiB"));
}

#[test]
fn in_little() {
    sparse(Some("4MiB"));
}
