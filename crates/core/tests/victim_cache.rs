//! The victim cache against plain vectors: random puts, gets, flushes, opens and closes with copies under way.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, first_seed, setting};
use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::{
    DeviceEffect, DeviceId, DeviceState, FileId, FrameIndex, FrameRange, Got, Placement, Policy, VictimCache,
    VictimCacheSpec,
};
use std::collections::BTreeMap;

/// A copy that the engine has under way.
#[derive(Clone, Copy, PartialEq)]
enum Copying {
    In { wanted: bool },
    Out,
}

/// What ought to be where.
#[derive(Default)]
struct Naive {
    /// Cached pages in order of puts: file, page, frame.
    pages: Vec<(u64, u32, u32)>,
    copying: BTreeMap<u32, Copying>,
    /// Frames of each device that is not idle.
    devices: BTreeMap<usize, FrameRange>,
    evicted: u64,
}

fn frames_of(range: FrameRange) -> std::ops::Range<u32> {
    let first = range.first().get();
    first..first + range.count().get()
}

impl Naive {
    fn remove(&mut self, file: u64, page: u32) -> Option<u32> {
        let at = self.pages.iter().position(|found| (found.0, found.1) == (file, page))?;
        Some(self.pages.remove(at).2)
    }

    fn lent(&self, frame: u32) -> bool {
        self.devices.values().any(|range| frames_of(*range).contains(&frame))
    }

    fn forget(&mut self, frame: u32) {
        if let Some(Copying::In { wanted }) = self.copying.get_mut(&frame) {
            *wanted = false;
        }
    }

    /// A page was put: it has a frame that nothing else has, and the oldest page went only where no frame was free.
    fn put(&mut self, file: u64, page: u32, frame: u32, frames: u32) -> Option<(u64, u32)> {
        let taken = |frame: u32| {
            self.lent(frame) || self.copying.contains_key(&frame) || self.pages.iter().any(|page| page.2 == frame)
        };
        let free = (0..frames).find(|frame| !taken(*frame));
        let mut evicted = None;
        if free.is_some() {
            assert!(!taken(frame), "frame {frame} is in use");
        } else {
            let oldest = self.pages.iter().position(|page| !self.copying.contains_key(&page.2));
            let oldest = self.pages.remove(oldest.expect("a page can go"));
            assert_eq!(oldest.2, frame, "the page that was put first makes room");
            self.evicted += 1;
            evicted = Some((oldest.0, oldest.1));
        }
        self.pages.push((file, page, frame));
        self.copying.insert(frame, Copying::In { wanted: true });
        evicted
    }

    fn lend(&mut self, device: usize, range: FrameRange) -> u32 {
        let before = self.pages.len();
        let gone: Vec<u32> = self
            .pages
            .iter()
            .map(|page| page.2)
            .filter(|frame| frames_of(range).contains(frame))
            .collect();
        for frame in &gone {
            self.forget(*frame);
        }
        self.pages.retain(|page| !gone.contains(&page.2));
        assert!(
            frames_of(range).all(|frame| !self.lent(frame)),
            "frames of another device"
        );
        let all = match self.devices.get(&device) {
            Some(had) => {
                let first = had.first().get().min(range.first().get());
                FrameRange::new(
                    FrameIndex::new(first),
                    FrameCount::new(had.count().get() + range.count().get()),
                )
            }
            None => range,
        };
        self.devices.insert(device, all);
        u32::try_from(before - self.pages.len()).unwrap()
    }
}

struct World {
    cache: VictimCache,
    naive: Naive,
    frames: u32,
    devices: usize,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let devices = 1 + random.below(5);
        let sizes: Vec<FrameCount> = (0..devices)
            .map(|_| FrameCount::new(1 + u32::try_from(random.below(12)).unwrap()))
            .collect();
        let rest = if random.chance(2) { 0 } else { random.below(10) };
        let frames = sizes.iter().map(|size| size.get()).sum::<u32>() + u32::try_from(rest).unwrap();
        let policy = match random.below(4) {
            0 => Policy::Lru,
            1 => Policy::LruExact,
            2 => Policy::Worth,
            _ => Policy::Random { seed },
        };
        let spec = VictimCacheSpec {
            frames: FrameCount::new(frames),
            devices: &sizes,
            granule: FrameCount::new(1 + u32::try_from(random.below(3)).unwrap()),
            copies: 6,
            files: 6,
            policy,
            placement: Placement::Safe,
        };
        let cache = spec.seal().expect("a valid specification");
        Self {
            cache,
            naive: Naive::default(),
            frames,
            devices,
            random,
        }
    }

    fn page(&mut self) -> (u64, u32) {
        (
            self.random.below(5) as u64,
            u32::try_from(self.random.below(12)).unwrap(),
        )
    }

    fn device(&mut self) -> DeviceId {
        DeviceId::new(self.random.below(self.devices)).unwrap()
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..=3 => self.put(),
            4 | 5 => self.get(),
            6 => self.flush(),
            7 | 8 => self.end_copy(),
            9 => self.open(),
            10 => self.close_or_grow(),
            _ => self.give_back(),
        }
        while let Some(effect) = self.cache.poll_effect() {
            if let DeviceEffect::HandOver { device, range } = effect {
                let all = self.naive.devices[&device.index()];
                for frame in frames_of(range) {
                    assert!(frames_of(all).contains(&frame));
                    assert!(
                        !self.naive.copying.contains_key(&frame),
                        "a copy is under way in what is handed over"
                    );
                }
            }
        }
        self.compare();
    }

    fn put(&mut self) {
        let (file, page) = self.page();
        if let Some(frame) = self.naive.remove(file, page) {
            self.naive.forget(frame);
        }
        if let Ok(put) = self.cache.put(FileId::new(file), PageIndex::new(page), 1) {
            let evicted = self.naive.put(file, page, put.frame.get(), self.frames);
            assert_eq!(put.evicted.map(|(file, page)| (file.get(), page.get())), evicted);
        }
    }

    fn get(&mut self) {
        let (file, page) = self.page();
        let full = self.naive.copying.len() >= 6;
        let found = self.naive.remove(file, page);
        match self.cache.get(FileId::new(file), PageIndex::new(page)) {
            Got::Hit(frame) => {
                assert_eq!(found, Some(frame.get()));
                assert!(!full && self.naive.copying.insert(frame.get(), Copying::Out).is_none());
            }
            Got::Miss => {
                if let Some(frame) = found {
                    assert!(
                        full || self.naive.copying.contains_key(&frame),
                        "a page that is here is a hit"
                    );
                    self.naive.forget(frame);
                }
            }
        }
    }

    fn flush(&mut self) {
        let (file, page) = self.page();
        if self.random.chance(3) {
            let gone: Vec<_> = self
                .naive
                .pages
                .iter()
                .copied()
                .filter(|found| found.0 == file)
                .collect();
            for (file, page, frame) in gone {
                self.naive.remove(file, page);
                self.naive.forget(frame);
            }
            self.cache.flush_file(FileId::new(file));
        } else {
            if let Some(frame) = self.naive.remove(file, page) {
                self.naive.forget(frame);
            }
            self.cache.flush_page(FileId::new(file), PageIndex::new(page));
        }
    }

    fn end_copy(&mut self) {
        let frames: Vec<u32> = self.naive.copying.keys().copied().collect();
        let Some(frame) = frames.get(self.random.below(frames.len())).copied() else {
            return assert!(self.cache.copied(FrameIndex::new(0)).is_err());
        };
        let copying = self.naive.copying.remove(&frame);
        if self.random.chance(5) {
            if copying == Some(Copying::In { wanted: true }) {
                self.naive.pages.retain(|page| page.2 != frame);
            }
            self.cache.copy_failed(FrameIndex::new(frame)).unwrap();
        } else {
            self.cache.copied(FrameIndex::new(frame)).unwrap();
        }
    }

    fn open(&mut self) {
        let device = self.device();
        let view = self.cache.device(device).unwrap();
        let used = FrameCount::new(u32::try_from(self.random.below(view.size.get() as usize + 1)).unwrap());
        match self.cache.open(device, used) {
            Ok(opened) => {
                assert!(opened.range.count() >= used && opened.range.count() <= view.size);
                let discarded = self.naive.lend(device.index(), opened.range);
                assert_eq!(opened.discarded.get(), discarded);
            }
            Err(error) => assert_ne!(view.state, DeviceState::Idle, "a closed device is refused: {error}"),
        }
    }

    fn close_or_grow(&mut self) {
        let device = self.device();
        if self.random.chance(2) {
            let _ = self.cache.closed(device);
        } else if let Ok(grown) = self.cache.grow(device, FrameCount::ZERO)
            && grown.range.count().get() > 0
        {
            let discarded = self.naive.lend(device.index(), grown.range);
            assert_eq!(grown.discarded.get(), discarded);
        }
    }

    fn give_back(&mut self) {
        let device = self.device();
        let view = self.cache.device(device).unwrap();
        if view.state != DeviceState::Returning {
            assert!(self.cache.returned(device, view.used).is_err());
            return;
        }
        if self.random.chance(4) {
            self.cache.retired(device, view.used).unwrap();
            return;
        }
        self.cache.returned(device, view.used).unwrap();
        self.naive.devices.remove(&device.index());
    }

    fn compare(&self) {
        if let Err(violation) = self.cache.check_laws() {
            panic!("{violation}");
        }
        for file in 0..5 {
            for page in 0..12 {
                let here = self.naive.pages.iter().any(|found| (found.0, found.1) == (file, page));
                assert_eq!(
                    self.cache.has(FileId::new(file), PageIndex::new(page)),
                    here,
                    "{file}:{page}"
                );
            }
        }
        assert_eq!(self.cache.page_counts().evicted, self.naive.evicted);
        let filling = self
            .naive
            .copying
            .values()
            .filter(|copying| matches!(copying, Copying::In { .. }))
            .count();
        let view = self.cache.frames();
        assert_eq!(view.filling.get() as usize, filling);
        assert_eq!(view.leaving.get() as usize, self.naive.copying.len() - filling);
    }
}

#[test]
fn random_histories_agree_with_plain_vectors() {
    let (first, worlds) = (first_seed(), setting("FREEHOLD_WORLDS", 400));
    for seed in first..first + worlds {
        let mut world = World::new(seed);
        for step in 0..250 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.step()));
            assert!(
                outcome.is_ok(),
                "seed {seed}, step {step}: FREEHOLD_SEED={seed} shows it again"
            );
        }
    }
}

#[test]
fn a_million_random_opens_are_never_refused() {
    let mut random = Random(first_seed());
    let mut opens = 0;
    while opens < setting("FREEHOLD_OPENS", 1_000_000) {
        let devices = 2 + random.below(4);
        let sizes: Vec<FrameCount> = (0..devices)
            .map(|_| FrameCount::new(1 + u32::try_from(random.below(40)).unwrap()))
            .collect();
        let spec = VictimCacheSpec {
            frames: FrameCount::new(sizes.iter().map(|size| size.get()).sum()),
            devices: &sizes,
            granule: FrameCount::new(1),
            copies: 1,
            files: 1,
            policy: Policy::Random { seed: random.next() },
            placement: Placement::Safe,
        };
        let mut cache = spec.seal().unwrap();
        for _ in 0..4000 {
            let device = DeviceId::new(random.below(devices)).unwrap();
            let view = cache.device(device).unwrap();
            if view.state == DeviceState::Idle {
                let opened = cache.open(device, FrameCount::ZERO);
                assert!(opened.is_ok(), "a closed device has a place");
                opens += 1;
            } else {
                cache.closed(device).unwrap();
                cache.returned(device, view.used).unwrap();
            }
            while cache.poll_effect().is_some() {}
        }
    }
}

#[test]
fn the_paper_s_rule_strands_a_device() {
    let sizes = [1, 1, 2].map(FrameCount::new);
    let spec = VictimCacheSpec {
        frames: FrameCount::new(4),
        devices: &sizes,
        granule: FrameCount::new(1),
        copies: 1,
        files: 1,
        policy: Policy::Lru,
        placement: Placement::Paper,
    };
    let device = |place| DeviceId::new(place).unwrap();
    let stranded = (0..64).any(|seed| {
        let policy = Policy::Random { seed };
        let mut cache = VictimCacheSpec { policy, ..spec }.seal().unwrap();
        (0..3).any(|place| cache.open(device(place), FrameCount::ZERO).is_err())
    });
    assert!(stranded, "free, and in PR(d), is not enough");
}
