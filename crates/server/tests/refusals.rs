//! Clients that give nothing up, or are stopped while their pages are to be taken: nobody else waits past his bound.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::id::ReservationId;
use freehold_core::limits::{PageRange, ReservationKind};
use freehold_core::units::{FrameCount, PageCount, PageIndex};
use freehold_server::{Engine, EngineError, Reaction, Settings};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use support::{Client, Server, client};

fn bounded(frames: u32, reaction: Reaction) -> Server {
    let mut settings = Settings::new(FrameCount::new(frames));
    settings.unresponsive.bound = Duration::from_millis(1_000);
    settings.unresponsive.reaction = reaction;
    Server::with(&settings)
}

#[test]
fn who_borrowed_and_always_says_busy_is_stopped_when_somebody_has_a_right_to_the_frames() {
    let server = bounded(256, Reaction::Kill);
    let borrower = Client::program(&server);
    let firm = server.try_reserve(16, ReservationKind::Firm).unwrap();
    borrower.task(Some(firm));
    let memory = borrower.anonymous(400);
    borrower.fill(memory, 0, 230, 1);
    borrower.ask(&[client::BUSY, 1]);
    let begun = Instant::now();
    let reservation = loop {
        match server.try_reserve(200, ReservationKind::Hard) {
            Ok(reservation) => break reservation,
            Err(EngineError::WouldWait) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("{error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it waits for ever");
    };
    let view = server.shared.engine().view().unwrap();
    assert!(view.orders.busy > 0 && view.orders.stopped == 1, "{:?}", view.orders);
    assert!(!server.shared.engine().has_client(borrower.id));
    server.shared.engine().release(firm);
    server.shared.engine().release(reservation);
    server.check();
}

#[test]
fn who_always_says_busy_disturbs_nobody_but_himself() {
    let server = bounded(512, Reaction::Kill);
    let (stubborn, worker) = (Client::program(&server), Client::program(&server));
    stubborn.task(Some(server.reserve(64)));
    let task = worker.task(Some(server.reserve(64)));
    let memory = stubborn.anonymous(200);
    let own = worker.anonymous(150);
    stubborn.fill(memory, 0, 60, 1);
    stubborn.ask(&[client::BUSY, 1]);
    // It finds nothing to evict: what it says to be kept counts no longer, and nobody else has a frame less.
    stubborn.tell(&[client::FILL, memory, 60, 140, 1], None);
    for round in 1..15 {
        worker.fill(own, 0, 150, round);
        assert_eq!(worker.wrong(own, 0, 150, round), 0);
    }
    assert!(worker.counts(task).swap_ins > 1_000, "{:?}", worker.counts(task));
    assert_eq!(stubborn.answer(), 0);
    let lent = |engine: &mut Engine| {
        let view = engine.view().unwrap();
        let its = view.clients.iter().find(|client| client.id == stubborn.id).unwrap();
        its.private.lent
    };
    server.until("what it keeps beyond its reservation is lent", |engine| {
        lent(engine) >= 200 - 64
    });
    server.check();
    stubborn.ask(&[client::BUSY, 0]);
    server.until("what was lent is taken back", |engine| lent(engine) == 0);
    assert_eq!(stubborn.wrong(memory, 0, 200, 1), 0);
    server.check();
}

/// A program fills the pool and is stopped; another needs frames of the pool.
fn stopped_with_the_pool(reaction: Reaction) {
    let server = bounded(256, reaction);
    let (sleeper, worker) = (Client::program(&server), Client::program(&server));
    let reserved = Client::program(&server);
    sleeper.task(None);
    worker.task(None);
    let task = reserved.task(Some(server.reserve(48)));
    let memory = sleeper.anonymous(200);
    sleeper.fill(memory, 0, 200, 1);
    sleeper.signal(Signal::STOP);
    let (its, own) = (worker.anonymous(150), reserved.anonymous(100));
    worker.tell(&[client::FILL, its, 0, 150, 1], None);
    // Whoever has a reservation waits for neither.
    for round in 1..6 {
        reserved.fill(own, 0, 100, round);
        assert_eq!(reserved.wrong(own, 0, 100, round), 0);
    }
    assert!(reserved.counts(task).swap_ins >= 200);
    assert_eq!(worker.answer(), 0);
    assert_eq!(worker.wrong(its, 0, 150, 1), 0);
    let id = sleeper.id;
    assert_eq!(server.shared.engine().view().unwrap().orders.stopped, 1);
    assert_eq!(server.shared.engine().has_client(id), reaction == Reaction::Freeze);
    sleeper.signal(Signal::KILL);
    server.until("it is gone", |engine| !engine.has_client(id));
    server.check();
}

#[test]
fn a_stopped_program_with_the_pool_is_killed_when_somebody_needs_frames() {
    stopped_with_the_pool(Reaction::Kill);
}

#[test]
fn a_program_that_stays_stopped_keeps_its_pages_and_others_go_on_without() {
    stopped_with_the_pool(Reaction::Freeze);
}

#[test]
fn who_was_stopped_for_good_and_is_continued_finds_nothing_wrong() {
    let server = bounded(256, Reaction::Freeze);
    let (loser, worker) = (Client::program(&server), Client::program(&server));
    loser.task(None);
    worker.task(None);
    let memory = loser.anonymous(240);
    loser.fill(memory, 0, 240, 1);
    // Its agent takes pages and says nothing: it is stopped with them out of the page table.
    loser.ask(&[client::LOSING, 1]);
    let its = worker.anonymous(150);
    worker.fill(its, 0, 150, 1);
    assert_eq!(worker.wrong(its, 0, 150, 1), 0);
    assert_eq!(server.shared.engine().view().unwrap().orders.stopped, 1);
    server.check();
    loser.signal(Signal::CONT);
    let mut right = 0;
    for page in 0..240 {
        loser.tell(&[client::TOUCH, memory, page], None);
        if !loser.answers_within(Duration::from_millis(300)) {
            break;
        }
        assert_eq!(loser.answer(), client::pattern(1, page), "page {page}");
        right += 1;
    }
    assert!(right < 240, "its agent has lost nothing");
    let id = loser.id;
    loser.signal(Signal::KILL);
    server.until("it is gone", |engine| !engine.has_client(id));
    server.check();
}

/// Waits to be admitted, for so long; whether that happened.
fn admitted_within(server: &Server, frames: u32, patience: Duration) -> Option<ReservationId> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        match server.try_reserve(frames, ReservationKind::Hard) {
            Ok(reservation) => return Some(reservation),
            Err(EngineError::WouldWait) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => panic!("{error}"),
        }
    }
    server.shared.engine().stop_reclaim();
    None
}

/// A program with a firm reservation that has borrowed nearly all there is, and says that all of it must stay.
fn hoarder(server: &Server) -> Client {
    let hoarder = Client::program(server);
    hoarder.task(Some(server.try_reserve(16, ReservationKind::Firm).unwrap()));
    let memory = hoarder.anonymous(400);
    hoarder.fill(memory, 0, 200, 1);
    let address = hoarder.ask(&[client::ADDRESS, memory]);
    server.shared.engine().keep(hoarder.id, address, 400 << 12).unwrap();
    hoarder
}

#[test]
fn who_keeps_what_it_borrowed_is_stopped_and_nobody_waits_meanwhile() {
    for reaction in [Reaction::Kill, Reaction::Freeze] {
        let server = bounded(256, reaction);
        let worker = Client::program(&server);
        let task = worker.task(Some(server.reserve(32)));
        let own = worker.anonymous(100);
        let hoarder = hoarder(&server);
        std::thread::scope(|scope| {
            // Somebody else is served as ever.
            scope.spawn(|| {
                for round in 1..30 {
                    worker.fill(own, 0, 100, round);
                    assert_eq!(worker.wrong(own, 0, 100, round), 0);
                }
            });
            let admitted = admitted_within(&server, 180, Duration::from_secs(4));
            // Who is stopped and not killed keeps it, and whoever wants to be admitted does without.
            assert_eq!(admitted.is_some(), reaction == Reaction::Kill);
        });
        assert!(worker.counts(task).swap_ins > 1_000);
        assert_eq!(server.shared.engine().view().unwrap().orders.stopped, 1);
        assert_eq!(
            server.shared.engine().has_client(hoarder.id),
            reaction == Reaction::Freeze
        );
        server.check();
    }
}

#[test]
fn who_finds_nothing_to_evict_among_many_pages_holds_nobody_up() {
    const MANY: u64 = 4_000;
    let server = bounded(5_000, Reaction::Kill);
    let hoarder = Client::program(&server);
    hoarder.task(Some(server.reserve(4_000)));
    let memory = hoarder.anonymous(MANY + 100);
    hoarder.fill(memory, 0, MANY, 1);
    let address = hoarder.ask(&[client::ADDRESS, memory]);
    server
        .shared
        .engine()
        .keep(hoarder.id, address, (MANY + 100) << 12)
        .unwrap();
    let worker = Client::program(&server);
    let task = worker.task(Some(server.reserve(32)));
    let own = worker.anonymous(100);
    worker.fill(own, 0, 100, 1);
    // It has the next pages all the same, for some of the others are lent to it.
    for page in 0..3 {
        hoarder.tell(&[client::TOUCH, memory, MANY + page], None);
        let waits = worker.counts(task).swap_ins;
        assert_eq!(worker.wrong(own, 0, 100, 1), 0);
        assert!(worker.counts(task).swap_ins > waits);
        assert_eq!(hoarder.answer(), 0, "zeros");
    }
    assert_eq!(hoarder.wrong(memory, 0, MANY, 1), 0);
    server.check();
}

/// Frames that two lockers of the same pages gave back are not all reserved again: some stay for tasks without a
/// reservation, and who unlocks cannot take these either.
#[test]
fn who_unlocks_what_others_keep_locked_leaves_frames_to_who_reserved_none() {
    let server = Server::start(256);
    let left = Settings::new(FrameCount::new(256)).least_unreserved;
    let (lockers, other) = (
        [Client::program(&server), Client::program(&server)],
        Client::program(&server),
    );
    let (object, descriptor) = server.region("both", 60, true);
    let range = PageRange {
        first: PageIndex::new(0),
        count: PageCount::new(60),
    };
    let reservations = lockers.each_ref().map(|locker| {
        let reservation = server.reserve(80);
        let mapped = locker.map(locker.task(Some(reservation)), object, &descriptor, 60);
        locker.fill(mapped.number, 0, 60, 3);
        server.shared.engine().lock(reservation, object, range).unwrap();
        server.until("it is locked", |engine| engine.is_locked(reservation) == Ok(true));
        reservation
    });
    other.task(None);
    let unreserved = 256 - 2 * 80 + 60;
    let third = server.reserve(unreserved - left.get());
    let unlock = |engine: &mut Engine, pages| {
        let count = PageCount::new(pages);
        engine.unlock(reservations[1], object, PageRange { count, ..range })
    };
    for pages in [1, left.get()] {
        let refused = unlock(&mut server.shared.engine(), pages);
        assert!(
            matches!(refused, Err(EngineError::LeavesNone { .. })),
            "{pages}: {refused:?}"
        );
    }
    let memory = other.anonymous(60);
    other.fill(memory, 0, 60, 4);
    assert_eq!(other.wrong(memory, 0, 60, 4), 0);
    server.shared.engine().release(third);
    server.until("the third has ended", |engine| unlock(engine, 60).is_ok());
    server.check();
}
