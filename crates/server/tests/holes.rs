//! Pages of regions leave while clients write to the regions by system calls, or while their address spaces change.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use rustix::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// A process that holds the memory of a region by a `write` that does not end. Killed when dropped.
struct Writer(Child);

impl Writer {
    fn start(region: &OwnedFd) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stuck_writer.c");
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("writer-{}-{number}", std::process::id()));
        let compiled = Command::new("cc")
            .arg("-o")
            .args([file.as_os_str(), source.as_ref()])
            .status();
        assert!(compiled.expect("these tests need a C compiler, `cc`").success());
        let region = Stdio::from(region.try_clone().unwrap());
        let mut writer = Self(Command::new(&file).stdin(region).spawn().unwrap());
        let begun = Instant::now();
        // `pwrite64`, 18, until it waits there.
        while !writer.call().is_some_and(|call| call.starts_with("18 ")) {
            assert!(writer.0.try_wait().unwrap().is_none(), "it has ended");
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "it does not write: {:?}",
                writer.call()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        writer
    }

    fn call(&self) -> Option<String> {
        std::fs::read_to_string(format!("/proc/{}/syscall", self.0.id())).ok()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_region_that_is_being_written_keeps_only_its_user_waiting() {
    const USER: u32 = 1_000;
    let server = Server::start(256);
    let (its, other) = (
        Client::start(&server, "client_main"),
        Client::start(&server, "client_main"),
    );
    let (held, descriptor) = server.region_of(USER, "held", 200, true);
    let mapped = its.map(its.task(Some(server.reserve(16))), held, &descriptor, 200);
    let (free, its_descriptor) = server.region("free", 200, true);
    let others = other.map(other.task(Some(server.reserve(16))), free, &its_descriptor, 200);
    let writer = Writer::start(&descriptor);
    // More pages than count as gone before there are holes where they were.
    its.tell(&[client::FILL, mapped.number, 0, 200, 1], None);
    for round in 1..4 {
        other.fill(others.number, 0, 200, round);
        assert_eq!(other.wrong(others.number, 0, 200, round), 0, "round {round}");
        server.check();
    }
    assert!(!its.answers_within(Duration::ZERO), "its pages cannot have left");
    drop(writer);
    assert_eq!(its.answer(), 0);
    assert_eq!(its.wrong(mapped.number, 0, 200, 1), 0);
    server.until("no more pages are in frames than by the books", |engine| {
        let view = engine.view().unwrap();
        view.objects.iter().all(|object| object.resident <= 16)
    });
    let counted: u64 = [&descriptor, &its_descriptor].map(frames).iter().sum();
    assert!(counted <= 32, "{counted}");
    server.check();
}

/// Frames of a region, as the kernel counts them.
fn frames(region: &OwnedFd) -> u64 {
    rustix::fs::fstat(region).unwrap().st_blocks.unsigned_abs() / 8
}

/// Frames that have left a region, and are in the reserve only once there are holes where they were, are taken for it
/// then, though nothing else happens.
#[test]
fn frames_of_pages_whose_holes_come_late_are_backed_again() {
    let server = Server::start(256);
    let client = Client::start(&server, "client_main");
    let task = client.task(Some(server.reserve(16)));
    let (held, descriptor) = server.region_of(1_000, "held", 12, true);
    let mapped = client.map(task, held, &descriptor, 12);
    let (other, other_descriptor) = server.region("other", 8, true);
    let others = client.map(task, other, &other_descriptor, 8);
    client.fill(mapped.number, 0, 12, 1);
    let writer = Writer::start(&descriptor);
    client.fill(others.number, 0, 8, 2);
    assert_eq!(frames(&descriptor), 12, "four pages have left, and are in frames");
    server.shared.engine().unmap(client.id, others.key).unwrap();
    server.shared.engine().close_object(other);
    let until = |frames: u64| {
        let begun = Instant::now();
        loop {
            let view = server.shared.view().unwrap().backing;
            if (view.due, view.resident) == (frames, frames) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{frames}: {view:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(4);
    // Its thread sleeps then.
    std::thread::sleep(Duration::from_millis(300));
    drop(writer);
    until(8);
    server.check();
}

/// What is gone while holes are being made is not brought before, and is what it was.
#[test]
fn pages_that_come_back_at_once_are_what_they_were() {
    let server = Server::start(256);
    let client = Client::start(&server, "client_main");
    let (region, descriptor) = server.region("a", 24, false);
    let mapped = client.map(client.task(Some(server.reserve(8 + 4))), region, &descriptor, 24);
    assert_eq!(client.ask(&[client::REWRITE, mapped.number, 24, 20_000]), 0);
    server.check();
}

#[test]
fn no_write_is_lost_while_an_address_space_changes() {
    let server = Server::start(256);
    let client = Client::start(&server, "client_main");
    let (region, descriptor) = server.region("a", 40, false);
    let mapped = client.map(client.task(Some(server.reserve(16))), region, &descriptor, 40);
    // Pages that leave are still mapped then, and are written until they are protected.
    client.ask(&[client::DEAF]);
    client.ask(&[client::UNSETTLE]);
    assert_eq!(client.ask(&[client::REWRITE, mapped.number, 40, 20_000]), 0);
    server.check();
}
