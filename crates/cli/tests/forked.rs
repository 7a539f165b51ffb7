//! Children of managed programs. When the server is killed while they read absent inherited pages, all end and
//! none reads a wrong byte; nor does a program under a filter of system calls. A process that goes on in the memory of
//! an ended program is told of, and no other.

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{compiled, freehold};

const ROUNDS: u32 = 6;

/// How a server is killed.
struct Killing {
    /// Milliseconds between two children of the program, with time for each to become a client.
    pause: u32,
    /// Has the number of children.
    kill: fn(&mut Child, u32),
}

const AT_ONCE: Killing = Killing {
    pause: 20,
    kill: at_once,
};

const AT_AN_ANSWER: Killing = Killing {
    pause: 500,
    kill: at_an_answer,
};

/// Somewhere between one fork and the next.
fn at_once(server: &mut Child, children: u32) {
    std::thread::sleep(Duration::from_millis(u64::from(children) * 7 % 20));
    server.kill().expect("the server is killed");
}

/// When one of its threads is about to answer, after so many answers: with another number, another one of those that a
/// child waits for until it is a client.
fn at_an_answer(server: &mut Child, answers: u32) {
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=sendmsg", "-e"])
        .arg(format!("inject=sendmsg:signal=KILL:when={}", answers + 1))
        .arg("-p")
        .arg(server.id().to_string())
        .stderr(Stdio::null())
        .status();
    // It ends with what it traces.
    if !traced.expect("it is there").success() {
        println!("NOT CHECKED: strace may not trace the server here");
        at_once(server, answers);
    }
}

/// One server, one program; the server is killed once the program has made so many children.
fn round(folder: &Path, program: &Path, children: u32, killing: &Killing) -> String {
    let socket = folder.join("socket");
    let mut server = freehold(&["serve", "--log-level", "error", "--pool", "64MiB", "--socket"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    while !socket.exists() {
        assert_eq!(server.try_wait().expect("a status"), None, "the server lives");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut managed = freehold(&["exec", "--reserve", "4MiB", "--socket"])
        .arg(&socket)
        .arg("--")
        .arg(program)
        .arg(killing.pause.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(managed.stdout.take().expect("its output")).lines();
    let ready = format!("child {children}");
    let mut said = Vec::new();
    for line in lines.by_ref() {
        let line = line.expect("text");
        let is_ready = line == ready;
        said.push(line);
        if is_ready {
            break;
        }
    }
    assert_eq!(said.last(), Some(&ready), "the children were made: {said:?}");
    (killing.kill)(&mut server, children);
    server.wait().expect("its end");
    // The output ends when the last of the children has.
    said.extend(lines.map(|line| line.expect("text")));
    let output = managed.wait_with_output().expect("its end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!said.iter().any(|line| line.contains("wrong")), "{said:?} {errors}");
    assert!(!output.status.success(), "{errors}");
    std::fs::remove_file(&socket).expect("the socket");
    errors.into_owned()
}

/// Rounds of a program, with each number of children up to so many; all that they have said on standard error.
fn rounds(name: &str, most: u32, killing: &Killing) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("freehold-{name}-{}-{}", killing.pause, std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let probe = freehold(&["exec", "--reserve", "16MiB", "--", "true"])
        .output()
        .expect("it starts");
    let mut errors = Vec::new();
    if !probe.status.success() {
        println!("not tested: {}", String::from_utf8_lossy(&probe.stderr));
    } else if let Some(program) = compiled(name) {
        errors.extend((0..most).map(|children| round(&folder, &program, children, killing)));
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
    errors
}

#[test]
fn children_end_with_the_server_and_read_nothing_wrong() {
    for errors in rounds("inherits", ROUNDS, &AT_ONCE) {
        assert!(errors.contains("the memory server has gone"), "{errors}");
    }
}

/// A child that has been given what holds its memory, and hears no more, is no child of a server that is there.
#[test]
fn a_child_ends_with_the_server_whatever_it_was_answered_last() {
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("NOT CHECKED: strace is not installed");
    }
    for errors in rounds("inherits", ROUNDS, &AT_AN_ANSWER) {
        assert!(errors.contains("the memory server has gone"), "{errors}");
    }
}

/// What sees the server go is bound by the filter, too, and can neither say so nor send a signal.
#[test]
fn a_program_under_a_filter_for_all_its_threads_ends_with_the_server() {
    rounds("filtered_orphan", 1, &AT_ONCE);
}

/// Each subshell is a child that begins another program at once, while its memory is about to go.
const BEGINNERS: &str = "count=0; while [ $count -lt 40 ]; do (exec true); count=$((count + 1)); done";

/// How many processes a server of its own told of that went on in the memory of a program that had ended.
fn survivors(program: &[&str]) -> usize {
    let mut server = server::Server::start(&["--pool", "64MiB"]);
    let mut command = freehold(&["exec", "--reserve", "8MiB", "--socket"]);
    let output = command.arg(&server.socket).arg("--").args(program).output();
    let output = output.expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (_, errors) = server.end();
    errors.matches("another goes on in its memory").count()
}

#[test]
fn a_process_that_outlives_its_program_is_told_of_and_one_that_begins_another_is_not() {
    assert_eq!(survivors(&["sh", "-c", BEGINNERS]), 0);
    if let Some(program) = compiled("kernel_paths") {
        // Two of its kinds do.
        assert_eq!(survivors(&[program.to_str().expect("a path of text")]), 2);
    }
}
