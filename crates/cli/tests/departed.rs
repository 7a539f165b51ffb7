//! Parents that end as soon as they have forked, under reservations far smaller than what their children inherit: the
//! children read what was written, or are ended; never anything else. And children that end before they have run.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;
use std::process::Stdio;

const ROUNDS: usize = 32;

/// Whether programs can be run under a server here.
fn is_possible(server: &Server) -> bool {
    let probe = common::freehold(&["exec", "--reserve", "16MiB", "--socket"])
        .arg(&server.socket)
        .args(["--", "true"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        println!("not tested: {}", common::stderr(&probe));
    }
    probe.status.success()
}

#[test]
fn children_of_parents_that_end_at_once_read_what_was_written() {
    let server = Server::start(&["--log-level", "warn", "--pool", "64MiB", "--store-latency", "500us"]);
    if is_possible(&server)
        && let Some(program) = common::compiled("departs")
    {
        let output = common::freehold(&["exec", "--reserve", "3MiB", "--socket"])
            .arg(&server.socket)
            .arg("--")
            .arg(&program)
            .arg(ROUNDS.to_string())
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{said}");
        assert!(output.status.success(), "{said}{}", common::stderr(&output));
        assert_eq!(said.lines().count(), ROUNDS, "{said}");
        assert!(!said.contains("wrong"), "{said}");
        for line in said.lines() {
            let (way, found) = line.split_once(": ").expect("two parts");
            // Two processes check in the rounds in which the child forks again.
            let checks = if way == "changes" { "right right " } else { "right " };
            assert_eq!(found, checks, "{said}");
        }
    }
}

/// What `brief` says in a reservation.
fn brief(arguments: &[&str]) -> Option<String> {
    let server = Server::start(&["--log-level", "warn", "--pool", "128MiB"]);
    let program = is_possible(&server).then(|| common::compiled("brief")).flatten()?;
    let output = common::freehold(&["exec", "--reserve", "96MiB", "--socket"])
        .arg(&server.socket)
        .arg("--")
        .arg(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{:?}: {}",
        output.status,
        common::stderr(&output)
    );
    assert_eq!(common::stderr(&output), "");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn children_that_are_killed_before_they_run_leave_room_for_others() {
    // As many as a server has clients, and some.
    if let Some(said) = brief(&["1300"]) {
        assert_eq!(said, "1300 7\n");
    }
}

#[test]
fn hundreds_of_children_live_at_the_same_time() {
    if let Some(said) = brief(&["500", "together"]) {
        assert_eq!(said, "500 7\n");
    }
}

/// A program that is begun with what it takes to be managed, when the server has gone: it runs unmanaged, and so do the
/// children that it forks.
#[test]
fn children_of_a_program_that_runs_unmanaged_do_so_too() {
    let Some(program) = common::compiled("forks_and_maps") else {
        return;
    };
    let told = common::freehold(&["exec", "--reserve", "4MiB", "--keep-going", "--", "env"])
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(told.status.success(), "{}", common::stderr(&told));
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let variables: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("FREEHOLD_") || *name == "LD_PRELOAD")
        .collect();
    if !variables.iter().any(|(name, _)| *name == "LD_PRELOAD") {
        println!("not tested: {}", common::stderr(&told));
        return;
    }
    let output = std::process::Command::new(program)
        .envs(variables)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        common::stderr(&output)
    );
}
