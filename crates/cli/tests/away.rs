//! A program that can no longer reach the server's socket by its path forks all the same: in another name space of
//! mounts, processes or networks, with another root, as another user, with the socket's file gone. Its children have
//! what it had, become clients, and nobody is killed.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{compiled, freehold, own_stderr, stderr, stdout};

fn managed(program: &Path, folder: &Path, reserve: &str) -> Output {
    let mut command = freehold(&["exec", "--reserve", reserve, "--"]);
    command.arg(program).arg(folder).output().expect("it starts")
}

fn native(program: &Path, folder: &Path) -> String {
    let output = Command::new(program).arg(folder).output().expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// A folder for the program, which its other users may enter too.
fn prepared(name: &str) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let probe = freehold(&["exec", "--reserve", "16MiB", "--", "true"])
        .output()
        .expect("it starts");
    if !probe.status.success() {
        println!("not tested: {}", stderr(&probe));
        return None;
    }
    let program = compiled("away")?;
    let folder = std::env::temp_dir().join(format!("freehold-away-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("root")).expect("a folder");
    Some((program, folder))
}

#[test]
fn children_have_what_they_inherit_wherever_their_parent_has_gone() {
    let Some((program, folder)) = prepared("sizes") else {
        return;
    };
    let alone = native(&program, &folder.join("root"));
    assert!(alone.contains("as it is: right") && !alone.contains("WRONG"), "{alone}");
    for reserve in ["64MiB", "8MiB", "4MiB"] {
        let output = managed(&program, &folder.join("root"), reserve);
        assert_eq!(
            (stdout(&output), own_stderr(&output)),
            (alone.clone(), String::new()),
            "{reserve}"
        );
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn children_become_clients_without_the_socket_s_path() {
    let Some((program, folder)) = prepared("clients") else {
        return;
    };
    let (socket, log) = (folder.join("socket"), folder.join("log"));
    let mut server = freehold(&["serve", "--log-level", "info", "--pool", "64MiB", "--socket"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("the command starts");
    while !socket.exists() {
        assert_eq!(server.try_wait().expect("a status"), None, "the server lives");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut command = freehold(&["exec", "--reserve", "8MiB", "--socket"]);
    command
        .arg(&socket)
        .arg("--")
        .arg(&program)
        .arg(folder.join("root"))
        .arg(&socket);
    let output = command.output();
    server.kill().expect("it lives");
    server.wait().expect("its end");
    let (said, log) = (
        stdout(&output.expect("it starts")),
        std::fs::read_to_string(&log).expect("a log"),
    );
    std::fs::remove_dir_all(&folder).expect("the folder");
    let right = said.lines().filter(|line| line.ends_with(": right")).count();
    assert!(
        right >= 6 && !said.contains("WRONG") && !said.contains("ended"),
        "{said}"
    );
    // Of each way three children, one the child of the other.
    let clients = log.lines().filter(|line| line.contains("client connected")).count();
    assert!(clients >= 3 * right, "{clients} clients, {right} ways: {said}");
    assert!(!log.contains("refused"), "{log}");
}
