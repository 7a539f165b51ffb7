//! Somebody more urgent never waits behind what nobody hurries for, also where that was begun before.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::view::PageState;
use freehold_server::{ClientId, Engine, ObjectKey, Settings, StoreMedium};
use rustix::fd::OwnedFd;
use std::time::Duration;
use support::{Client, Mapped, Server, client};

const PAGES: u32 = 30;

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// A server whose store does one transfer at a time, slowly.
fn slow() -> Server {
    Server::with(&Settings {
        store: StoreMedium::Memory {
            latency: Duration::from_millis(100),
            parallel: 1,
        },
        ..Settings::new(FrameCount::new(1024))
    })
}

fn faults(engine: &Engine, id: ClientId) -> u64 {
    let view = engine.view().unwrap();
    let client = view.clients.iter().find(|client| client.id == id);
    client.map_or(0, |client| client.faults)
}

/// A client with a reservation of its own that maps a region.
fn reader(server: &Server, (object, descriptor): &(ObjectKey, OwnedFd), pages: u32, urgency: u8) -> (Client, Mapped) {
    let client = Client::start(server, "client_main");
    let task = client.task_with(Some(server.reserve(16)), urgency);
    let mapped = client.map(task, *object, descriptor, pages);
    (client, mapped)
}

/// Pages of a region that a client has written, and that have gone to the store: nine at least.
fn stored_pages(server: &Server, region: &(ObjectKey, OwnedFd)) -> (Client, Vec<u32>) {
    let (filler, its) = reader(server, region, PAGES, 0);
    filler.fill(its.number, 0, PAGES.into(), 3);
    let engine = server.shared.engine();
    let state = |page: &u32| engine.core().page(region.0, PageIndex::new(*page)).unwrap().state;
    let stored: Vec<u32> = (0..PAGES).filter(|page| state(page) == PageState::Stored).collect();
    assert!(stored.len() >= 9, "{stored:?}");
    drop(engine);
    (filler, stored)
}

/// On a machine so slow that most was read before, nothing is shown.
fn tell_if_late(read: u64) {
    if read >= 5 {
        println!("passed over: {read} of 9 were read before it began");
    }
}

#[test]
fn a_read_that_is_under_way_is_lifted_for_who_is_more_urgent() {
    let server = slow();
    let region = server.region("shared", PAGES, true);
    let (_filler, stored) = stored_pages(&server, &region);
    let calm: Vec<_> = (0..9).map(|_| reader(&server, &region, PAGES, 0)).collect();
    let (boosted, mapped) = reader(&server, &region, PAGES, 10);
    for ((client, mapped), page) in calm.iter().zip(&stored) {
        client.tell(&[client::WHEN, mapped.number, u64::from(*page)], None);
        server.until("it waits", |engine| faults(engine, client.id) > 0);
    }
    // The page that was asked for last is what somebody more urgent comes to want.
    boosted.tell(&[client::WHEN, mapped.number, u64::from(stored[8])], None);
    server.until("it waits", |engine| faults(engine, boosted.id) > 0);
    let read = server.shared.engine().store().stats().reads;
    let came = boosted.answer();
    let before: Vec<u64> = calm.iter().map(|(client, _)| client.answer()).collect();
    assert_eq!(server.shared.engine().view().unwrap().orders.lifted, 1);
    // All that had not been read when it came, but what was at the device then, comes after it.
    let overtaken = before[..8].iter().filter(|when| **when > came).count() as u64;
    assert!(overtaken + read + 2 >= 8, "{overtaken} overtaken, {read} read before");
    tell_if_late(read);
    server.check();
}

#[test]
fn who_becomes_urgent_while_it_waits_overtakes_the_others() {
    let server = slow();
    let region = server.region("shared", PAGES, true);
    let (_filler, stored) = stored_pages(&server, &region);
    let mut readers = Vec::new();
    for _ in 0..9 {
        let client = Client::start(&server, "client_main");
        let task = client.task_with(Some(server.reserve(16)), 0);
        let mapped = client.map(task, region.0, &region.1, PAGES);
        readers.push((client, task, mapped));
    }
    for ((client, _, mapped), page) in readers.iter().zip(&stored) {
        client.tell(&[client::WHEN, mapped.number, u64::from(*page)], None);
        server.until("it waits", |engine| faults(engine, client.id) > 0);
    }
    let (last, task, _) = &readers[8];
    let read = {
        let mut engine = server.shared.engine();
        engine.set_urgency(last.id, *task, 10).unwrap();
        engine.store().stats().reads
    };
    let came = last.answer();
    let before: Vec<u64> = readers[..8].iter().map(|(client, ..)| client.answer()).collect();
    assert_eq!(server.shared.engine().view().unwrap().orders.lifted, 1);
    let overtaken = before.iter().filter(|when| **when > came).count() as u64;
    assert!(overtaken + read + 2 >= 8, "{overtaken} overtaken, {read} read before");
    tell_if_late(read);
    server.check();
}

#[test]
fn evictions_for_a_reservation_are_lifted_for_its_most_urgent_task() {
    let server = slow();
    let own = server.reserve(16);
    let calm = Client::start(&server, "client_main");
    let boosted = Client::start(&server, "client_main");
    let regions = [server.region("calm", 40, false), server.region("boosted", 8, false)];
    let task = calm.task_with(Some(own), 0);
    let calms = calm.map(task, regions[0].0, &regions[0].1, 40);
    let task = boosted.task_with(Some(own), 10);
    let hurrieds = boosted.map(task, regions[1].0, &regions[1].1, 8);
    calm.fill(calms.number, 0, 16, 1);
    // Between them in urgency, and never without requests at the store.
    let region = server.region("between", 60, false);
    let (between, its) = reader(&server, &region, 60, 5);
    between.fill(its.number, 0, 16, 1);
    between.tell(&[client::FILL, its.number, 16, 40, 1], None);
    let waits = faults(&server.shared.engine(), between.id);
    server.until("it writes", |engine| faults(engine, between.id) > waits + 3);
    let waits = faults(&server.shared.engine(), calm.id);
    calm.tell(&[client::FILL, calms.number, 16, 3, 1], None);
    server.until("its three threads wait", |engine| faults(engine, calm.id) >= waits + 3);
    let came = boosted.ask(&[client::WHEN, hurrieds.number, 0]);
    assert_eq!(between.answer(), 0);
    let ended = between.ask(&[client::WHEN, its.number, 55]);
    assert!(came < ended, "it waited for what is less urgent");
    assert!(server.shared.engine().view().unwrap().orders.lifted > 0);
    assert_eq!(calm.answer(), 0);
    server.check();
}
