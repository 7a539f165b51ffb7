//! A store that fails under real processes: the one that faults gets its error, and nobody else notices.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::limits::PageRange;
use freehold_core::units::{FrameCount, PageCount, PageIndex};
use freehold_server::{EngineError, Settings, StoreMedium};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// The client answers no more: it was ended by SIGBUS.
fn assert_ended_by_error(server: &Server, mut victim: Client) {
    assert_eq!(victim.try_answer(), None, "it was given an answer all the same");
    assert_eq!(victim.wait().signal(), Some(Signal::BUS.as_raw()));
    let id = victim.id;
    server.until("the victim is gone", |engine| !engine.has_client(id));
    server.check();
}

#[test]
fn a_page_that_cannot_be_read_back_ends_whoever_touches_it_and_nobody_else() {
    let server = Server::start(512);
    let (victim, other) = (Client::program(&server), Client::program(&server));
    for program in [&victim, &other] {
        program.task(Some(server.reserve(64)));
        assert_eq!(program.anonymous(150), 0);
        program.fill(0, 0, 150, 3);
    }
    server.shared.engine().store().faults().fail_read(1);
    victim.tell(&[client::CHECK, 0, 0, 150, 3], None);
    assert_ended_by_error(&server, victim);
    assert_eq!(server.shared.engine().view().unwrap().store.failed_reads, 1);
    assert_eq!(other.wrong(0, 0, 150, 3), 0);
    other.fill(0, 0, 150, 4);
    assert_eq!(other.wrong(0, 0, 150, 4), 0);
}

#[test]
fn pages_that_cannot_be_written_are_kept() {
    let server = Server::start(512);
    let (victim, sharer) = (
        Client::start(&server, "client_main"),
        Client::start(&server, "client_main"),
    );
    let (object, descriptor) = server.region("shared", 100, true);
    let task = victim.task(Some(server.reserve(64)));
    let its = victim.map(task, object, &descriptor, 100);
    victim.fill(its.number, 0, 60, 3);
    server.shared.engine().store().faults().fail_all_writes(true);
    victim.tell(&[client::FILL, its.number, 60, 40, 3], None);
    let task = sharer.task(Some(server.reserve(128)));
    let mapped = sharer.map(task, object, &descriptor, 100);
    assert_ended_by_error(&server, victim);
    assert_eq!(sharer.wrong(mapped.number, 0, 60, 3), 0);
    server.shared.engine().store().faults().fail_all_writes(false);
    sharer.fill(mapped.number, 0, 100, 4);
    assert_eq!(sharer.wrong(mapped.number, 0, 100, 4), 0);
    server.check();
}

/// A program whose every page after the first 64 has gone through the store.
fn filled(server: &Server, seed: u64) -> Client {
    let program = Client::program(server);
    program.task(Some(server.reserve(64)));
    assert_eq!(program.anonymous(150), 0);
    program.fill(0, 0, 150, seed);
    program
}

/// Reads every page, and lives on: what is right, and which pages are errors.
fn touch_all(program: &Client, seed: u64) -> (u64, Vec<u64>) {
    let (mut right, mut errors) = (0, Vec::new());
    for page in 0..150 {
        match program.ask(&[client::TOUCH, 0, page]) {
            client::ERROR => errors.push(page),
            word => {
                assert_eq!(word, client::pattern(seed, page), "page {page} is wrong");
                right += 1;
            }
        }
    }
    (right, errors)
}

/// A torn write, then an error of a read: each costs one page, which stays an error until the program drops it.
fn failures_cost_one_page_each(server: &Server) {
    let other = filled(server, 9);
    server.shared.engine().store().faults().tear_write(3);
    let program = filled(server, 3);
    let (right, torn) = touch_all(&program, 3);
    assert_eq!((right, torn.len()), (149, 1), "{torn:?}");
    server.shared.engine().store().faults().fail_read(5);
    let (right, errors) = touch_all(&program, 3);
    assert_eq!((right, errors.len()), (148, 2), "{errors:?}");
    assert!(errors.contains(&torn[0]), "it was right again");
    assert_eq!(touch_all(&program, 3), (148, errors.clone()));
    for page in errors {
        assert_eq!(program.ask(&[client::DROP, 0, page, 1]), 0);
        assert_eq!(program.ask(&[client::TOUCH, 0, page]), 0, "what was dropped is zeros");
        assert_eq!(program.ask(&[client::WRITE, 0, page, 7]), 7);
    }
    touch_writes(&program);
    let stats = server.shared.engine().store().stats();
    assert_eq!(stats.failed_reads, 2);
    assert_eq!(other.wrong(0, 0, 150, 9), 0);
    server.check();
}

/// The whole can be written and read once more.
fn touch_writes(program: &Client) {
    program.fill(0, 0, 150, 4);
    assert_eq!(program.wrong(0, 0, 150, 4), 0);
}

#[test]
fn torn_writes_and_failed_reads_are_errors_of_who_touches_the_page_in_memory() {
    failures_cost_one_page_each(&Server::start(512));
}

fn in_a_file() -> (Server, std::path::PathBuf) {
    let directory = std::env::temp_dir().join(format!(
        "freehold-failures-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&directory).unwrap();
    let settings = Settings {
        pages: PageCount::new(32 * 1_024),
        store: StoreMedium::File {
            directory: directory.clone(),
            parallel: 4,
        },
        ..Settings::new(FrameCount::new(512))
    };
    (Server::with(&settings), directory)
}

#[test]
fn torn_writes_and_failed_reads_are_errors_of_who_touches_the_page_in_a_file() {
    let (server, directory) = in_a_file();
    failures_cost_one_page_each(&server);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn short_transfers_are_begun_again() {
    let (file, directory) = in_a_file();
    for server in [Server::start(512), file] {
        let program = filled(&server, 3);
        for round in 4..8 {
            server.shared.engine().store().faults().shorten(3);
            program.fill(0, 0, 150, round);
            assert_eq!(program.wrong(0, 0, 150, round), 0);
        }
        let stats = server.shared.engine().store().stats();
        assert_eq!(
            (stats.retried, stats.failed_reads, stats.failed_writes),
            (12, 0, 0),
            "{stats:?}"
        );
        server.check();
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_full_store_is_an_error_of_who_needs_it_and_of_nobody_else() {
    let settings = Settings {
        store: StoreMedium::Compressed { bytes: 4_096 },
        ..Settings::new(FrameCount::new(512))
    };
    let server = Server::with(&settings);
    let other = Client::program(&server);
    let task = other.task(Some(server.reserve(64)));
    assert_eq!(other.anonymous(50), 0);
    other.fill(0, 0, 50, 9);
    let victim = Client::program(&server);
    victim.task(Some(server.reserve(64)));
    assert_eq!(victim.anonymous(2_000), 0);
    victim.tell(&[client::FILL, 0, 0, 2_000, 3], None);
    assert_ended_by_error(&server, victim);
    assert!(server.shared.engine().store().stats().failed_writes > 0);
    // Who stays inside its reservation needs no store.
    for round in 1..4 {
        other.fill(0, 0, 50, round);
        assert_eq!(other.wrong(0, 0, 50, round), 0);
    }
    assert_eq!(other.counts(task).swap_ins, 0);
}

#[test]
fn records_that_nobody_needs_make_room_in_a_full_store() {
    // Room for 128 records as short as these, for 140 pages of which 64 are in frames.
    let settings = Settings {
        store: StoreMedium::Compressed { bytes: 32_768 },
        ..Settings::new(FrameCount::new(512))
    };
    let server = Server::with(&settings);
    let stays = Client::program(&server);
    stays.task(Some(server.reserve(64)));
    assert_eq!(stays.anonymous(140), 0);
    for round in 0..3 {
        let ends = Client::program(&server);
        ends.task(Some(server.reserve(64)));
        assert_eq!(ends.anonymous(72), 0);
        ends.fill(0, 0, 72, round);
        assert_eq!(ends.wrong(0, 0, 72, round), 0);
        drop(ends);
        stays.fill(0, 0, 140, round);
        for _ in 0..3 {
            assert_eq!(stays.wrong(0, 0, 140, round), 0);
        }
    }
    let stats = server.shared.engine().store().stats();
    assert_eq!((stats.failed_reads, stats.failed_writes), (0, 0), "{stats:?}");
    server.check();
}

#[test]
fn a_lock_whose_pages_find_no_room_in_a_full_store_fails() {
    let settings = Settings {
        store: StoreMedium::Compressed { bytes: 4_096 },
        ..Settings::new(FrameCount::new(512))
    };
    let server = Server::with(&settings);
    let client = Client::start(&server, "client_main");
    let reservation = server.reserve(64);
    let task = client.task(Some(reservation));
    let (object, descriptor) = server.region("a", 200, false);
    let mapped = client.map(task, object, &descriptor, 200);
    // 36 are in the store, and some more on their way: there is room for 64.
    assert_eq!(client.ask(&[client::FILL, mapped.number, 0, 100, 1]), 0);
    let range = PageRange {
        first: PageIndex::new(150),
        count: PageCount::new(40),
    };
    server.shared.engine().lock(reservation, object, range).unwrap();
    server.until("it has failed", |engine| {
        engine.is_locked(reservation) == Err(EngineError::LockFailed)
    });
    assert!(server.shared.engine().store().stats().failed_writes > 0);
    let view = server.shared.engine().view().unwrap();
    assert_eq!(
        view.reservations[0].lists.locked.get(),
        0,
        "what it had locked is unlocked"
    );
    server.shared.engine().lock(reservation, object, range).unwrap();
    server.until("another may lock where nobody asks how that ended", |engine| {
        engine.lock(reservation, object, range).is_ok()
    });
    server.check();
}
