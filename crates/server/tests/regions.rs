//! Library clients with regions: pages come, are shared, leave for the store and come back.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

#[test]
fn a_fault_is_served() {
    let server = Server::start(64);
    let client = Client::start(&server, "client_main");
    let task = client.task(Some(server.reserve(16)));
    let (object, descriptor) = server.region("a", 8, true);
    let mapped = client.map(task, object, &descriptor, 8);
    assert_eq!(client.read(mapped, 3), 0);
    client.write(mapped, 3, 77);
    client.write(mapped, 4, 78);
    assert_eq!((client.read(mapped, 3), client.read(mapped, 4)), (77, 78));
    let counts = client.counts(task);
    assert_eq!((counts.zero_fills, counts.write_faults), (2, 1), "{counts:?}");
    server.check();
}

#[test]
fn pages_beyond_the_reservation_go_to_the_store_and_come_back() {
    let server = Server::start(256);
    let client = Client::start(&server, "client_main");
    let task = client.task(Some(server.reserve(32)));
    let (object, descriptor) = server.region("a", 200, false);
    let mapped = client.map(task, object, &descriptor, 200);
    for round in 1..4 {
        assert_eq!(client.ask(&[client::FILL, mapped.number, 0, 200, round]), 0);
        assert_eq!(
            client.ask(&[client::CHECK, mapped.number, 0, 200, round]),
            0,
            "round {round}"
        );
    }
    let counts = client.counts(task);
    assert!(counts.swap_ins > 200 && counts.evictions > 200, "{counts:?}");
    let lists = server.shared.engine().view().unwrap();
    let row = &lists.reservations[0].lists;
    assert!(row.peak.get() <= 32, "{row:?}");
    assert_eq!(lists.pool.memory_used.get(), 32);
    server.check();
}

#[test]
fn sampling_counts_the_pages_referenced_in_a_period() {
    let server = Server::start(256);
    let client = Client::start(&server, "client_main");
    let task = client.task(Some(server.reserve(64)));
    let (object, descriptor) = server.region("a", 40, true);
    let mapped = client.map(task, object, &descriptor, 40);
    client.fill(mapped.number, 0, 40, 1);
    let period = std::time::Duration::from_millis(20);
    server.shared.engine().sample(client.id, period).unwrap();
    let mut last = 0.0;
    for _ in 0..1_000 {
        client.read(mapped, 3);
        client.read(mapped, 4);
        let share = server.shared.engine().view().unwrap().objects[0].shares[0];
        last = share.sampled_average;
        if share.sampled_max >= 2 && last > 0.0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(last > 0.0);
    assert!(last <= 40.0, "{last}");
    server
        .shared
        .engine()
        .sample(client.id, std::time::Duration::ZERO)
        .unwrap();
    server.check();
}

/// Max(S) of a region is what any of its reservations touches: each may touch other pages.
#[test]
fn pages_that_different_reservations_reference_add_up() {
    let server = Server::start(256);
    let (object, descriptor) = server.region("a", 40, true);
    let reservations = [server.reserve(64), server.reserve(64)];
    let mut clients = Vec::new();
    for (reservation, first) in reservations.into_iter().zip([0, 20]) {
        let client = Client::start(&server, "client_main");
        let task = client.task(Some(reservation));
        let mapped = client.map(task, object, &descriptor, 40);
        let period = std::time::Duration::from_secs(60);
        server.shared.engine().sample(client.id, period).unwrap();
        // Both touch page 19.
        for page in [19, first, first + 1, first + 2] {
            client.read(mapped, page);
        }
        clients.push(client);
    }
    let by_any = |of: &[_]| {
        let engine = server.shared.engine();
        let pages = |id: &_| engine.sampled_pages(object, *id);
        of.iter()
            .flat_map(pages)
            .collect::<std::collections::BTreeSet<u32>>()
            .len()
    };
    assert_eq!(by_any(&reservations[..1]), 4);
    assert_eq!(by_any(&reservations), 7);
    assert_eq!(by_any(&[]), 0);
    server.check();
}
