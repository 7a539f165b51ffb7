//! Programs in memory cgroups with limits, served by a server that is outside: what they read is right, and one that
//! finds no room below its limit is ended by the kernel, as it is without a server.

mod common;
#[path = "common/group.rs"]
mod group;
#[path = "common/server.rs"]
mod server;

use common::{compiled, freehold_under};
use group::{Group, Limit};
use std::fs;
use std::os::unix::process::ExitStatusExt;

/// MiB of the program's memory.
const MEMORY: &str = "24";
const KILL: i32 = 9;

#[test]
fn a_program_under_a_limit_reads_what_it_wrote_or_is_ended_by_the_kernel() {
    let Some(group) = Group::new(Limit::Memory) else {
        return println!("NOT CHECKED: no memory cgroup can be made here");
    };
    let Some(program) = compiled("limited") else { return };
    let mut server = server::Server::start(&["--pool", "96MiB"]);
    let enter = group.enter();
    let run = |limit: u64, reserve: &str| {
        group.allow(limit << 20).expect("its limit");
        let mut command = freehold_under(&["sh", "-c", &enter, "sh"], &["exec", "--reserve", reserve, "--socket"]);
        command.arg(&server.socket).arg("--").arg(&program).arg(MEMORY);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let killed = output.status.signal() == Some(KILL) || output.status.code() == Some(128 + KILL);
        assert!(
            said == "as it must be\n" || said.is_empty() && killed,
            "{limit} MiB, {reserve}: {output:?}"
        );
        killed
    };
    for reserve in ["8MiB", "64MiB"] {
        assert!(!run(200, reserve), "there is room");
        run(40, reserve);
        run(30, reserve);
    }
    let swaps = fs::read_to_string("/proc/swaps").expect("the kernel's list");
    assert!(run(16, "64MiB") || swaps.lines().count() > 1, "there is no room");
    let (_, errors) = server.end();
    assert!(!errors.contains("is killed"), "{errors}");
}
