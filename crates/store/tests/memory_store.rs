//! What only the memory store does: latency, channels, frames.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{NOW, memory, page, read, record, write};
use freehold_core::units::{Duration, FrameCount, Instant};
use freehold_store::{Due, MemoryStore, SetupError, Slot, Store, StoreConfig, Urgency};

#[test]
fn impossible_shapes_are_refused_by_name() {
    let config = StoreConfig {
        slots: 1,
        latency: Duration::ZERO,
        parallel: 1,
    };
    let refused = |config| MemoryStore::new(config).unwrap_err();
    assert_eq!(refused(StoreConfig { slots: 0, ..config }), SetupError::NoSlots);
    assert_eq!(refused(StoreConfig { parallel: 0, ..config }), SetupError::NoChannels);
}

#[test]
fn a_slot_gets_its_frame_at_its_first_write() {
    let store = memory(8, 0, 1);
    for slot in [0, 3, 0, 3] {
        write(&store, slot, &record(1)).unwrap();
    }
    assert_eq!(store.stats().frames, FrameCount::new(2));
}

#[test]
fn the_record_is_copied_at_submission() {
    let store = memory(1, 0, 1);
    let slot = Slot::new(0);
    store
        .submit_write(NOW, slot, Urgency::BACKGROUND, page(&record(1)))
        .unwrap();
    let mut given_back = store.finish_write(slot).unwrap();
    given_back.bytes_mut().fill(0xff);
    assert!(read(&store, 0).unwrap() == record(1));
}

#[test]
fn due_times_follow_latency_parallelism_and_urgency() {
    let store = memory(5, 500, 2);
    let submit = |slot, urgency| {
        let urgency = Urgency::new(urgency);
        match store
            .submit_write(NOW, Slot::new(slot), urgency, page(&record(0)))
            .unwrap()
        {
            Due::At(due) => (due.get() - NOW.get()) / 1000,
            Due::WhenTold => panic!("an emulated device knows its times"),
        }
    };
    assert_eq!([0, 1, 2, 3].map(|slot| submit(slot, 0)), [500, 500, 1000, 1000]);
    // The urgent one overtakes two that wait; the second of them has a new time.
    assert_eq!(submit(4, 1), 1000);
    let due = |slot| match store.due(NOW, Slot::new(slot)) {
        Due::At(due) => due.get().saturating_sub(NOW.get()) / 1000,
        Due::WhenTold => panic!("an emulated device knows its times"),
    };
    assert_eq!((due(2), due(3), due(4)), (1000, 1500, 1000));
    // What did not wait keeps to its first word.
    assert!(store.due(NOW, Slot::new(0)).has_come(NOW));
    let raised = store.raise(NOW, Slot::new(3), Urgency::HIGHEST);
    assert_eq!(raised, Some(Instant::new(NOW.get() + 1_000_000)));
    assert_eq!((due(2), due(4)), (1500, 1000));
}
