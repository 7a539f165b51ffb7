//! A snapshot of everything is taken in short holds of the engine: faults are served between them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_core::units::FrameCount;
use freehold_server::{Settings, Snapshot};
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// Clients, objects and pages that are far more than one hold looks at.
fn crowded(server: &Server) -> Vec<Client> {
    for at in 0..10 {
        let (object, _) = server.region(&format!("large {at}"), 40_000, true);
        assert!(
            server.shared.engine().has_region(0, &format!("large {at}")),
            "{object:?}"
        );
    }
    let clients: Vec<_> = (0..6).map(|_| Client::program(server)).collect();
    for client in &clients {
        for _ in 0..30 {
            client.task(None);
        }
        assert_eq!(client.anonymous(3_000), 0);
        client.fill(0, 0, 40, 1);
    }
    clients
}

#[test]
fn no_hold_looks_at_more_than_the_bound_and_faults_are_served_between_them() {
    let server = Server::with(&Settings::new(FrameCount::new(1024)));
    let clients = crowded(&server);
    let whole = server.shared.engine().view().unwrap();
    let mut snapshot = server.shared.engine().begin_snapshot();
    let (mut holds, mut longest, mut all) = (0_u64, 0, 0);
    while !snapshot.is_complete() {
        let looked = server.shared.engine().advance(&mut snapshot).unwrap();
        snapshot.count().unwrap();
        (holds, longest, all) = (holds + 1, longest.max(looked), all + looked);
        // Somebody faults, and is served while the snapshot is not complete.
        if holds <= 20 {
            clients[0].fill(0, 40 + holds, 1, 2);
        }
    }
    println!(
        "{all} looked at in {holds} holds, {longest} at most in one of {}",
        Snapshot::bound()
    );
    assert!(longest <= Snapshot::bound(), "{longest} in one hold");
    assert!(all > 400_000 && holds > 80, "{all} in {holds} holds is not everything");
    let view = snapshot.into_view();
    assert_eq!(view.clients.len(), whole.clients.len());
    assert_eq!(view.objects.len(), whole.objects.len());
    assert!(view.clients.iter().all(|client| client.tasks.len() == 30));
    server.check();
}

#[test]
fn a_picture_in_steps_is_that_of_one_hold_where_nothing_happens() {
    let server = Server::with(&Settings::new(FrameCount::new(256)));
    let program = Client::program(&server);
    program.task(Some(server.reserve(64)));
    assert_eq!(program.anonymous(300), 0);
    program.fill(0, 0, 300, 1);
    let sharer = Client::start(&server, "client_main");
    let task = sharer.task(Some(server.reserve(64)));
    let (object, descriptor) = server.region("shared", 50, true);
    let mapped = sharer.map(task, object, &descriptor, 50);
    sharer.fill(mapped.number, 0, 50, 1);
    // The reserve's thread follows the pages that have come, in its own time.
    server.until("the reserve is what it is to be", |engine| {
        let view = engine.view().unwrap();
        view.backing.due == view.backing.resident && view.resident_measured == u64::from(view.pool.memory_used.get())
    });
    let whole = server.shared.engine().view().unwrap();
    let steps = server.shared.view().unwrap();
    assert_eq!(whole.resident_measured, steps.resident_measured);
    assert!(whole.clients[0].private.stored >= 300 - 64, "{:?}", whole.clients[0]);
    let stored = |view: &freehold_server::EngineView| {
        let clients = view.clients.iter();
        clients
            .map(|client| (client.pid, client.private.stored, client.tasks.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(stored(&whole), stored(&steps));
    let members = |view: &freehold_server::EngineView| {
        let rows = view.reservations.iter();
        rows.map(|row| (row.id, row.members.clone())).collect::<Vec<_>>()
    };
    assert_eq!(members(&whole), members(&steps));
    assert!(members(&whole).iter().all(|(_, members)| members.len() == 1));
    assert_eq!(
        (&whole.objects[0].shares, &whole.objects[0].mappers),
        (&steps.objects[0].shares, &steps.objects[0].mappers)
    );
    assert_eq!(whole.objects[0].shares[0].owned, 50);
    assert_eq!(whole.pagers.iter().map(|pager| pager.clients).sum::<u64>(), 2);
}
