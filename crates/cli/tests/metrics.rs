//! The metrics of a server over HTTP.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use common::{status, stderr};
use freehold_protocol::message::{Question, Request};
use server::{Said, Server};

/// A server, and where it answers.
fn server() -> (Server, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = free.to_string();
    let server = Server::start(&["--pool", "16MiB", "--metrics-listen", &address]);
    (server, address)
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn must_answer(address: &str) {
    assert!(get(address, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
}

/// Connections that say nothing yet.
fn askers(address: &str, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Whether the server has neither answered nor gone.
fn waits(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    seen.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Whether the server ends a connection without an answer.
fn is_given_up(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn metrics_are_served_over_http() {
    let (server, address) = server();
    let page = get(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\nfreehold_pool_frames 4096\n"), "{page}");
    // The terminal that it was started from is gone.
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    // Every line is a comment or a name, labels and a number.
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("freehold_") && value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(get(&address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get(&address, "NONSENSE\r\n\r\n").starts_with("HTTP/1.1 400"));
    let public = common::run(&["serve", "--pool", "1MiB", "--metrics-listen", "0.0.0.0:0"]);
    assert_eq!(status(&public), 2);
    assert!(stderr(&public).contains("--metrics-public"));
    // Over the socket it is the same page.
    let mut peer = server.observe();
    let ask = Request::Ask {
        question: Question::Metrics,
        target: "",
    };
    assert!(matches!(peer.ask(&ask, &[]), Ok(Said::Document(text)) if text.contains("freehold_pool_frames 4096")));
}

#[test]
fn who_asks_for_metrics_slowly_or_not_at_all_delays_nobody() {
    let (_server, address) = server();
    // Those who say nothing are still waited for when the one who asks is answered.
    let silent = askers(&address, 20);
    must_answer(&address);
    assert!(silent.iter().all(waits), "who says nothing has been waited for first");
    // Nor do they keep anybody out, however many they are.
    let crowd = askers(&address, 200);
    must_answer(&address);
    drop((silent, crowd));
    // Nor do those who say it a byte at a time, to whom nobody listens for ever.
    let mut slow = askers(&address, 20);
    for byte in b"GET" {
        for stream in &mut slow {
            stream.write_all(&[*byte]).unwrap();
        }
        must_answer(&address);
    }
    assert!(slow.iter().all(waits), "who asks slowly has been waited for first");
    assert!(slow.iter_mut().all(is_given_up), "a slow asker is listened to for ever");
}
