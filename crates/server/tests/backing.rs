//! Frames that are there: free and conserved frames are locked memory, as the kernel counts.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::limits::ReservationKind;
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// Waits until what the kernel counts is what the books say.
fn wait_until_exact(server: &Server, what: &str) {
    let begun = std::time::Instant::now();
    server.until(what, |engine| {
        let view = engine.view().unwrap();
        assert_eq!(view.backing.shortfall, None);
        let (due, used) = (view.backing.due, u64::from(view.pool.memory_used.get()));
        let measured = view.resident_measured;
        let exact = due == view.backing.resident && measured == used;
        let patient = begun.elapsed() < std::time::Duration::from_secs(10);
        assert!(exact || patient, "{what}: {measured} measured, {used} used: {view:#?}");
        exact
    });
    server.check();
}

#[test]
fn what_a_reservation_does_not_use_is_locked_memory() {
    let server = Server::start(1_024);
    wait_until_exact(&server, "an empty server holds nothing");
    assert_eq!(server.shared.engine().view().unwrap().backing.resident, 0);
    let reservation = server.reserve(300);
    wait_until_exact(&server, "the reservation's frames are there");
    assert_eq!(server.shared.engine().view().unwrap().backing.resident, 300);
    server.shared.engine().release(reservation);
    wait_until_exact(&server, "they are given back");
    assert_eq!(server.shared.engine().view().unwrap().backing.resident, 0);
}

#[test]
fn the_next_reservation_finds_the_frames_of_the_last() {
    let server = Server::start(1_024);
    // They stay for a second. Where the machine stops for so long, another pair is looked at.
    let found = (0..5).any(|_| {
        let taken = || server.shared.engine().view().unwrap().backing.taken;
        let first = server.reserve(300);
        wait_until_exact(&server, "the first reservation's frames are there");
        let before = taken();
        server.shared.engine().release(first);
        let second = server.reserve(200);
        wait_until_exact(&server, "the second's are there");
        let found = taken() == before;
        server.shared.engine().release(second);
        wait_until_exact(&server, "and given back in the end");
        assert_eq!(server.shared.engine().view().unwrap().backing.resident, 0);
        found
    });
    assert!(found, "every reservation was filled from nothing");
}

#[test]
fn frames_are_not_released_for_pages_that_go_again() {
    let server = Server::start(1_024);
    let reservation = server.reserve(300);
    wait_until_exact(&server, "the reservation's frames are there");
    let moves = || {
        let view = server.shared.engine().view().unwrap().backing;
        (view.taken, view.released)
    };
    // They stay for a second. Where the machine stops for so long, another program is looked at.
    let stayed = (0..5).any(|_| {
        let before = moves();
        let program = Client::program(&server);
        program.task(Some(reservation));
        let memory = program.anonymous(250);
        program.fill(memory, 0, 250, 4);
        assert_eq!(program.wrong(memory, 0, 250, 4), 0);
        let id = program.id;
        drop(program);
        server.until("the server knows", |engine| !engine.has_client(id));
        let after = moves();
        wait_until_exact(&server, "the program's end");
        before == after
    });
    assert!(stayed, "every program's frames were released and taken again");
    assert_eq!(server.shared.engine().view().unwrap().backing.resident, 300);
}

#[test]
fn frames_of_an_ended_reservation_give_way_to_pages() {
    // What has moved since the stock last followed is a headroom's worth, and what one fault brings. Where a thread
    // loses its CPU while it changes the stock it is more for that long, so another try is looked at.
    let most = 1_024 + 64 + 64;
    let mut tries = Vec::new();
    while tries.len() < 5 && tries.iter().all(|frames| *frames > most) {
        tries.push(most_of_the_machine());
    }
    assert!(tries.iter().any(|frames| *frames <= most), "{tries:?}");
}

/// The most frames that a server of 1024 ever has, of the reserve and of pages, while a program takes nearly all that a
/// reservation has just left.
fn most_of_the_machine() -> u64 {
    let server = Server::start(1_024);
    let program = Client::program(&server);
    program.task(None);
    let memory = program.anonymous(1_000);
    let reservation = server.reserve(900);
    wait_until_exact(&server, "the reservation's frames are there");
    server.shared.engine().release(reservation);
    let frames = (0..10).map(|hundred| {
        program.fill(memory, 100 * hundred, 100, 6);
        let view = server.shared.engine().view().unwrap();
        view.backing.resident + u64::from(view.pool.memory_used.get())
    });
    let most = frames.max().unwrap_or_default();
    wait_until_exact(&server, "a program of the pool");
    assert_eq!(program.wrong(memory, 0, 1_000, 6), 0);
    most
}

#[test]
fn pages_come_and_go_against_the_reserve() {
    let server = Server::start(1_024);
    let program = Client::program(&server);
    program.task(Some(server.reserve(200)));
    let library = Client::start(&server, "client_main");
    let task = library.task(Some(server.reserve(100)));
    wait_until_exact(&server, "the frames of both reservations are there");
    let memory = program.anonymous(400);
    for (count, seed) in [(90, 1), (150, 2), (400, 3)] {
        program.fill(memory, 0, count, seed);
        assert_eq!(program.wrong(memory, 0, count, seed), 0);
        wait_until_exact(&server, "private memory");
    }
    let (object, descriptor) = server.region("shared", 250, true);
    let mapped = library.map(task, object, &descriptor, 250);
    for (count, seed) in [(60, 1), (250, 2)] {
        library.fill(mapped.number, 0, count, seed);
        assert_eq!(library.wrong(mapped.number, 0, count, seed), 0);
        wait_until_exact(&server, "a region");
    }
    let view = server.shared.engine().view().unwrap();
    assert_eq!(view.resident_measured, 300);
    assert!(
        view.backing.taken >= 200 && view.backing.released >= 200,
        "{:?}",
        view.backing
    );
    let id = program.id;
    drop(program);
    server.until("the server knows", |engine| !engine.has_client(id));
    wait_until_exact(&server, "the program's end");
    assert!(server.shared.engine().view().unwrap().backing.resident >= 200);
}

#[test]
fn borrowed_frames_are_not_promised() {
    let server = Server::start(512);
    let program = Client::program(&server);
    program.task(Some(server.try_reserve(16, ReservationKind::Firm).unwrap()));
    let memory = program.anonymous(300);
    program.fill(memory, 0, 300, 5);
    wait_until_exact(&server, "borrowed frames");
    assert_eq!(program.wrong(memory, 0, 300, 5), 0);
    let view = server.shared.engine().view().unwrap();
    assert!(view.backing.due <= 16, "{:?}", view.backing);
}
