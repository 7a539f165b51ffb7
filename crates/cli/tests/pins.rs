//! Calls that pin more memory than a reservation has, natively and with all, half and a quarter of it: they do what
//! they do without a server, in pages beyond the reservation that are counted, and come back into it afterwards.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use serde_json::Value;
use server::Server;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Pages of each of the program's three pieces of memory: 6 MiB.
const PAGES: u32 = 1_536;
/// Reservations: room for everything, half, and a quarter.
const RESERVES: [&str; 3] = ["24MiB", "9MiB", "4MiB"];

/// The program, which stops at the end of each of its parts.
struct Pins {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Pins {
    fn start(mut command: Command, file: &Path) -> Self {
        command.arg(file).arg(PAGES.to_string());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Where it is.
    fn hear(&mut self) -> String {
        self.lines.next().map_or_else(String::new, Result::unwrap)
    }

    fn go_on(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    fn end(mut self) {
        self.go_on();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What it says natively, stop by stop.
fn natively(program: &Path, file: &Path) -> Vec<String> {
    let mut pins = Pins::start(Command::new(program), file);
    let mut said = Vec::new();
    loop {
        said.push(pins.hear());
        if said.last().is_some_and(|line| line == "let go") {
            break;
        }
        assert!(!said.concat().contains("wrong") && said.len() < 5, "{said:?}");
        pins.go_on();
    }
    pins.end();
    said
}

/// Of the one program that the server has: pages lent now, and ever.
fn lent(server: &Server) -> (u64, u64) {
    let status = server.observe().must_be_served();
    let clients = status["clients"].as_array().unwrap();
    let is_it = |client: &&Value| client["name"].as_str().is_some_and(|name| name.starts_with("pins"));
    let its = clients.iter().find(is_it).expect("the program");
    let number = |name: &str| its[name].as_u64().unwrap();
    (number("lent"), number("lent_total"))
}

fn until(what: &str, server: &Server, truth: impl Fn((u64, u64)) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !truth(lent(server)) {
        assert!(Instant::now() < deadline, "{what}: {:?}", lent(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn folder() -> PathBuf {
    // Beside the tests' programs, where direct input and output is as likely as anywhere.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("pins-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn calls_that_pin_more_than_a_reservation_has_do_what_they_do_without_one() {
    let Some(program) = common::compiled("pins") else {
        return;
    };
    let (folder, server) = (folder(), Server::start(&["--log-level", "error", "--pool", "64MiB"]));
    let file = folder.join("file");
    let said = natively(&program, &file);
    println!("{said:?}");
    for reserve in RESERVES {
        let mut command = common::freehold(&["exec", "--reserve", reserve, "--socket"]);
        command.arg(&server.socket).arg("--").arg(&program);
        let mut pins = Pins::start(command, &file);
        for line in &said {
            assert_eq!(&pins.hear(), line, "{reserve}");
            server.observe().laws_must_hold();
            let (now, ever) = lent(&server);
            match line.as_str() {
                // What is registered stays pinned: 1,536 pages.
                "registered" if reserve == "4MiB" => assert!(now >= 512 - 8, "{reserve}: {now} of {ever}"),
                // All is pinned no more.
                "let go" => until("they come back", &server, |(now, _)| now == 0),
                _ => {}
            }
            if line != "let go" {
                pins.go_on();
            }
        }
        let ever = lent(&server).1;
        assert!(
            reserve != RESERVES[0] || ever == 0,
            "{ever} pages lent with room for all"
        );
        let reservations = server.observe().must_be_served()["reservations"].clone();
        let row = reservations
            .as_array()
            .and_then(|rows| rows.first().cloned())
            .unwrap_or(Value::Null);
        assert_eq!(row["held"], row["capacity"], "{row}");
        pins.end();
    }
    std::fs::remove_dir_all(folder).unwrap();
}
