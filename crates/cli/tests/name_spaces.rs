//! Name spaces that a managed program takes or joins, some of which the kernel gives to processes of one thread only.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{compiled, freehold, stderr, stdout};
use server::Server;
use std::process::Command;

/// Whatever the kernel answers to the program alone, it answers to the managed one, which goes on as that does.
#[test]
fn a_program_of_one_thread_has_name_spaces_as_ever() {
    let Some(program) = compiled("name_spaces") else { return };
    let alone = Command::new(&program).output().unwrap();
    let expected = stdout(&alone);
    if !expected.starts_with("user 0 0") {
        println!("NOT CHECKED: this machine gives nobody a name space of users: {expected}");
    }
    let server = Server::start(&["--pool", "96MiB"]);
    for size in ["64MiB", "4MiB", "1MiB"] {
        let output = freehold(&["exec", "--reserve", size, "--socket"])
            .arg(&server.socket)
            .arg("--")
            .arg(&program)
            .output()
            .unwrap();
        assert_eq!(stdout(&output), expected, "{size}: {}", stderr(&output));
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_call_that_would_leave_a_program_without_its_agent_is_refused() {
    let Some(program) = compiled("name_spaces") else { return };
    let native = Command::new(&program).arg("refused").output().unwrap();
    if !stdout(&native).starts_with("processes first 0 0") {
        return println!(
            "NOT CHECKED: this machine gives nobody such a name space: {}",
            stdout(&native)
        );
    }
    let server = Server::start(&["--pool", "16MiB"]);
    let output = freehold(&["exec", "--reserve", "8MiB", "--socket"])
        .arg(&server.socket)
        .arg("--")
        .arg(&program)
        .arg("refused")
        .output()
        .unwrap();
    // All else is as natively.
    assert_eq!(
        stdout(&output),
        stdout(&native).replace(" 0 0, memory 1, d", " -1 22, memory 1, d"),
        "{output:?}"
    );
    assert!(output.status.success(), "{output:?}");
}

/// What runs there has no rights that count for the agent: it runs unmanaged, in the managed one's place too.
#[test]
fn a_program_in_a_name_space_of_users_runs_as_natively() {
    let native = Command::new("unshare").args(["-Ur", "id", "-u"]).output();
    if !native.is_ok_and(|output| stdout(&output) == "0\n") {
        return println!("NOT CHECKED: this machine gives nobody a name space of users");
    }
    let server = Server::start(&["--pool", "16MiB"]);
    let begun = [
        "unshare -Ur id -u",
        "exec unshare -Ur id -u",
        "unshare -Urpf sh -c 'id -u; exit 3' || test $? = 3",
    ];
    for script in begun {
        let output = freehold(&["exec", "--reserve", "8MiB", "--socket"])
            .arg(&server.socket)
            .args(["--", "sh", "-c", script])
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "0\n", "{script}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{script}: {}", stderr(&output));
    }
}
