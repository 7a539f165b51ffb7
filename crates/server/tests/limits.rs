//! A program whose memory cgroup is at its limit: it makes room itself, and nobody waits with it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_linux::charge::ChargeLimits;
use std::fs::{self, File};
use std::time::Duration;
use support::{Client, Server, client};

const PAGES: u64 = 200;

#[test]
fn who_is_at_the_limit_of_its_memory_cgroup_makes_room_and_waits_alone() {
    let folder = std::env::temp_dir().join(format!("freehold-limits-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (limit, usage) = (folder.join("limit"), folder.join("usage"));
    fs::write(&limit, "1000000\n").unwrap();
    fs::write(&usage, "999000\n").unwrap();
    let limits = ChargeLimits::said_by(File::open(&limit).unwrap(), File::open(&usage).unwrap());

    let server = Server::start(1_024);
    let program = Client::program_in(&server, 0, limits).unwrap();
    program.task(Some(server.reserve(64)));
    let memory = program.anonymous(PAGES);
    program.tell(&[client::WRITE, memory, 3, 7], None);
    server.until("it has been asked again and again", |engine| {
        engine.view().unwrap().orders.sent >= 5
    });
    assert!(!program.answers_within(Duration::ZERO), "there is no room");

    let other = Client::program(&server);
    other.task(Some(server.reserve(64)));
    let its = other.anonymous(PAGES);
    other.fill(its, 0, PAGES, 1);
    assert_eq!(other.wrong(its, 0, PAGES, 1), 0);
    assert!(!program.answers_within(Duration::ZERO), "there is no room yet");

    fs::write(&usage, "1000\n").unwrap();
    assert_eq!(program.answer(), 7);
    program.fill(memory, 0, PAGES, 2);
    assert_eq!(program.wrong(memory, 0, PAGES, 2), 0);
    fs::remove_dir_all(&folder).unwrap();
    server.check();
}
