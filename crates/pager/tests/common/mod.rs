//! Small pagers, and content that says where it belongs.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_pager::core::id::{ObjectId, ReservationId};
use freehold_pager::core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_pager::core::units::{Duration, FrameCount, PageCount};
use freehold_pager::store::FileConfig;
use freehold_pager::{Bound, Config, EventCapacity, MappedRegion, Pager, StoreMedium, StoreShape};

/// Words in a page.
pub(crate) const WORDS: usize = 512;

pub(crate) fn limits(frames: u32, pages: u32) -> Limits {
    Limits {
        frames: FrameCount::new(frames),
        pages: PageCount::new(pages),
        reservations: 4,
        objects: 4,
        tasks: 8,
        mappings: 16,
        compared_pages: PageCount::new(pages),
        shared_locks: PageCount::new(pages),
    }
}

pub(crate) fn config(frames: u32, pages: u32, latency_us: u64) -> Config {
    let mut config = Config::new(limits(frames, pages));
    config.store = StoreShape {
        latency: Duration::from_micros(latency_us),
        parallel: 8,
    };
    config
}

/// Room for so many events of each kind, and every hold of the core's lock.
pub(crate) fn event_capacity(events: usize) -> EventCapacity {
    EventCapacity {
        faults: events,
        waits: events,
        evictions: events,
        transfers: events,
        lock_holds: events,
        shortest_hold: Duration::ZERO,
        shortest_wait: Duration::ZERO,
    }
}

pub(crate) fn pager(frames: u32, pages: u32, latency_us: u64) -> Pager {
    Pager::new(config(frames, pages, latency_us)).unwrap()
}

/// A file on the file system that the build uses, with io_uring or threads.
pub(crate) fn file(io_uring: bool) -> StoreMedium {
    StoreMedium::File(FileConfig {
        io_uring,
        ..FileConfig::new(0, env!("CARGO_TARGET_TMPDIR").into())
    })
}

/// Every kind of store but the one in memory.
pub(crate) fn other_media() -> Vec<(&'static str, StoreMedium)> {
    vec![
        ("compressed", StoreMedium::Compressed(None)),
        ("file by io_uring", file(true)),
        ("file by threads", file(false)),
    ]
}

pub(crate) fn pager_over(frames: u32, pages: u32, medium: StoreMedium) -> Pager {
    let mut config = config(frames, pages, 0);
    config.medium = medium;
    Pager::new(config).unwrap()
}

/// Over a store in memory without latency, with one to spin and one to sleep for, and over every other store.
pub(crate) fn every_pager(frames: u32, pages: u32) -> Vec<Pager> {
    let others = other_media()
        .into_iter()
        .map(|(_, medium)| pager_over(frames, pages, medium));
    [0, 20, 80]
        .map(|latency| pager(frames, pages, latency))
        .into_iter()
        .chain(others)
        .collect()
}

pub(crate) fn hard(pager: &Pager, frames: u32) -> ReservationId {
    pager
        .reserve(ReservationSpec {
            capacity: FrameCount::new(frames),
            kind: ReservationKind::Hard,
        })
        .unwrap()
}

pub(crate) fn object(pager: &Pager, kind: ObjectKind, pages: u32, regime: Regime) -> ObjectId {
    pager
        .create_object(ObjectSpec {
            kind,
            pages: PageCount::new(pages),
            regime,
        })
        .unwrap()
}

pub(crate) fn private(pager: &Pager, pages: u32) -> ObjectId {
    object(pager, ObjectKind::Private, pages, Regime::Conserve)
}

pub(crate) fn shared(pager: &Pager, pages: u32) -> ObjectId {
    object(pager, ObjectKind::Shared, pages, Regime::Conserve)
}

/// What a word of a page holds after its `version`th writing; nothing else ever equals it.
pub(crate) fn stamp(page: usize, word: usize, version: u64) -> u64 {
    (version << 40) | ((page as u64) << 16) | (word as u64 + 1)
}

/// Writes a whole page.
pub(crate) fn write_page(bound: &Bound<'_>, region: &MappedRegion, page: usize, version: u64) {
    for word in 0..WORDS {
        bound
            .write_word(region, page * WORDS + word, stamp(page, word, version))
            .unwrap();
    }
}

/// Reads a whole page and checks every word; version 0 is a page of zeros.
pub(crate) fn check_page(bound: &Bound<'_>, region: &MappedRegion, page: usize, version: u64) {
    for word in 0..WORDS {
        let found = bound.read_word(region, page * WORDS + word).unwrap();
        let wanted = if version == 0 { 0 } else { stamp(page, word, version) };
        assert_eq!(found, wanted, "page {page} word {word}");
    }
}

/// Settles, checks every law, and that the kernel counts what the books say.
pub(crate) fn audit(pager: &Pager) {
    pager.settle().unwrap();
    pager.check_laws().unwrap();
    let report = pager.report().unwrap();
    assert_eq!(report.resident_measured, report.memory_used, "{report:#?}");
    for object in &report.objects {
        assert_eq!(object.resident_measured, object.resident, "{report:#?}");
    }
    assert_eq!(report.broken, 0, "{report:#?}");
    assert_eq!(report.transfers, 0);
    assert_eq!(report.backing.headroom.get(), 16);
    assert_eq!(report.overlong_drains, 0);
}

/// A small generator of pseudo-random numbers (splitmix64): a seed is a whole test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[allow(clippy::cast_possible_truncation, reason = "below the bound")]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
