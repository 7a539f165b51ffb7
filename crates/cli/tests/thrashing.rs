//! A program that has half of the memory that it goes round in thrashes: `explain` says so, and which size would do.

#[path = "common/campaign.rs"]
mod campaign;
mod common;

use campaign::{Server, count};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Pages of 32 MiB.
const TOUCHED: u64 = 8_192;

/// What `explain` says of a target: all of it, and whether and how it thrashes.
fn explained(server: &Server, target: &str) -> (String, Vec<String>) {
    let mut command = common::freehold(&["explain", target, "--json", "--socket"]);
    let output = command.arg(server.socket()).output().expect("freehold");
    assert!(output.status.success(), "{}", common::stderr(&output));
    let document = common::document(&output);
    let list = |key: &str| {
        let lines = document[key].as_array().expect("a list").iter();
        lines.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    (list("text").join("\n"), list("thrashing"))
}

/// Kills a program by its number: it goes on for ever, and outlives the command that began it.
fn end(pid: &str) {
    let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
}

/// Waits until the program has touched all its memory once: what it never had cannot come back.
fn until_all_is_touched(server: &Server) {
    let begun = Instant::now();
    let touched = || {
        let client = &server.clients("hog")[0];
        let pages = ["private_resident", "private_slots", "private_stored"];
        let pages = pages.map(|key| client[key].as_u64().expect("a count"));
        pages.iter().sum::<u64>()
    };
    while touched() < TOUCHED {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} pages", touched());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The size, in MiB, that a sentence names.
fn named_size(said: &str) -> Option<u64> {
    let front = said.split(" MiB would end it").next()?;
    front.split(' ').next_back()?.parse().ok()
}

#[test]
fn programs_without_a_reservation_are_told_the_pool_that_would_end_it() {
    let server = Server::start("thrashing-pool", &["--log-level", "warn", "--pool", "24MiB"]);
    let Some(hog) = common::compiled("hog") else { return };
    let mut short = server.exec(None, &hog, &["32", "1"]);
    let pid = server.clients("hog")[0]["pid"].to_string();
    until_all_is_touched(&server);
    let (text, thrashing) = explained(&server, &pid);
    let [said] = thrashing.as_slice() else {
        panic!("{thrashing:?} {text}");
    };
    assert!(said.contains("without a reservation") && text.contains(said), "{said}");
    assert!(named_size(said).is_some_and(|size| (32..44).contains(&size)), "{said}");
    end(&pid);
    short.rest();
}

#[test]
fn who_thrashes_is_told_the_size_that_would_end_it() {
    let server = Server::start("thrashing", &["--log-level", "warn", "--pool", "96MiB"]);
    let Some(hog) = common::compiled("hog") else { return };
    let mut short = server.exec(Some("16MiB"), &hog, &["32", "1"]);
    let client = &server.clients("hog")[0];
    let pid = client["pid"].to_string();
    let reservation = client["tasks"][0]["reservation"].as_str().expect("a reservation");
    until_all_is_touched(&server);
    for target in [pid.as_str(), reservation] {
        let (text, thrashing) = explained(&server, target);
        let [said] = thrashing.as_slice() else {
            panic!("{target}: {thrashing:?} {text}");
        };
        assert!(said.contains(reservation) && text.contains(said), "{said}");
        // It has 32 MiB, what it notes of them, and its C library's data.
        assert!(named_size(said).is_some_and(|size| (30..40).contains(&size)), "{said}");
    }
    assert!(count(&server.clients("hog")[0], "swap_ins") > 0);
    end(&pid);
    let (_, said, _) = short.rest();
    assert_eq!(said, Vec::<String>::new());
    server.wait_without("hog");
    let ample = server.exec(Some("48MiB"), &hog, &["32", "1"]);
    let pid = server.clients("hog")[0]["pid"].to_string();
    assert_eq!(explained(&server, &pid).1, Vec::<String>::new());
    end(&pid);
    drop(ample);
}

/// What comes into a store a second time, and zeros, which take no room there, count as the pages that they are.
#[test]
fn the_size_that_a_command_names_at_its_end_would_do() {
    let Some(rounds) = common::compiled("rounds") else {
        return;
    };
    let said = |size: u64, byte: &str| {
        let mut command = common::freehold(&["exec", "--reserve", &format!("{size}MiB"), "--"]);
        let output = command.arg(&rounds).args(["24", "4", byte]).output().expect("freehold");
        assert!(output.status.success(), "{}", common::stderr(&output));
        common::stderr(&output)
    };
    for byte in ["0", "7"] {
        for short in [8, 20] {
            let line = said(short, byte);
            let size = line
                .split("--reserve ")
                .nth(1)
                .and_then(|rest| rest.split("MiB").next());
            let size: u64 = size.and_then(|size| size.parse().ok()).expect(&line);
            assert!((24..32).contains(&size), "{short}, {byte}: {line}");
            assert_eq!(said(size, byte), "", "{short}, {byte}: {line}");
        }
    }
}
