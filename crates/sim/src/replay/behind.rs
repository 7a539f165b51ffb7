//! The victim cache of a replay, behind its page cache.

use super::lru::NONE;
use super::outcome::{Allocation, GroupCounts, Replayed, Times};
use super::page_cache::{Left, Remainder};
use super::run::{Choice, ReplayError, Setup};
use super::trace::{DeviceRow, Step, Trace};
use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::error::OpenError;
use freehold_core::victim_cache::{DeviceEffect, DeviceId, FileId, Got, Policy, VictimCache, VictimCacheSpec};

/// Pages have their numbers in the trace, so the victim cache sees one file. Which file a page is of changes nothing
/// that is counted: no file is flushed as a whole.
const FILE: FileId = FileId::new(0);

/// A replay behind a page cache.
pub(super) struct Behind<'a> {
    trace: &'a Trace,
    remainder: &'a Remainder,
    setup: &'a Setup,
    victim: Option<VictimCache>,
    /// Pages that were put, and that nothing but a device has taken away since.
    put: Vec<bool>,
    /// Devices whose open found no place: their close means nothing.
    refused: Vec<bool>,
    replayed: Replayed,
    choose: Vec<u64>,
    /// The sum of cached frames over accesses, and over microseconds.
    cached: (u128, u128),
    /// The first and the last time.
    clock: Option<(u64, u64)>,
    /// The group of the last mark, and what had been used and read then.
    group: Option<(usize, u64, u64)>,
}

impl<'a> Behind<'a> {
    pub(super) fn new(
        trace: &'a Trace,
        remainder: &'a Remainder,
        setup: &'a Setup,
        policy: Policy,
    ) -> Result<Self, ReplayError> {
        let whole = [setup.cache];
        let sizes: Vec<FrameCount> = setup.devices.iter().map(|device| device.1).collect();
        let spec = VictimCacheSpec {
            frames: setup.cache,
            devices: if sizes.is_empty() { &whole } else { &sizes },
            granule: FrameCount::new(1),
            copies: 1,
            files: 1,
            policy,
            placement: setup.placement,
        };
        let alone = setup.cache.is_zero() && sizes.is_empty();
        Ok(Self {
            trace,
            remainder,
            setup,
            victim: if alone { None } else { Some(spec.seal()?) },
            put: vec![false; trace.pages()],
            refused: vec![false; sizes.len()],
            replayed: Replayed {
                rows: trace.rows(),
                ..Replayed::default()
            },
            choose: Vec::new(),
            cached: (0, 0),
            clock: None,
            group: None,
        })
    }

    /// Goes through all that the page cache leaves. `None` as soon as `enough` pages are read.
    pub(super) fn run(mut self, enough: u64, clock: &mut dyn FnMut() -> u64) -> Result<Option<Replayed>, ReplayError> {
        for left in &self.remainder.left {
            match *left {
                Left::Miss {
                    hits,
                    wanted,
                    gone,
                    wanted_again,
                } => {
                    self.hits(hits);
                    self.miss(wanted, gone, wanted_again);
                    if self.replayed.misses >= enough {
                        return Ok(None);
                    }
                }
                Left::Hits { hits } => self.hits(hits),
                Left::Flush { page } => self.flush(page),
                Left::Step(step) => self.step(step, clock)?,
            }
        }
        Ok(Some(self.finish()))
    }

    fn step(&mut self, step: Step, clock: &mut dyn FnMut() -> u64) -> Result<(), ReplayError> {
        match step {
            Step::Time { place } => self.pass_time(self.trace.time(place)),
            Step::Mark { group } => self.mark(group as usize),
            Step::Open { device, place } => self.open(device as usize, place, clock)?,
            Step::Close { device, place } => self.close(device as usize, place)?,
            Step::Use { .. } | Step::UseScattered { .. } | Step::Delete { .. } => {
                debug_assert!(false, "the page cache leaves no such step");
            }
        }
        Ok(())
    }

    /// Uses of pages that the page cache had.
    fn hits(&mut self, hits: u32) {
        let hits = u64::from(hits);
        self.replayed.accesses += hits;
        self.replayed.page_cache_hits += hits;
        self.count_cached(hits);
    }

    fn count_cached(&mut self, accesses: u64) {
        if let Some(victim) = &self.victim {
            self.cached.0 += u128::from(victim.frames().cached.get()) * u128::from(accesses);
        }
    }

    /// A page that the page cache does not have: from the victim cache or read. Another makes room for it.
    fn miss(&mut self, wanted: u32, gone: u32, wanted_again: bool) {
        self.replayed.accesses += 1;
        let wanted_page = PageIndex::new(wanted);
        let got = self
            .victim
            .as_mut()
            .map_or(Got::Miss, |victim| victim.get(FILE, wanted_page));
        let put = std::mem::take(&mut self.put[wanted as usize]);
        match (got, &mut self.victim) {
            (Got::Hit(frame), Some(victim)) => {
                // A copy begun a moment ago is under way.
                let _ = victim.copied(frame);
            }
            _ => {
                self.replayed.misses += 1;
                self.replayed.discarded_wanted += u64::from(put);
            }
        }
        if gone != NONE {
            self.put(gone, wanted_again);
        }
        self.count_cached(1);
    }

    fn put(&mut self, page: u32, wanted_again: bool) {
        let Some(victim) = &mut self.victim else { return };
        let worth = match self.setup.choice {
            Choice::Optimal => u8::from(wanted_again),
            _ => 1,
        };
        let Ok(put) = victim.put(FILE, PageIndex::new(page), worth) else {
            return;
        };
        let _ = victim.copied(put.frame);
        self.put[page as usize] = true;
        if let Some((_, evicted)) = put.evicted {
            self.put[evicted.get() as usize] = false;
        }
    }

    fn flush(&mut self, page: u32) {
        self.put[page as usize] = false;
        if let Some(victim) = &mut self.victim {
            victim.flush_page(FILE, PageIndex::new(page));
        }
    }

    fn mark(&mut self, group: usize) {
        self.count_group();
        self.group = Some((group, self.replayed.accesses, self.replayed.misses));
    }

    /// What has been used since the last mark is its group's.
    fn count_group(&mut self) {
        let Some((group, accesses, misses)) = self.group.take() else {
            return;
        };
        let groups = &mut self.replayed.groups;
        groups.resize(groups.len().max(group + 1), GroupCounts::default());
        let counts = &mut groups[group];
        counts.begun += 1;
        counts.accesses += self.replayed.accesses - accesses;
        counts.misses += self.replayed.misses - misses;
    }

    fn device(&mut self, row: u64, device: usize) -> Result<(DeviceId, &mut VictimCache), ReplayError> {
        let name = self.setup.devices.get(device).map_or("", |device| &device.0);
        let unknown = || ReplayError::Device {
            row,
            device: name.to_owned(),
            message: "there is no such device".to_owned(),
        };
        let id = DeviceId::new(device).ok_or_else(unknown)?;
        let victim = self.victim.as_mut().ok_or_else(unknown)?;
        Ok((id, victim))
    }

    fn open(&mut self, device: usize, place: u32, clock: &mut dyn FnMut() -> u64) -> Result<(), ReplayError> {
        let DeviceRow { number: row, used } = self.trace.device(place);
        let (id, victim) = self.device(row, device)?;
        let begin = clock();
        let opened = victim.open(id, FrameCount::new(used));
        let choose_ns = clock().saturating_sub(begin);
        while victim.poll_effect().is_some() {}
        match opened {
            Ok(opened) => {
                self.choose.push(choose_ns);
                self.replayed.allocations.push(Allocation {
                    row,
                    device,
                    first: opened.range.first().get(),
                    pages: opened.range.count().get(),
                    candidates: opened.candidates,
                    discarded: opened.discarded.get(),
                    cost: opened.cost,
                    choose_ns,
                });
            }
            Err(OpenError::NoPlace) => {
                self.replayed.refused += 1;
                self.refused[device] = true;
            }
            Err(error) => return Err(self.refuse(row, device, &error)),
        }
        Ok(())
    }

    fn close(&mut self, device: usize, place: u32) -> Result<(), ReplayError> {
        let row = self.trace.device(place).number;
        if self.refused.get_mut(device).is_some_and(std::mem::take) {
            return Ok(());
        }
        let (id, victim) = self.device(row, device)?;
        if let Err(error) = victim.closed(id) {
            return Err(self.refuse(row, device, &error));
        }
        while let Some(effect) = victim.poll_effect() {
            if let DeviceEffect::Revoke { device, range } = effect {
                // All of it was handed over by the open.
                let _ = victim.returned(device, range);
            }
        }
        Ok(())
    }

    fn refuse(&self, row: u64, device: usize, error: &OpenError) -> ReplayError {
        ReplayError::Device {
            row,
            device: self
                .setup
                .devices
                .get(device)
                .map_or(String::new(), |device| device.0.clone()),
            message: error.to_string(),
        }
    }

    fn pass_time(&mut self, now: u64) {
        let cached = self.victim.as_ref().map_or(0, |victim| victim.frames().cached.get());
        let (first, last) = self.clock.unwrap_or((now, now));
        self.cached.1 += u128::from(cached) * u128::from(now.saturating_sub(last));
        self.clock = Some((first, now.max(last)));
    }

    fn finish(mut self) -> Replayed {
        self.count_group();
        let frames = f64::from(self.setup.cache.get().max(1));
        #[allow(clippy::cast_precision_loss, reason = "a mean for reading")]
        let mean = |sum: u128, over: u64| {
            if over == 0 {
                0.0
            } else {
                sum as f64 / over as f64 / frames
            }
        };
        self.replayed.utilisation.by_access = mean(self.cached.0, self.replayed.accesses);
        let span = self.clock.map(|(first, last)| last - first).filter(|span| *span > 0);
        self.replayed.utilisation.by_time = span.map(|span| mean(self.cached.1, span));
        self.replayed.bounds = self.remainder.bounds;
        if self.setup.devices.is_empty() {
            // Both tiers are one list then, without deletions or with them.
            self.replayed.bounds.no_device_misses = self.replayed.misses;
        }
        if let Some(victim) = &self.victim {
            self.replayed.pages = victim.page_counts();
            self.replayed.resident = u64::from(victim.frames().cached.get());
        }
        self.replayed.choose = Times::of(self.choose);
        self.replayed
    }
}
