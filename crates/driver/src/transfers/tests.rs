use super::{Transfer, Transfers, WHEN_TOLD};
use crate::HolderRow;
use freehold_core::units::Instant;

const FIRST: HolderRow = HolderRow::new(1);

fn transfer(record: u32, queue: usize, due: u64) -> Transfer<()> {
    Transfer {
        record,
        queue,
        due: Instant::new(due),
        urgency: 0,
        frees_for: None,
        what: (),
    }
}

fn record(transfer: Option<Transfer<()>>) -> Option<u32> {
    transfer.map(|transfer| transfer.record)
}

#[test]
fn each_queue_ends_in_order_of_due_times_and_then_of_entry() {
    let mut transfers = Transfers::bounded(6, 6, 3, 1);
    for (record, due, queue) in [(0, 30, 1), (1, 10, 1), (2, 20, 1), (3, 5, 2), (4, 10, 1)] {
        assert!(transfers.insert(transfer(record, queue, due)));
    }
    assert_eq!(transfers.first(1).map(|first| first.due.get()), Some(10));
    assert!(transfers.take_due(1, Instant::new(9)).is_none() && transfers.first(0).is_none());
    let mut order = Vec::new();
    while let Some(taken) = transfers.take_due(1, Instant::new(25)) {
        order.push(taken.record);
    }
    assert_eq!(order, [1, 4, 2]);
    assert_eq!((transfers.count(), transfers.most()), (2, 5));
    assert_eq!(record(transfers.take(3)), Some(3));
    assert!(transfers.take(3).is_none());
    assert_eq!(transfers.earliest().map(|first| first.record), Some(0));
}

#[test]
fn a_record_has_one_transfer_and_a_full_table_refuses() {
    let mut transfers = Transfers::bounded(2, 3, 1, 1);
    assert!(transfers.insert(transfer(0, 0, 1)));
    assert!(!transfers.insert(transfer(0, 0, 2)), "it has one");
    assert!(transfers.insert(transfer(1, 0, 1)));
    assert!(!transfers.insert(transfer(2, 0, 1)), "full");
    assert!(transfers.take(0).is_some());
    assert!(!transfers.insert(transfer(2, 1, 1)), "no such queue");
    assert!(!transfers.insert(transfer(3, 0, 1)), "no such record");
    assert!(transfers.insert(transfer(2, 0, 1)));
    let mut growing = Transfers::growing(100, 1, 1);
    assert!((0..100).all(|record| growing.insert(transfer(record, 0, 1))));
}

#[test]
fn what_is_told_becomes_due_and_moves_to_its_place() {
    let mut transfers = Transfers::bounded(3, 3, 2, 1);
    assert_eq!(transfers.complete(0, Instant::new(1)), None);
    for (record, due) in [(0, u64::MAX), (1, u64::MAX), (2, 40)] {
        transfers.insert(transfer(record, 1, due));
    }
    assert_eq!(transfers.get(0).map(|transfer| transfer.due), Some(WHEN_TOLD));
    assert_eq!(transfers.complete(1, Instant::new(30)), Some(1));
    // Once due it stays so, and what has a time of its own keeps it.
    assert_eq!(transfers.complete(1, Instant::new(90)), None);
    assert_eq!(transfers.complete(2, Instant::new(90)), None);
    assert!(transfers.take_if_due(0, Instant::new(50)).is_none());
    assert!(transfers.expect(2, 0, Instant::new(20)) && !transfers.expect(2, 9, Instant::new(1)));
    assert_eq!(record(transfers.take_due(0, Instant::new(20))), Some(2));
    assert_eq!(record(transfers.take_due(1, Instant::new(50))), Some(1));
    assert_eq!(transfers.count(), 1);
}

/// Compared with the obvious list, searched through, in random order.
#[test]
fn writes_are_found_by_whom_they_free_a_frame_for() {
    let mut state = 7_u64;
    let mut random = |bound: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u32::try_from(state >> 33).unwrap() % bound
    };
    let mut transfers = Transfers::growing(16, 1, 3);
    let mut naive: Vec<(u32, HolderRow, u8)> = Vec::new();
    for _ in 0..20_000 {
        let (record, urgency) = (random(16), u8::try_from(random(4)).unwrap());
        let at = naive.iter().position(|row| row.0 == record);
        match random(3) {
            0 => {
                let holder = HolderRow::new(random(3));
                let added = transfers.insert(Transfer {
                    urgency,
                    frees_for: Some(holder),
                    ..transfer(record, 0, u64::from(random(9)))
                });
                assert_eq!(added, at.is_none());
                naive.extend(added.then_some((record, holder, urgency)));
            }
            1 => assert_eq!(
                transfers.take(record).is_some(),
                at.map(|at| naive.remove(at)).is_some()
            ),
            _ => {
                let raised = at.map(|at| naive[at].2 < urgency);
                assert_eq!(transfers.raise(record, urgency), raised);
                if let Some(at) = at {
                    naive[at].2 = naive[at].2.max(urgency);
                }
            }
        }
        for holder in (0..3).map(HolderRow::new) {
            let least = naive.iter().filter(|row| row.1 == holder).map(|row| row.2).min();
            let found = transfers.write_below(holder, u8::MAX);
            assert_eq!(
                found.and_then(|found| transfers.get(found)).map(|row| row.urgency),
                least
            );
            assert!(transfers.write_below(holder, least.unwrap_or(0)).is_none());
        }
    }
    assert!(transfers.write_below(FIRST, 0).is_none());
}
