//! Programs that start where others have just ended: their text is there already, and in nobody's way.

mod common;
#[path = "common/server.rs"]
mod server;

use serde_json::Value;
use server::Server;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// No wait takes longer; a test that comes to it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(server: &Server, reserve: &str) -> Output {
    common::freehold(&["exec", "--reserve", reserve, "--socket"])
        .arg(&server.socket)
        .args(["--", "sh", "-c", "seq 3000 | sort -n | tail -n 1"])
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

fn status(server: &Server) -> Value {
    let output = common::freehold(&["status", "--json", "--socket"])
        .arg(&server.socket)
        .output()
        .expect("it starts");
    serde_json::from_slice(&output.stdout).expect("a document")
}

/// The server's status once no frame is anybody's but the pool's.
fn when_all_have_gone(server: &Server) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = status(server);
        let memory = &status["memory"];
        let clients = status["clients"].as_array().map_or(0, Vec::len);
        if clients == 0 && memory["used"] == memory["pool_pages"] {
            return status;
        }
        assert!(Instant::now() < deadline, "{clients} clients, {memory}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Pages of the C library that are in frames, and how many processes map it.
fn library(status: &Value) -> Option<(u64, usize)> {
    let objects = status["objects"].as_array()?;
    let name = |object: &&Value| object["name"].as_str().is_some_and(|name| name.contains("libc.so"));
    let found = objects.iter().find(name)?;
    Some((found["resident"].as_u64()?, found["mappers"].as_array()?.len()))
}

#[test]
fn text_stays_after_its_last_program_and_gives_way_to_a_reservation_of_everything() {
    let server = Server::start(&["--log-level", "error", "--pool", "64MiB"]);
    let first = run(&server, "16MiB");
    if !first.status.success() {
        println!("not tested: {}", common::stderr(&first));
        return;
    }
    let left = when_all_have_gone(&server);
    let (resident, mappers) = library(&left).expect("the C library");
    assert!(resident > 0 && mappers == 0, "{resident} pages, {mappers} mappers");
    let memory = &left["memory"];
    assert!(memory["used"].as_u64().expect("pages") <= 16_384 / 8, "{memory}");
    // Also where there is not room for all that it used before.
    for reserve in ["64MiB", "16MiB", "2MiB", "1MiB"] {
        let again = run(&server, reserve);
        assert_eq!(
            String::from_utf8_lossy(&again.stdout),
            "3000\n",
            "{}",
            common::stderr(&again)
        );
    }
}

/// Runs a shell until it waits for input: the fault messages that it has sent by then.
fn faults_of_a_start(server: &Server) -> Option<u64> {
    let mut shell = common::freehold(&["exec", "--reserve", "16MiB", "--socket"])
        .arg(&server.socket)
        .args(["--", "sh", "-c", "echo ready; read line; :"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut output = BufReader::new(shell.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("its output");
    let status = status(server);
    drop(shell.stdin.take());
    let ended = shell.wait_with_output().expect("it ends");
    if line != "ready\n" {
        println!("not tested: {}", common::stderr(&ended));
        return None;
    }
    let clients = status["clients"].as_array().expect("clients");
    let shell = clients.iter().find(|client| client["name"] == "sh").expect("the shell");
    shell["faults"].as_u64()
}

#[test]
fn a_program_that_ran_before_finds_what_it_used_mapped() {
    for _ in 0..4 {
        let server = Server::start(&["--log-level", "error", "--pool", "64MiB"]);
        let Some(first) = faults_of_a_start(&server) else {
            return;
        };
        for _ in 0..4 {
            when_all_have_gone(&server);
            let again = faults_of_a_start(&server).expect("it ran before");
            assert!(3 * again < 2 * first, "{first} faults, and {again} when it ran again");
        }
    }
}
