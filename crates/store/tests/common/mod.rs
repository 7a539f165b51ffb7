//! Every store, and transfers made one at a time.

#![allow(dead_code, reason = "each test uses a part")]

use freehold_core::units::{Duration, Instant};
use freehold_store::{
    Completion, CompressedConfig, CompressedStore, FileConfig, FileStore, MemoryStore, PageLease, RECORD_SIZE, Record,
    Slot, Store, StoreConfig, StoreError, Urgency,
};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

pub(crate) const NOW: Instant = Instant::new(1_000);

/// Remembers which transfers have ended, in order.
#[derive(Debug, Default)]
pub(crate) struct Told {
    slots: Mutex<Vec<Slot>>,
    more: Condvar,
}

impl Completion for Told {
    fn ended(&self, slot: Slot) {
        self.slots.lock().unwrap().push(slot);
        self.more.notify_all();
    }
}

impl Told {
    /// The first `count` that ended, once there are so many.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<u32> {
        let slots = self.slots.lock().unwrap();
        let slots = self.more.wait_while(slots, |slots| slots.len() < count).unwrap();
        slots[..count].iter().map(|slot| slot.get()).collect()
    }
}

/// A directory on the file system that the build uses, not on tmpfs as a rule.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn memory(slots: u32, latency_us: u64, parallel: u16) -> MemoryStore {
    MemoryStore::new(StoreConfig {
        slots,
        latency: Duration::from_micros(latency_us),
        parallel,
    })
    .expect("a store of a few slots")
}

pub(crate) fn compressed(slots: u32) -> CompressedStore {
    let capacity = None;
    CompressedStore::new(CompressedConfig { slots, capacity }).expect("a store of a few slots")
}

/// The ways to have a file: with io_uring or threads, direct or buffered.
pub(crate) fn file_configs(slots: u32) -> Vec<(String, FileConfig)> {
    [(true, true), (true, false), (false, true), (false, false)]
        .map(|(io_uring, direct)| {
            let config = FileConfig {
                io_uring,
                direct,
                ..FileConfig::new(slots, directory())
            };
            (format!("file, io_uring {io_uring}, direct {direct}"), config)
        })
        .to_vec()
}

pub(crate) fn file(config: &FileConfig) -> (FileStore, Arc<Told>) {
    let told = Arc::new(Told::default());
    let store = FileStore::new(config, Arc::clone(&told) as _).expect("a file of a few records");
    (store, told)
}

pub(crate) type Named = (String, Box<dyn Store>);

pub(crate) fn every_store(slots: u32) -> Vec<Named> {
    let mut all: Vec<Named> = vec![
        ("memory".to_owned(), Box::new(memory(slots, 0, 1))),
        ("memory, slow".to_owned(), Box::new(memory(slots, 100, 2))),
        ("compressed".to_owned(), Box::new(compressed(slots))),
    ];
    for (name, config) in file_configs(slots) {
        all.push((name, Box::new(file(&config).0)));
    }
    all
}

pub(crate) fn page(record: &Record) -> PageLease {
    let mut page = PageLease::allocated();
    page.bytes_mut().copy_from_slice(record);
    page
}

pub(crate) fn write(store: &dyn Store, slot: u32, record: &Record) -> Result<(), StoreError> {
    let slot = Slot::new(slot);
    store.submit_write(NOW, slot, Urgency::BACKGROUND, page(record))?;
    store.flush();
    store.finish_write(slot).map(|_| ())
}

pub(crate) fn read(store: &dyn Store, slot: u32) -> Result<Record, StoreError> {
    let slot = Slot::new(slot);
    store.submit_read(NOW, slot, Urgency::BACKGROUND, page(&[0xee; RECORD_SIZE]))?;
    store.flush();
    store.finish_read(slot).map(|page| *page.bytes())
}

/// Records of every kind: zeros, repetitive, half random, random.
pub(crate) fn record(seed: u32) -> Record {
    let mut state = u64::from(seed) + 1;
    let mut record = [0; RECORD_SIZE];
    let random = match seed % 4 {
        0 if seed.is_multiple_of(8) => return record,
        0 | 1 => 16,
        2 => RECORD_SIZE / 2,
        _ => RECORD_SIZE,
    };
    for byte in &mut record[..random] {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    record[random..].fill((seed % 251) as u8);
    record
}
