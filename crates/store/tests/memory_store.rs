//! The memory store: what is written comes back, what is damaged does not.

use freehold_core::units::{Duration, FrameCount, Instant};
use freehold_store::{Damage, MemoryStore, RECORD_SIZE, SetupError, Slot, StoreConfig, StoreError};

const NOW: Instant = Instant::new(1_000);

fn config(slots: u32) -> StoreConfig {
    StoreConfig {
        slots,
        latency: Duration::ZERO,
        parallel: 1,
    }
}

fn store(slots: u32) -> MemoryStore {
    MemoryStore::new(config(slots)).expect("a store of a few slots")
}

fn pattern(seed: u8) -> [u8; RECORD_SIZE] {
    let mut record = [seed; RECORD_SIZE];
    record[RECORD_SIZE - 1] = !seed;
    record
}

fn write(store: &MemoryStore, slot: Slot, record: &[u8; RECORD_SIZE]) -> Result<(), StoreError> {
    store.submit_write(NOW, slot, record)?;
    store.finish_write(slot)
}

fn read(store: &MemoryStore, slot: Slot) -> Result<[u8; RECORD_SIZE], StoreError> {
    store.submit_read(NOW, slot)?;
    let mut record = [0xee; RECORD_SIZE];
    match store.finish_read(slot, &mut record) {
        Ok(()) => Ok(record),
        Err(error) => {
            assert_eq!(record, [0; RECORD_SIZE], "bytes of a failed read were returned");
            Err(error)
        }
    }
}

#[test]
fn every_slot_returns_what_was_last_written_to_it() {
    let store = store(8);
    for round in 0..3_u8 {
        for number in 0..8_u8 {
            write(&store, Slot::new(number.into()), &pattern(round * 8 + number)).unwrap();
        }
        for number in (0..8_u8).rev() {
            assert_eq!(
                read(&store, Slot::new(number.into())).unwrap(),
                pattern(round * 8 + number)
            );
        }
    }
    let stats = store.stats();
    assert_eq!((stats.reads, stats.writes, stats.frames), (24, 24, FrameCount::new(8)));
    assert_eq!(stats.read_bytes, 24 * RECORD_SIZE as u64);
}

#[test]
fn the_record_is_copied_at_submission() {
    let store = store(1);
    let mut record = pattern(1);
    store.submit_write(NOW, Slot::new(0), &record).unwrap();
    record.fill(0xff);
    store.finish_write(Slot::new(0)).unwrap();
    assert_eq!(read(&store, Slot::new(0)).unwrap(), pattern(1));
}

#[test]
fn impossible_shapes_and_slots_are_refused_by_name() {
    assert_eq!(MemoryStore::new(config(0)).unwrap_err(), SetupError::NoSlots);
    let no_channels = StoreConfig {
        parallel: 0,
        ..config(1)
    };
    assert_eq!(MemoryStore::new(no_channels).unwrap_err(), SetupError::NoChannels);
    let store = store(2);
    let slot = Slot::new(2);
    assert_eq!(write(&store, slot, &pattern(0)), Err(StoreError::NoSuchSlot(slot)));
    assert_eq!(read(&store, slot), Err(StoreError::NoSuchSlot(slot)));
}

#[test]
fn absent_and_damaged_records_are_errors() {
    let store = store(2);
    let (absent, damaged) = (Slot::new(0), Slot::new(1));
    let error = |slot, damage| Err(StoreError::Damaged { slot, damage });
    assert_eq!(read(&store, absent), error(absent, Damage::Absent));
    write(&store, damaged, &pattern(7)).unwrap();
    store.damage(damaged).unwrap();
    assert_eq!(read(&store, damaged), error(damaged, Damage::Checksum));
    write(&store, damaged, &pattern(8)).unwrap();
    assert_eq!(read(&store, damaged).unwrap(), pattern(8));
}

#[test]
fn injected_failures_strike_once_and_are_counted() {
    let store = store(1);
    let slot = Slot::new(0);
    store.faults().fail_write(2);
    write(&store, slot, &pattern(1)).unwrap();
    assert!(matches!(write(&store, slot, &pattern(2)), Err(StoreError::Io { .. })));
    // A slot whose write failed has no record: neither the old one nor half of the new one.
    assert!(matches!(read(&store, slot), Err(StoreError::Damaged { .. })));
    write(&store, slot, &pattern(3)).unwrap();
    store.faults().fail_read(1);
    assert!(matches!(read(&store, slot), Err(StoreError::Io { .. })));
    assert_eq!(read(&store, slot).unwrap(), pattern(3));
    let stats = store.stats();
    assert_eq!((stats.failed_reads, stats.failed_writes), (1, 1));
}

#[test]
fn due_times_follow_latency_and_parallelism() {
    let config = StoreConfig {
        slots: 4,
        latency: Duration::from_micros(500),
        parallel: 2,
    };
    let store = MemoryStore::new(config).unwrap();
    let due: Vec<u64> = (0..4)
        .map(|number| store.submit_write(NOW, Slot::new(number), &pattern(0)).unwrap().get() - NOW.get())
        .collect();
    assert_eq!(due, [500_000, 500_000, 1_000_000, 1_000_000]);
}

#[test]
fn seeded_records_cost_no_transfer_and_zeros_no_frame() {
    let store = store(2);
    store.seed(Slot::new(0), None).unwrap();
    store.seed(Slot::new(1), Some(&pattern(5))).unwrap();
    assert_eq!((store.stats().writes, store.stats().frames), (0, FrameCount::new(1)));
    assert_eq!(read(&store, Slot::new(0)).unwrap(), [0; RECORD_SIZE]);
    assert_eq!(read(&store, Slot::new(1)).unwrap(), pattern(5));
}
