//! Unmodified programs under a memory server: isolated from each other, and from each other's deaths and the server's.
//! `FREEHOLD_SOAK` makes the campaigns as long as they are promised: 1,000 kills of clients, 200 of servers.

#![allow(clippy::cast_possible_truncation, reason = "small random numbers")]

mod common;
#[path = "common/campaign.rs"]
mod server;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use server::{Server, count};

/// One that keeps its pages in use, and one that wants all there are.
fn programs() -> (PathBuf, PathBuf) {
    let program = |name| common::compiled(name).expect("a C compiler");
    (program("steady"), program("hog"))
}

fn campaign(usual: u32, soak: u32) -> u32 {
    if std::env::var_os("FREEHOLD_SOAK").is_some() {
        soak
    } else {
        usual
    }
}

/// A small generator (an LCG), so that a seed is a whole campaign.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn signal(process: u64, signal: Signal) {
    let process = rustix::process::Pid::from_raw(i32::try_from(process).expect("a process id")).expect("not zero");
    // It may have ended.
    let _ = rustix::process::kill_process(process, signal);
}

/// Of each hog, once every one of them has filled what it gets and reads back what it lost.
fn swap_ins_of_hogs(server: &Server) -> Vec<u64> {
    let begun = Instant::now();
    loop {
        let clients = server.clients("hog");
        let swap_ins: Vec<u64> = clients.iter().map(|client| count(client, "swap_ins")).collect();
        if swap_ins.iter().all(|&pages| pages > 100) {
            return swap_ins;
        }
        assert!(begun.elapsed() < server::PATIENCE, "no hogs: {clients:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reserved_program_swaps_nothing_in_beside_hogs() {
    let server = Server::start("isolated", &["--pool", "160MiB"]);
    let (steady, hog) = programs();
    let mut hogs = vec![
        server.exec(None, &hog, &["300", "1"]),
        server.exec(Some("8MiB"), &hog, &["64", "2"]),
    ];
    let before = swap_ins_of_hogs(&server);
    let mut reserved = server.exec(Some("40MiB"), &steady, &["16", "150", "5000"]);
    reserved.expect_line("done");
    let after = swap_ins_of_hogs(&server);
    let clients = server.clients("steady");
    assert_eq!(clients.len(), 1, "{clients:?}");
    // Nothing it had was taken. What counts as read back are first touches of text that hogs had and lost (law 0).
    assert_eq!(clients[0]["private_stored"], 0, "{clients:?}");
    assert_eq!(count(&clients[0], "evictions"), 0, "{clients:?}");
    assert!(
        clients[0]["private_resident"].as_u64() >= Some(16 * 256),
        "it is managed: {clients:?}"
    );
    assert!(
        before.iter().zip(&after).all(|(before, after)| before < after),
        "no hogs: {before:?} {after:?}"
    );
    let (status, lines, errors) = reserved.rest();
    assert!(status.success() && lines.is_empty(), "{status} {lines:?} {errors}");
    for hog in &mut hogs {
        if hog.child.try_wait().expect("a child").is_some() {
            panic!("a hog ended: {:?}", hog.rest());
        }
    }
}

#[test]
fn clients_killed_or_stopped_at_any_instant_take_nothing_with_them() {
    let server = Server::start("killed", &["--pool", "192MiB"]);
    let (steady, hog) = programs();
    let mut reserved = server.exec(Some("32MiB"), &steady, &["12", "100000000", "1000"]);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random(seed);
    for round in 0..campaign(20, 1_000) {
        let reserve = [None, Some("6MiB"), Some("24MiB")][random.below(3) as usize];
        let mut victim = server.exec(reserve, &hog, &["48", &round.to_string()]);
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        for client in server.clients("hog") {
            let process = client["pid"].as_u64().expect("a process");
            if random.below(3) == 0 {
                signal(process, Signal::STOP);
                std::thread::sleep(Duration::from_millis(random.below(30)));
            }
            signal(process, Signal::KILL);
        }
        let (status, lines, errors) = victim.rest();
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "round {round}: {status} {lines:?} {errors}"
        );
        assert!(lines.is_empty(), "round {round}: {lines:?}");
        server.wait_without("hog");
        assert!(
            reserved.child.try_wait().expect("a child").is_none(),
            "round {round}: the bystander ended"
        );
    }
    let clients = server.clients("steady");
    let taken = (count(&clients[0], "evictions"), &clients[0]["private_stored"]);
    assert_eq!(taken, (0, &0.into()), "{clients:?}");
    let status = server.status();
    let reservations = status["reservations"].as_array().expect("a list");
    assert_eq!(reservations.len(), 1, "{reservations:?}");
    signal(clients[0]["pid"].as_u64().expect("a process"), Signal::KILL);
    let (ended, lines, errors) = reserved.rest();
    assert!(lines.is_empty(), "{ended} {lines:?} {errors}");
    server.wait_without("steady");
    let memory = &server.status()["memory"];
    assert_eq!(memory["used"], memory["pool_pages"], "no frame is lost: {memory}");
    assert_eq!(
        (&memory["committed"], &memory["in_flight"]),
        (&0.into(), &0.into()),
        "{memory}"
    );
}

#[test]
fn programs_end_when_their_server_is_killed_and_read_nothing_wrong() {
    let (steady, hog) = programs();
    let mut random = Random(u64::from(std::process::id()));
    for round in 0..campaign(4, 200) {
        let mut server = Server::start(&format!("gone-{round}"), &["--pool", "96MiB"]);
        let mut programs = vec![
            server.exec(Some("8MiB"), &steady, &["12", "100000000", "0"]),
            server.exec(Some("8MiB"), &hog, &["32", "5"]),
            server.exec(None, &hog, &["64", "6"]),
        ];
        std::thread::sleep(Duration::from_micros(random.below(100_000)));
        server.child.kill().expect("a living server");
        for program in &mut programs {
            let (status, lines, errors) = program.rest();
            assert!(lines.is_empty(), "round {round}: {lines:?}");
            assert!(!status.success(), "round {round}: {status}");
            assert!(errors.contains("memory server"), "round {round}: {status} {errors:?}");
        }
    }
}
