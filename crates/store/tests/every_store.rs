//! One test body for all stores: what is written comes back, what is damaged does not, what fails says so.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{NOW, every_store, page, read, record, write};
use freehold_linux::Errno;
use freehold_store::{Damage, RECORD_SIZE, RandomFaults, Slot, Store, StoreError, Urgency};

fn io(slot: u32) -> StoreError {
    StoreError::Io {
        slot: Slot::new(slot),
        errno: Errno::IO,
    }
}

fn damaged(slot: u32, damage: Damage) -> StoreError {
    let slot = Slot::new(slot);
    StoreError::Damaged { slot, damage }
}

#[test]
fn every_slot_returns_what_was_last_written_to_it() {
    for (name, store) in every_store(32) {
        for round in 0..4 {
            for slot in 0..32 {
                write(&*store, slot, &record(round * 37 + slot)).unwrap();
            }
            for slot in (0..32).rev() {
                let found = read(&*store, slot).unwrap();
                assert!(found == record(round * 37 + slot), "{name}, slot {slot}");
            }
        }
        let stats = store.stats();
        assert_eq!((stats.reads, stats.writes), (128, 128), "{name}");
        assert_eq!(stats.read_bytes, 128 * RECORD_SIZE as u64, "{name}");
        assert_eq!(
            (stats.failed_reads, stats.failed_writes, stats.retried),
            (0, 0, 0),
            "{name}"
        );
    }
}

#[test]
fn records_are_copied_and_seen_where_the_store_has_them() {
    for (name, store) in every_store(2) {
        let slot = Slot::new(1);
        let submit = |copy: &mut dyn FnMut(&mut [u8; RECORD_SIZE]) -> Result<(), Errno>| {
            let begun = store.submit_copy(NOW, slot, Urgency::BACKGROUND, page(&[0xee; RECORD_SIZE]), copy);
            store.flush();
            begun.and_then(|_| store.finish_write(slot).map(drop))
        };
        let look = || {
            let mut seen = None;
            store.submit_read(NOW, slot, Urgency::BACKGROUND, page(&[0xee; RECORD_SIZE]))?;
            store.flush();
            store.finish_look(slot, &mut |record| seen = Some(*record)).map(drop)?;
            Ok(seen)
        };
        for seed in [5, 6] {
            submit(&mut |content| {
                *content = record(seed);
                Ok(())
            })
            .unwrap();
            assert!(look() == Ok(Some(record(seed))), "{name}");
            assert!(read(&*store, 1).unwrap() == record(seed), "{name}");
        }
        assert_eq!(
            submit(&mut |_| Err(Errno::NOMEM)),
            Err(StoreError::Io {
                slot,
                errno: Errno::NOMEM
            }),
            "{name}"
        );
        assert_eq!(
            store.finish_write(slot).unwrap_err(),
            StoreError::NotUnderWay(slot),
            "{name}"
        );
        write(&*store, 1, &record(7)).unwrap();
        // What goes wrong goes wrong as with pages that are lent.
        store.faults().tear_write(1);
        submit(&mut |content| {
            *content = record(11);
            Ok(())
        })
        .unwrap();
        assert_eq!(look(), Err(damaged(1, Damage::Checksum)), "{name}");
        write(&*store, 1, &record(9)).unwrap();
        store.faults().shorten(1);
        store.faults().fail_read(2);
        assert!(look() == Ok(Some(record(9))), "{name}");
        assert_eq!(look(), Err(io(1)), "{name}");
        assert_eq!(store.stats().retried, 1, "{name}");
        write(&*store, 1, &record(9)).unwrap();
        store.damage(slot).unwrap();
        assert_eq!(look(), Err(damaged(1, Damage::Checksum)), "{name}");
    }
}

#[test]
fn many_transfers_are_under_way_at_a_time_and_none_is_mixed_up() {
    for (name, store) in every_store(256) {
        for slot in 0..256 {
            let urgency = Urgency::new((slot % 7) as u8);
            store
                .submit_write(NOW, Slot::new(slot), urgency, page(&record(slot)))
                .unwrap();
        }
        store.flush();
        for slot in (0..256).map(|slot| slot * 5 % 256) {
            store.raise(NOW, Slot::new(slot), Urgency::HIGHEST);
            store.finish_write(Slot::new(slot)).unwrap();
        }
        for slot in 0..256 {
            let target = page(&[0xee; RECORD_SIZE]);
            store
                .submit_read(NOW, Slot::new(slot), Urgency::BACKGROUND, target)
                .unwrap();
        }
        store.flush();
        for slot in (0..256).map(|slot| slot * 7 % 256) {
            let found = store.finish_read(Slot::new(slot)).unwrap();
            assert!(*found.bytes() == record(slot), "{name}, slot {slot}");
        }
    }
}

#[test]
fn absent_damaged_and_impossible_records_are_errors() {
    for (name, store) in every_store(3) {
        assert_eq!(read(&*store, 0), Err(damaged(0, Damage::Absent)), "{name}");
        for seed in [1, 2, 3] {
            write(&*store, 1, &record(seed)).unwrap();
            store.damage(Slot::new(1)).unwrap();
            for _ in 0..2 {
                assert_eq!(read(&*store, 1), Err(damaged(1, Damage::Checksum)), "{name}");
            }
        }
        write(&*store, 1, &record(8)).unwrap();
        assert!(read(&*store, 1).unwrap() == record(8), "{name}");
        let beyond = Slot::new(3);
        assert_eq!(
            write(&*store, 3, &record(0)),
            Err(StoreError::NoSuchSlot(beyond)),
            "{name}"
        );
        assert_eq!(read(&*store, 3), Err(StoreError::NoSuchSlot(beyond)), "{name}");
        assert_eq!(
            store.finish_write(beyond).unwrap_err(),
            StoreError::NoSuchSlot(beyond),
            "{name}"
        );
        let idle = Slot::new(2);
        assert_eq!(
            store.finish_read(idle).unwrap_err(),
            StoreError::NotUnderWay(idle),
            "{name}"
        );
    }
}

#[test]
fn injected_failures_strike_once_and_are_counted() {
    for (name, store) in every_store(1) {
        store.faults().fail_write(2);
        write(&*store, 0, &record(1)).unwrap();
        assert_eq!(write(&*store, 0, &record(2)), Err(io(0)), "{name}");
        // A slot whose write failed has no record: neither the old one nor half of the new one.
        assert_eq!(read(&*store, 0), Err(damaged(0, Damage::Absent)), "{name}");
        write(&*store, 0, &record(3)).unwrap();
        store.faults().fail_read(1);
        assert_eq!(read(&*store, 0), Err(io(0)), "{name}");
        assert!(read(&*store, 0).unwrap() == record(3), "{name}");
        let stats = store.stats();
        assert_eq!((stats.failed_reads, stats.failed_writes), (1, 1), "{name}");
    }
}

#[test]
fn short_transfers_are_repeated_and_given_up_at_last() {
    for (name, store) in every_store(1) {
        store.faults().shorten(3);
        write(&*store, 0, &record(3)).unwrap();
        assert_eq!(store.stats().retried, 3, "{name}");
        store.faults().shorten(3);
        assert!(read(&*store, 0).unwrap() == record(3), "{name}");
        assert_eq!(store.stats().retried, 6, "{name}");
        store.faults().shorten(u64::MAX);
        assert_eq!(read(&*store, 0), Err(io(0)), "{name}");
        assert_eq!(write(&*store, 0, &record(7)), Err(io(0)), "{name}");
        store.faults().shorten(0);
        write(&*store, 0, &record(11)).unwrap();
        assert!(read(&*store, 0).unwrap() == record(11), "{name}");
    }
}

#[test]
fn a_torn_write_is_found_when_it_is_read() {
    for (name, store) in every_store(2) {
        write(&*store, 0, &record(3)).unwrap();
        store.faults().tear_write(1);
        // The device says that all is well.
        write(&*store, 0, &record(7)).unwrap();
        assert_eq!(read(&*store, 0), Err(damaged(0, Damage::Checksum)), "{name}");
        write(&*store, 0, &record(7)).unwrap();
        assert!(read(&*store, 0).unwrap() == record(7), "{name}");
    }
}

#[test]
fn a_cancelled_transfer_leaves_the_slot_usable() {
    for (name, store) in every_store(2) {
        let slot = Slot::new(0);
        for flush in [false, true] {
            store
                .submit_write(NOW, slot, Urgency::BACKGROUND, page(&record(3)))
                .unwrap();
            if flush {
                store.flush();
            }
            store.cancel(slot);
            assert_eq!(
                store.finish_write(slot).unwrap_err(),
                StoreError::NotUnderWay(slot),
                "{name}"
            );
            write(&*store, 0, &record(7)).unwrap();
            store
                .submit_read(NOW, slot, Urgency::BACKGROUND, page(&record(0)))
                .unwrap();
            if flush {
                store.flush();
            }
            store.cancel(slot);
            assert!(read(&*store, 0).unwrap() == record(7), "{name}");
        }
        let stats = store.stats();
        assert_eq!(
            (stats.failed_reads, stats.failed_writes, stats.writes),
            (0, 1 + 1, 2),
            "{name}"
        );
    }
}

#[test]
fn seeded_records_cost_no_transfer_and_zeros_no_room() {
    for (name, store) in every_store(3) {
        store.seed(Slot::new(0), None).unwrap();
        assert_eq!((store.stats().writes, store.stats().frames.get()), (0, 0), "{name}");
        assert!(read(&*store, 0).unwrap() == [0; RECORD_SIZE], "{name}");
        store.seed(Slot::new(1), Some(&record(5))).unwrap();
        assert!(read(&*store, 1).unwrap() == record(5), "{name}");
        store.seed(Slot::new(1), None).unwrap();
        assert!(read(&*store, 1).unwrap() == [0; RECORD_SIZE], "{name}");
        assert_eq!(store.stats().writes, 0, "{name}");
    }
}

/// Threads of their own slots, while transfers fail at random: each knows what it was told, and that is how it is.
#[test]
fn what_was_acknowledged_is_there_whatever_else_fails() {
    let seed = 42;
    for (name, store) in every_store(64) {
        let faults = RandomFaults {
            fail_reads: 50_000,
            fail_writes: 50_000,
            short: 50_000,
            torn: 0,
        };
        store.faults().at_random(seed, faults);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, name) = (&*store, &name);
                scope.spawn(move || fail_at_random(store, name, thread));
            }
        });
        assert!(store.faults().struck() > 100, "{name}: seed {seed} injected too little");
    }
}

fn fail_at_random(store: &dyn Store, name: &str, thread: u32) {
    for number in 0..1000 {
        let slot = thread * 16 + number % 16;
        let content = record(number * 3 + thread);
        if write(store, slot, &content).is_err() {
            assert_eq!(read(store, slot), Err(damaged(slot, Damage::Absent)), "{name}");
            continue;
        }
        let mut attempts = 0;
        let found = loop {
            match read(store, slot) {
                Ok(found) => break found,
                Err(error) => assert_eq!(error, io(slot), "{name}"),
            }
            attempts += 1;
            assert!(attempts < 100, "{name}: {slot} cannot be read");
        };
        assert!(found == content, "{name}, slot {slot}");
    }
}
