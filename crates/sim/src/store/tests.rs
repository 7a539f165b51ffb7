use super::*;
use freehold_core::units::PageCount;
use freehold_scenario::StoreKind;

fn store(latency: u64, parallel: u32, faults: Option<Faults>) -> Store {
    let config = StoreConfig {
        kind: StoreKind::default(),
        latency: freehold_core::units::Duration::new(latency),
        wait: freehold_scenario::StoreWait::Spin,
        parallel,
        read_ahead: freehold_core::ReadAhead::NONE,
        capacity: None::<PageCount>,
        directory: std::path::PathBuf::new(),
    };
    Store::new(&config, 64, 2, faults.map(|faults| Injector::new(faults, 1)))
}

/// A request with a page of its own, by the number that tells the ticket apart.
fn submit(store: &mut Store, now: u64, ticket: Ticket, urgency: u8) {
    let submission = Submission {
        ticket,
        urgency: Urgency::for_test(urgency),
        record: u32::try_from(ticket.region).unwrap(),
        frees_for: (ticket.region > 2).then_some(HolderRow::POOL),
    };
    assert!(store.submit(now, submission));
}

/// When each of `requests`, handed in together at time 0, ends, in the order of ending; and whether it failed.
fn ends(store: &mut Store, tickets: &[Ticket]) -> Vec<(u64, usize, bool)> {
    for ticket in tickets {
        submit(store, 0, *ticket, 0);
    }
    let mut ends = Vec::new();
    while let Some(due) = store.next_end() {
        let ended = store.end_one(due).unwrap();
        ends.push((due, ended.ticket.region, ended.failed));
    }
    assert_eq!(store.outstanding(), 0);
    ends
}

fn tickets(count: usize) -> Vec<Ticket> {
    (0..count).map(Ticket::for_test).collect()
}

#[test]
fn requests_queue_for_the_channels() {
    let ends = ends(&mut store(100, 2, None), &tickets(5));
    assert_eq!(
        ends,
        [
            (100, 0, false),
            (100, 1, false),
            (200, 2, false),
            (200, 3, false),
            (300, 4, false)
        ]
    );
}

#[test]
fn a_free_channel_starts_at_once() {
    let mut store = store(100, 1, None);
    let tickets = tickets(2);
    submit(&mut store, 0, tickets[0], 0);
    assert!(store.end_one(99).is_none());
    assert!(store.end_one(100).is_some());
    submit(&mut store, 130, tickets[1], 0);
    assert_eq!(store.next_end(), Some(230));
}

#[test]
fn faults_are_injected() {
    let late = Faults {
        late: 1.0,
        late_by: freehold_core::units::Duration::new(50),
        ..Faults::default()
    };
    assert_eq!(
        ends(&mut store(100, 1, Some(late)), &tickets(2)),
        [(150, 0, false), (300, 1, false)]
    );
    let failing = Faults {
        fail: 1.0,
        ..Faults::default()
    };
    assert_eq!(ends(&mut store(100, 1, Some(failing)), &tickets(1)), [(100, 0, true)]);
    let reordering = Faults {
        reorder: true,
        ..Faults::default()
    };
    let order: Vec<usize> = ends(&mut store(100, 4, Some(reordering)), &tickets(40))
        .iter()
        .map(|end| end.1)
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..40).collect::<Vec<_>>());
    assert_ne!(order, sorted);
}

#[test]
fn a_healed_store_serves_as_it_should() {
    let mut store = store(
        100,
        1,
        Some(Faults {
            fail: 1.0,
            ..Faults::default()
        }),
    );
    store.heal();
    assert_eq!(ends(&mut store, &tickets(1)), [(100, 0, false)]);
}

/// The regions of all requests, in the order of ending.
fn order(store: &mut Store) -> Vec<usize> {
    let next = |store: &mut Store| store.next_end().and_then(|due| store.end_one(due));
    std::iter::from_fn(|| next(store))
        .map(|ended| ended.ticket.region)
        .collect()
}

#[test]
fn the_more_urgent_overtakes_what_waits_but_not_what_is_served() {
    let mut store = store(100, 1, None);
    for (ticket, urgency) in tickets(6).into_iter().zip([0, 0, 7, 0, 7, 9]) {
        submit(&mut store, 0, ticket, urgency);
    }
    assert_eq!(order(&mut store), [0, 5, 2, 4, 1, 3]);
}

#[test]
fn what_is_lifted_keeps_its_place_among_equals() {
    let mut store = store(100, 1, None);
    for (ticket, urgency) in tickets(6).into_iter().zip([0, 0, 3, 0, 3, 0]) {
        submit(&mut store, 0, ticket, urgency);
    }
    assert!(!store.lift(6, Urgency::for_test(3)), "there is none");
    // What is as urgent already, or served already, stays.
    for record in [0, 1, 4, 5] {
        assert!(store.lift(record, Urgency::for_test(3)));
    }
    assert_eq!(order(&mut store), [0, 1, 2, 4, 5, 3]);
}

#[test]
fn those_that_free_frames_for_a_holder_are_lifted_together() {
    let mut store = store(100, 1, None);
    for (ticket, urgency) in tickets(6).into_iter().zip([0, 0, 2, 0, 3, 0]) {
        submit(&mut store, 0, ticket, urgency);
    }
    store.lift_writes(HolderRow::new(1), Urgency::for_test(9));
    store.lift_writes(HolderRow::POOL, Urgency::for_test(3));
    assert_eq!(order(&mut store), [0, 3, 4, 5, 2, 1]);
}
