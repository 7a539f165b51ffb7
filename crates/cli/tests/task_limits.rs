//! Programs in control groups that allow few threads and processes: a child that may have fewer threads than the agent
//! starts is served all the same, and ends with the server where it has any of the agent's.

mod common;
#[path = "common/group.rs"]
mod group;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{compiled, freehold_under};
use group::{Group, Limit};

/// The program in the group, served with so much memory.
fn run(group: &Group, server: &server::Server, reserve: &str, program: &Path, arguments: &[&str]) -> Command {
    let mut command = freehold_under(
        &["sh", "-c", &group.enter(), "sh"],
        &["exec", "--reserve", reserve, "--socket"],
    );
    command.arg(&server.socket).arg("--").arg(program);
    command.arg(&group.folder).args(arguments);
    command
}

#[test]
fn children_that_may_have_few_threads_read_what_was_written_and_end_with_the_server() {
    let Some(group) = Group::new(Limit::Tasks) else {
        return println!("NOT CHECKED: no control group of processes can be made here");
    };
    let Some(program) = compiled("few_tasks") else { return };
    let mut server = server::Server::start(&["--pool", "256MiB"]);
    for reserve in ["6MiB", "30MiB"] {
        for more in 0..=4 {
            let output = run(&group, &server, reserve, &program, &[&more.to_string()])
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout);
            let right = if more == 0 {
                "refused: Resource temporarily unavailable\n"
            } else {
                "as it must be\n"
            };
            assert_eq!(said, right, "{more} more, {reserve}: {output:?}");
        }
    }
    // One for the child, one for its agent thread, and none for the watcher.
    let mut waiting = run(&group, &server, "6MiB", &program, &["wait", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(waiting.stdout.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    server.child.kill().expect("the server is killed");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    waiting.wait().expect("a child");
    assert_eq!(rest, "", "the child outlives the server");
}
