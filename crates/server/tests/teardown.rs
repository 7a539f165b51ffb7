//! Memory that a program gives up comes back piece by piece, and nobody can tell when.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::id::ReservationId;
use freehold_core::limits::Regime;
use freehold_core::units::FrameCount;
use freehold_server::{RegionRequest, Settings};
use support::{Client, Server, client};

/// Dense private memory becomes objects of so many pages.
const OBJECT: u64 = 1024;
/// Frames of a reservation for all that a program touches here.
const FRAMES: u32 = 14_000;
/// Objects that one step takes back, and those that the first step of all may find at its ends.
const STEP: usize = 4;

/// Touches so many pages in each of so many objects.
fn touch(program: &Client, memory: u64, (objects, pages): (u64, u64), value: u64) {
    for object in 0..objects {
        program.fill(memory, object * OBJECT, pages, value);
    }
}

/// A server, a reservation of it, and a program that has touched every page of so many objects.
fn dense(objects: u64, settings: impl FnOnce(&mut Settings)) -> (Server, Client, ReservationId, u64) {
    let mut all = Settings::new(FrameCount::new(FRAMES + 1_000));
    settings(&mut all);
    let server = Server::with(&all);
    let program = Client::program(&server);
    let reservation = server.reserve(FRAMES);
    program.task(Some(reservation));
    let memory = program.anonymous(objects * OBJECT);
    program.fill(memory, 0, objects * OBJECT, 1);
    (server, program, reservation, memory)
}

#[test]
fn what_a_program_leaves_is_taken_back_a_few_objects_at_a_time() {
    let (server, program, _, _) = dense(12, |_| ());
    let (before, after) = {
        // Nobody else has the engine meanwhile.
        let mut engine = server.shared.engine();
        let before = engine.objects_in_use();
        engine.remove_client(program.id);
        assert!(!engine.has_client(program.id));
        (before, engine.objects_in_use())
    };
    assert!(before >= 12, "{before} objects");
    assert!(
        after < before && before - after <= STEP,
        "{before} objects, then {after}"
    );
    server.until("all of it is back", |engine| engine.objects_in_use() == 0);
    server.check();
}

#[test]
fn a_reservation_that_is_released_meanwhile_ends_with_the_last_piece() {
    let (server, program, reservation, _) = dense(12, |_| ());
    let mut engine = server.shared.engine();
    engine.remove_client(program.id);
    engine.release(reservation);
    assert_eq!(
        engine.view().unwrap().pool.committed.get(),
        FRAMES,
        "its frames are not back yet"
    );
    drop(engine);
    server.until("it has ended", |engine| {
        engine.view().unwrap().pool.committed.get() == 0
    });
    server.check();
}

#[test]
fn a_small_program_does_not_wait_until_a_large_one_is_taken_back() {
    let (server, large, reservation, _) = dense(12, |_| ());
    let small = Client::program(&server);
    let own = server.reserve(128);
    small.task(Some(own));
    let memory = small.anonymous(OBJECT);
    touch(&small, memory, (1, 1), 1);
    let mut engine = server.shared.engine();
    for (program, reservation) in [(&large, reservation), (&small, own)] {
        engine.remove_client(program.id);
        engine.release(reservation);
    }
    // The small one's has ended, though the large one went before it and is not back.
    assert_eq!(engine.view().unwrap().pool.committed.get(), FRAMES);
    drop(engine);
    server.until("both have ended", |engine| {
        engine.view().unwrap().pool.committed.get() == 0
    });
    server.check();
}

#[test]
fn a_full_table_takes_back_what_was_given_up() {
    let (server, large, _, _) = dense(12, |settings| settings.tables.objects = 24);
    let mut engine = server.shared.engine();
    engine.remove_client(large.id);
    // No more than a few rows are free until the others are taken back, for which nobody else has the engine.
    assert!(engine.objects_in_use() > 8, "{}", engine.objects_in_use());
    for number in 0..20 {
        let request = RegionRequest {
            name: &format!("region {number}"),
            pages: 4,
            regime: Regime::Conserve,
            shared: true,
            uid: 0,
        };
        engine.open_region(&request).unwrap();
    }
    drop(engine);
    server.until("the rest is back", |engine| engine.objects_in_use() == 20);
    server.check();
}

#[test]
fn a_reservation_is_whole_again_before_it_is_used_again() {
    let server = Server::start(1300);
    let program = Client::program(&server);
    let task = program.task(Some(server.reserve(1200)));
    for round in 1..20 {
        let memory = program.anonymous(250 * OBJECT);
        touch(&program, memory, (250, 1), round);
        let given_up = if round % 2 == 0 { client::UNMAP } else { client::DROP };
        assert_eq!(program.ask(&[given_up, memory, 0, 250 * OBJECT]), 0);
        if given_up == client::DROP {
            touch(&program, memory, (250, 1), round);
            assert_eq!(program.ask(&[client::UNMAP, memory, 0, 250 * OBJECT]), 0);
        }
    }
    // A round fits: of a reservation's last quarter only what is touched is taken. Two together would not.
    let counts = program.counts(task);
    assert_eq!((counts.evictions, counts.swap_ins), (0, 0), "{counts:?}");
    assert!(counts.zero_fills + counts.ahead >= 19 * 250, "{counts:?}");
    server.check();
}

#[test]
fn what_is_in_many_pieces_is_given_up_as_a_whole() {
    let (server, program, _, memory) = dense(12, |_| ());
    let before = server.shared.engine().objects_in_use();
    assert!(before >= 12, "{before} objects");
    // Holes, behind which each object goes on.
    for hole in 0..12 {
        assert_eq!(program.ask(&[client::UNMAP, memory, hole * OBJECT + 100, 1]), 0);
    }
    touch(&program, memory, (12, 1), 2);
    assert_eq!(program.ask(&[client::UNMAP, memory, 0, 12 * OBJECT]), 0);
    // The first and the last may reach past what was mapped.
    server.until("all of it is back", |engine| engine.objects_in_use() <= before - 10);
    assert!(server.shared.engine().has_client(program.id));
    server.check();
}
