//! One user leaves something of the tables that all share for others, however much he asks for.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::{FrameCount, PageCount};
use freehold_server::{EngineError, Settings};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use support::{Client, Server, client};

const FLOOD: u32 = 12_001;
const OTHER: u32 = 12_002;

/// Pages of one piece of private memory.
const PIECE: u64 = 1_024;

fn limited_to(what: &'static str) -> impl Fn(&EngineError) -> bool {
    move |error| matches!(error, EngineError::Limit { what: found } if *found == what)
}

#[test]
fn private_memory_of_one_user_leaves_room_for_another() {
    let settings = Settings {
        pages: PageCount::new(16 * 1_024),
        ..Settings::new(FrameCount::new(512))
    };
    let server = Server::with(&settings);
    let mut flood = Client::program_of(&server, FLOOD).unwrap();
    let other = Client::program_of(&server, OTHER).unwrap();
    for program in [&flood, &other] {
        program.task(Some(server.reserve(64)));
    }
    // All that there is.
    assert_eq!(flood.anonymous(40 * PIECE), 0);
    let mut pieces = 0;
    loop {
        flood.tell(&[client::FILL, 0, pieces * PIECE, PIECE, 1], None);
        if flood.try_answer().is_none() {
            break;
        }
        pieces += 1;
        assert!(pieces < 16, "all of it");
        if pieces == 5 {
            // Whoever comes now finds room.
            assert_eq!(other.anonymous(900), 0);
            other.fill(0, 0, 900, 1);
        }
    }
    assert!((5..=6).contains(&pieces), "{pieces} pieces");
    assert_eq!(flood.wait().signal(), Some(Signal::BUS.as_raw()));
    let notices = server.shared.engine().take_notices();
    let named = notices
        .iter()
        .any(|notice| notice.text.contains("this user's programs have their part"));
    assert!(named, "{notices:?}");
    assert_eq!(other.wrong(0, 0, 900, 1), 0);
    other.fill(0, 0, 900, 2);
    assert_eq!(other.wrong(0, 0, 900, 2), 0);
    server.check();
    // What it had is there for the next.
    let id = flood.id;
    server.until("it is gone", |engine| !engine.has_client(id));
    let next = Client::program_of(&server, FLOOD).unwrap();
    next.task(None);
    assert_eq!(next.anonymous(8 * PIECE), 0);
    next.fill(0, 0, 1, 1);
    assert_eq!(next.ask(&[client::WRITE, 0, 7 * PIECE, 1]), 1);
}

#[test]
fn clients_and_tasks_of_one_user_leave_room_for_another() {
    let mut settings = Settings::new(FrameCount::new(512));
    (settings.tables.clients, settings.tables.tasks) = (8, 40);
    let server = Server::with(&settings);
    let flood: Vec<_> = (0..4).map(|_| Client::program_of(&server, FLOOD).unwrap()).collect();
    let refused = Client::program_of(&server, FLOOD).map(|client| client.id);
    assert!(
        refused.as_ref().is_err_and(limited_to("clients of one user")),
        "{refused:?}"
    );
    let mut tasks = 0;
    let refused = loop {
        let added = server.shared.engine().add_task(flood[0].id, None, 0, "one more");
        match added {
            Ok(_) => tasks += 1,
            Err(error) => break error,
        }
    };
    assert!(limited_to("tasks of one user")(&refused), "{refused}");
    assert_eq!(tasks, 22);
    // It has no wait slot left for its threads: they wait for one another.
    assert_eq!(flood[0].anonymous(300), 0);
    flood[0].fill(0, 0, 300, 1);
    let other = Client::program_of(&server, OTHER).unwrap();
    other.task(Some(server.reserve(64)));
    assert_eq!(other.anonymous(200), 0);
    for round in 1..4 {
        other.fill(0, 0, 200, round);
        assert_eq!(other.wrong(0, 0, 200, round), 0);
    }
    assert_eq!(flood[0].wrong(0, 0, 300, 1), 0);
    server.check();
}

/// A fork past the share ends the parent. Where the kernel was faster there is a child, which nobody serves.
#[test]
fn a_child_that_there_is_no_room_for_finds_nothing_wrong() {
    let mut settings = Settings::new(FrameCount::new(512));
    settings.tables.clients = 8;
    let server = Server::with(&settings);
    let mut children = 0;
    for round in 0..20 {
        let mut all: Vec<_> = (0..4).map(|_| Client::program_of(&server, FLOOD).unwrap()).collect();
        let program = &mut all[0];
        program.task(Some(server.reserve(32)));
        let memory = program.anonymous(150);
        program.fill(memory, 0, 150, round);
        program.tell(&[client::TELL, memory, 0, 150, round], None);
        assert_eq!(program.wait().signal(), Some(Signal::KILL.as_raw()));
        // It may have come as far as to say so.
        let found = program.try_answer();
        let found = if found == Some(0) { program.try_answer() } else { found };
        if let Some(found) = found {
            let (errors, wrong) = (found & 0xffff_ffff, found >> 32);
            assert_eq!(wrong, 0, "{errors} errors");
            assert!(errors >= 150 - 32, "{errors} errors");
            children += 1;
        }
        drop(all);
        server.until("all are gone", |engine| engine.view().unwrap().clients.is_empty());
        let reservations = server.shared.engine().view().unwrap().reservations;
        for row in reservations {
            server.shared.engine().release(row.id);
        }
    }
    println!("{children} of 20 children were forked all the same");
    server.check();
}

#[test]
fn root_may_have_everything() {
    let mut settings = Settings::new(FrameCount::new(512));
    (settings.tables.clients, settings.tables.tasks) = (4, 8);
    let server = Server::with(&settings);
    let clients: Vec<_> = (0..4).map(|_| Client::program(&server)).collect();
    for _ in 0..8 {
        clients[0].task(None);
    }
    let refused = server.shared.engine().add_task(clients[0].id, None, 0, "one more");
    assert!(refused.is_err_and(|error| !limited_to("tasks of one user")(&error)));
}
