//! Programs that lock memory (`mlock` and its kin) under `freehold exec`: what they have locked takes no fault any
//! more, whatever they or their neighbours use, and what cannot stay in their reservation is refused at the call.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Ends so where a lock was refused.
const REFUSED: i32 = 3;

fn exec(server: &Server, reserve: &[&str], program: &Path, words: &[&str]) -> Command {
    let mut command = common::freehold(&["exec"]);
    command.args(reserve).arg("--socket").arg(&server.socket);
    // One that hangs is killed, and its status says so.
    command.args(["--", "timeout", "-s", "KILL", "60"]).arg(program);
    command.args(words).stdin(Stdio::null());
    command
}

fn told(output: &Output) -> String {
    format!(
        "{:?} {}{}",
        output.status,
        common::stdout(output),
        common::stderr(output)
    )
}

/// A neighbour that wants more than it has, until it is dropped.
struct Neighbour(std::process::Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn must_end(server: &Server, program: &Path, reserve: &[&str], words: &[&str], status: i32) {
    let output = exec(server, reserve, program, words).output().expect("it starts");
    assert_eq!(
        output.status.code(),
        Some(status),
        "{words:?} in {reserve:?}: {}",
        told(&output)
    );
}

#[test]
fn what_is_locked_takes_no_fault_and_what_cannot_stay_is_refused() {
    let server = Server::start(&["--log-level", "warn", "--pool", "160MiB"]);
    let (Some(program), Some(hog)) = (common::compiled("locks"), common::compiled("hog")) else {
        return;
    };
    let probe = exec(&server, &["--reserve", "32MiB"], &program, &["parts", "1"]).output();
    let probe = probe.expect("it starts");
    if common::stderr(&probe).contains("unmanaged") {
        println!("not tested: {}", told(&probe));
        return;
    }
    let neighbour = common::freehold(&["exec", "--reserve", "16MiB", "--socket"])
        .arg(&server.socket)
        .arg("--")
        .arg(hog)
        .args(["32", "7"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let _neighbour = Neighbour(neighbour.expect("it starts"));
    for reserve in ["32MiB", "16MiB", "10MiB"] {
        for kind in [
            "current",
            "on-fault",
            "both",
            "future",
            "future-on-fault",
            "back",
            "parts",
            "unseen",
        ] {
            must_end(&server, &program, &["--reserve", reserve], &[kind, "3"], 0);
        }
    }
    for kind in ["hard", "firm"] {
        let small = ["--reserve", "4MiB", "--type", kind];
        for locks in [
            "current",
            "on-fault",
            "both",
            "future",
            "future-on-fault",
            "back",
            "parts",
        ] {
            must_end(&server, &program, &small, &[locks, "6"], REFUSED);
        }
    }
    // Without a reservation it is an eighth of the pool.
    must_end(&server, &program, &[], &["back", "3"], 0);
    must_end(&server, &program, &[], &["back", "24"], REFUSED);
}

/// Past the C library nobody is asked: what is locked there stays, and pages are lent where nothing else can leave.
#[test]
fn more_than_there_is_locked_past_the_c_library_is_lent_and_no_hang() {
    let server = Server::start(&["--log-level", "error", "--pool", "64MiB"]);
    let Some(program) = common::compiled("locks") else {
        return;
    };
    let output = exec(&server, &["--reserve", "6MiB"], &program, &["unseen", "12"]).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(common::stdout(&output), "mlock: done\n0 pages wrong\n");
    server.observe().laws_must_hold();
}
