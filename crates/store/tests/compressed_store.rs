//! What only the compressed store does: its memory.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{NOW, compressed, page, read, record, write};
use freehold_core::units::FrameCount;
use freehold_linux::Errno;
use freehold_store::{
    Backend, CompressedConfig, CompressedStore, Kind, RECORD_SIZE, Shortfall, Slot, Store, StoreError, Urgency,
};

#[test]
fn compressible_records_take_a_fraction_of_their_size() {
    let store = compressed(256);
    let text = |slot: u32| {
        let mut record = [0; RECORD_SIZE];
        for (at, byte) in record.iter_mut().enumerate() {
            *byte = b"the quick brown fox "[(at + slot as usize) % 20];
        }
        record
    };
    for slot in 0..256 {
        write(&store, slot, &text(slot)).unwrap();
    }
    let stats = store.stats();
    assert!(stats.frames.get() <= 256 / 16, "{stats:?}");
    assert!(stats.stored_bytes > 0 && stats.stored_bytes < u64::from(stats.frames.get()) * 4096);
    for slot in 0..256 {
        assert!(read(&store, slot).unwrap() == text(slot));
    }
}

#[test]
fn records_of_zeros_take_nothing_and_give_back_what_they_had() {
    let store = compressed(4);
    write(&store, 0, &record(3)).unwrap();
    assert_eq!(store.stats().stored_bytes, RECORD_SIZE as u64);
    write(&store, 0, &[0; RECORD_SIZE]).unwrap();
    assert_eq!(store.stats().stored_bytes, 0);
    assert!(read(&store, 0).unwrap() == [0; RECORD_SIZE]);
    let slot = Slot::new(0);
    let errno = Errno::NODATA;
    assert_eq!(store.damage(slot), Err(StoreError::Io { slot, errno }));
}

#[test]
fn without_a_capacity_records_that_do_not_compress_always_fit() {
    let store = compressed(33);
    for round in 0..5 {
        for slot in 0..33 {
            // First the small ones take every class, then all are whole.
            let seed = if round < 2 { slot + round } else { slot * 4 + 3 };
            write(&store, slot, &record(seed)).unwrap();
        }
    }
    assert_eq!(store.stats().stored_bytes, 33 * RECORD_SIZE as u64);
    assert!(store.describe().shortfalls.is_empty());
}

#[test]
fn a_full_store_refuses_and_takes_again_when_there_is_room() {
    let capacity = Some(FrameCount::new(8));
    let store = CompressedStore::new(CompressedConfig { slots: 16, capacity }).unwrap();
    let description = store.describe();
    assert_eq!(
        (description.kind, description.backend),
        (Kind::Compressed, Backend::Inline)
    );
    assert_eq!(description.shortfalls, [Shortfall::Capacity]);
    let full = |slot| Err(StoreError::Full(Slot::new(slot)));
    for slot in 0..8 {
        write(&store, slot, &record(3 + 4 * slot)).unwrap();
    }
    assert_eq!(write(&store, 8, &record(3)), full(8));
    assert_eq!(store.stats().frames, FrameCount::new(8));
    // A record that goes makes room for one that comes, as does the old record of its own slot.
    write(&store, 0, &record(7)).unwrap();
    write(&store, 0, &[0; RECORD_SIZE]).unwrap();
    write(&store, 8, &record(3)).unwrap();
    for slot in 1..8 {
        assert!(read(&store, slot).unwrap() == record(3 + 4 * slot));
    }
}

#[test]
fn a_full_store_has_room_made_as_often_as_it_needs() {
    let capacity = Some(FrameCount::new(4));
    let store = CompressedStore::new(CompressedConfig { slots: 200, capacity }).unwrap();
    let small = |slot: u32| {
        let mut record = [0; RECORD_SIZE];
        record[..4].copy_from_slice(&slot.to_le_bytes());
        record[99] = 1;
        record
    };
    // 64 small ones fill the only slab, which a whole record gets when the last of them is forgotten.
    for slot in 0..64 {
        write(&store, slot, &small(slot)).unwrap();
    }
    let slot = Slot::new(100);
    let (mut forgotten, mut asked) = (0, 0);
    store
        .submit_write(NOW, slot, Urgency::BACKGROUND, page(&record(3)))
        .unwrap();
    let refused = store.finish_write_making_room(slot, &mut || {
        asked += 1;
        false
    });
    assert_eq!((refused.err(), asked), (Some(StoreError::Full(slot)), 1));
    store
        .submit_write(NOW, slot, Urgency::BACKGROUND, page(&record(3)))
        .unwrap();
    let written = store.finish_write_making_room(slot, &mut || {
        assert!(store.takes_room(Slot::new(forgotten)));
        store.forget(Slot::new(forgotten));
        forgotten += 1;
        forgotten <= 64
    });
    assert!(written.is_ok());
    assert_eq!(forgotten, 64);
    assert!(!store.takes_room(Slot::new(0)) && store.takes_room(slot));
    assert!(matches!(read(&store, 0), Err(StoreError::Damaged { .. })));
    assert!(read(&store, 100).unwrap() == record(3));
    assert_eq!(store.stats().failed_writes, 1);
}
