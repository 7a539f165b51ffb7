//! Programs with memory that the kernel moves for nobody (read-only, execute-only, inaccessible, with a protection key,
//! shared with a forked child, dropped, made writable for moments, locked in part) end as without a server, with room
//! for all of it, for half and for a quarter.

mod common;
#[path = "common/server.rs"]
mod server;

use server::Server;
use std::process::{Command, Output, Stdio};

const KINDS: [&str; 8] = [
    "read-only",
    "execute-only",
    "inaccessible",
    "keyed",
    "forked",
    "dropped",
    "toggled",
    "locked",
];
/// The program has 16 MiB of such memory, and as much again of other twice over.
const RESERVES: [&str; 3] = ["64MiB", "8MiB", "4MiB"];

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it starts")
}

#[test]
fn memory_that_the_kernel_does_not_move_leaves_another_way() {
    let server = Server::start(&["--log-level", "warn", "--pool", "96MiB"]);
    let Some(program) = common::compiled("unmovable") else {
        return;
    };
    let managed = |reserve: &str| {
        // One that hangs is killed, and its status says so.
        let mut command = common::freehold(&["exec", "--reserve", reserve, "--socket"]);
        command.arg(&server.socket);
        command.args(["--", "timeout", "-s", "KILL", "60"]).arg(&program);
        command
    };
    let probe = run(managed("64MiB").arg("keyed"));
    if common::stderr(&probe).contains("unmanaged") {
        println!("not tested: {}", common::stderr(&probe));
        return;
    }
    for kind in KINDS {
        let native = run(Command::new(&program).arg(kind));
        assert!(native.status.success(), "{kind}: {}", common::stdout(&native));
        for reserve in RESERVES {
            let output = run(managed(reserve).arg(kind));
            let both = format!(
                "{reserve}: {:?} {}{}",
                output.status,
                common::stdout(&output),
                common::stderr(&output)
            );
            assert!(output.status.success(), "{kind}: {both}");
            assert_eq!(common::stdout(&output), common::stdout(&native), "{both}");
        }
    }
    let status = server.observe().must_be_served();
    let written = status["store"]["writes"].as_u64();
    assert!(
        written.is_some_and(|written| written > 10_000),
        "little was evicted: {}",
        status["store"]
    );
}
