//! Large things end part by part: no step visits more than some thousand pages, however many there are.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::id::ReservationId;
use freehold_server::{Engine, ObjectKey};
use support::{Client, Server, client};

/// Pages of a region.
const LARGE: u32 = 20_000;
/// Pages that one step visits at most to end things that are no private objects.
const STEP: u32 = 8_192;

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

fn resident(engine: &Engine, object: ObjectKey) -> u32 {
    engine.core().resident(object).map_or(0, |pages| pages.get())
}

/// Pages that a reservation has on its lists.
fn listed(engine: &Engine, reservation: ReservationId) -> u32 {
    engine.core().pages_of(reservation).count().try_into().unwrap()
}

#[test]
fn a_region_whose_client_is_killed() {
    let server = Server::start(LARGE + 2_000);
    let mut client = Client::start(&server, "client_main");
    let reservation = server.reserve(LARGE);
    let task = client.task(Some(reservation));
    let (object, descriptor) = server.region("large", LARGE, false);
    let mapped = client.map(task, object, &descriptor, LARGE);
    client.fill(mapped.number, 0, LARGE.into(), 1);
    client.signal(rustix::process::Signal::KILL);
    client.wait();
    let mut engine = server.shared.engine();
    // The pager may have known before; nobody else has the engine from here on.
    engine.remove_client(client.id);
    engine.release(reservation);
    let before = resident(&engine, object);
    engine.close_object(object);
    let after = resident(&engine, object);
    assert!(before - after <= STEP, "{before} pages, then {after}");
    assert!(after > 0, "it goes in one step");
    drop(engine);
    server.until("all of it is gone", |engine| {
        engine.objects_in_use() == 0 && engine.view().unwrap().reservations.is_empty()
    });
    let view = server.shared.engine().view().unwrap();
    assert_eq!(view.pool.free, view.pool.total, "every frame is back");
    server.check();
}

#[test]
fn a_reservation_whose_pages_others_keep() {
    let server = Server::start(2 * LARGE);
    let (leaver, stayer) = (
        Client::start(&server, "client_main"),
        Client::start(&server, "client_main"),
    );
    let reservation = server.reserve(LARGE);
    let (object, descriptor) = server.region("large", LARGE, true);
    let pool = stayer.map(stayer.task(None), object, &descriptor, LARGE);
    let mapped = leaver.map(leaver.task(Some(reservation)), object, &descriptor, LARGE);
    leaver.fill(mapped.number, 0, LARGE.into(), 2);
    let mut engine = server.shared.engine();
    engine.remove_client(leaver.id);
    let before = listed(&engine, reservation);
    engine.release(reservation);
    let after = listed(&engine, reservation);
    assert!(before - after <= STEP, "{before} pages, then {after}");
    assert!(after > 0, "it goes in one step");
    drop(engine);
    server.until("it has ended", |engine| engine.view().unwrap().reservations.is_empty());
    server.check();
    assert_eq!(stayer.wrong(pool.number, 0, LARGE.into(), 2), 0, "its pages stay");
}

#[test]
fn what_is_left_goes_before_what_is_used() {
    let server = Server::start(LARGE + 2_000);
    let (leaver, stayer) = (
        Client::start(&server, "client_main"),
        Client::start(&server, "client_main"),
    );
    let reservation = server.reserve(LARGE);
    let (used, used_descriptor) = server.region("used", 4_000, false);
    let (left, left_descriptor) = server.region("left", LARGE - 2_000, false);
    let task = stayer.task(Some(reservation));
    let stays = stayer.map(task, used, &used_descriptor, 4_000);
    stayer.fill(stays.number, 0, 1_000, 3);
    let mapped = leaver.map(leaver.task(Some(reservation)), left, &left_descriptor, LARGE - 2_000);
    leaver.fill(mapped.number, 0, u64::from(LARGE) - 2_000, 4);
    {
        let mut engine = server.shared.engine();
        engine.unmap(leaver.id, mapped.key).unwrap();
        let victims = engine.core().next_victims(reservation).take(1);
        let first: Vec<u32> = victims.map(|page| page.page().get()).collect();
        assert_ne!(first, [0], "it is left in one step");
    }
    // These faults wait until all of it is left: then its first pages are the first victims, and what is used stays.
    stayer.fill(stays.number, 1_000, 3_000, 5);
    assert_eq!(stayer.wrong(stays.number, 0, 1_000, 3), 0);
    assert_eq!(stayer.wrong(stays.number, 1_000, 3_000, 5), 0);
    let counts = stayer.counts(task);
    assert!(counts.evictions >= 2_000, "{counts:?}");
    assert_eq!(counts.swap_ins, 0, "{counts:?}");
    server.check();
}

#[test]
fn what_nobody_will_look_for_is_not_written() {
    let server = Server::start(LARGE + 2_000);
    let client = Client::start(&server, "client_main");
    let task = client.task(Some(server.reserve(LARGE)));
    let (gone, descriptor) = server.region("gone", LARGE - 2_000, false);
    let mapped = client.map(task, gone, &descriptor, LARGE - 2_000);
    client.fill(mapped.number, 0, u64::from(LARGE) - 2_000, 6);
    let (next, descriptor) = server.region("next", LARGE - 2_000, false);
    {
        let mut engine = server.shared.engine();
        engine.unmap(client.id, mapped.key).unwrap();
        engine.close_object(gone);
    }
    let mapped = client.map(task, next, &descriptor, LARGE - 2_000);
    client.fill(mapped.number, 0, u64::from(LARGE) - 2_000, 7);
    assert_eq!(client.wrong(mapped.number, 0, u64::from(LARGE) - 2_000, 7), 0);
    let counts = client.counts(task);
    assert_eq!(counts.swap_ins, 0, "{counts:?}");
    let written = server.shared.engine().store().stats().writes;
    assert_eq!(written, 0, "{counts:?}");
    server.check();
}

#[test]
fn a_lock_brings_in_a_few_pages_at_a_time() {
    let server = Server::start(LARGE + 2_000);
    let client = Client::start(&server, "client_main");
    let reservation = server.reserve(LARGE);
    let task = client.task(Some(reservation));
    let (object, descriptor) = server.region("locked", LARGE, false);
    let mapped = client.map(task, object, &descriptor, LARGE);
    let range = freehold_core::limits::PageRange {
        first: freehold_core::units::PageIndex::new(0),
        count: freehold_core::units::PageCount::new(LARGE / 2),
    };
    {
        let mut engine = server.shared.engine();
        engine.lock(reservation, object, range).unwrap();
        let begun = resident(&engine, object);
        assert!(begun <= 64, "{begun} pages in one step");
        assert_eq!(engine.is_locked(reservation), Ok(false));
        let more = resident(&engine, object);
        assert!(more > begun && more <= begun + 64, "{begun} pages, then {more}");
    }
    // Faults are served meanwhile.
    client.fill(mapped.number, (LARGE / 2).into(), 1_000, 8);
    // Nobody has to ask.
    server.until("all of it is there", |engine| {
        resident(engine, object) == LARGE / 2 + 1_000
    });
    server.until("all of it is locked", |engine| {
        engine.is_locked(reservation) == Ok(true)
    });
    assert_eq!(client.wrong(mapped.number, (LARGE / 2).into(), 1_000, 8), 0);
    let view = server.shared.engine().view().unwrap();
    assert_eq!(view.reservations[0].lists.locked.get(), LARGE / 2);
    server.check();
}
