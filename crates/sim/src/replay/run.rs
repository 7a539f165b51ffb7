//! A replay, row by row.

use super::lru::{Lru, Numbers};
use super::outcome::{Allocation, Bounds, GroupCounts, Replayed, Times};
use super::row::{Event, Pages, Row};
use freehold_core::units::FrameCount;
use freehold_core::victim_cache::error::{OpenError, SpecError};
use freehold_core::victim_cache::{
    DeviceEffect, DeviceId, FileId, Got, MOST_DEVICES, Placement, Policy, VictimCache, VictimCacheSpec,
};

/// The most devices for which every order can be tried.
const MOST_ORDERED: usize = 6;

/// How places are chosen, as paper 003 (section 5.4) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// By distance from the least recently put page, by buckets.
    Lru,
    /// The same by a walk through all pages.
    LruExact,
    /// By the number of pages.
    Count,
    /// Any place.
    Random,
    /// The best order of fixed places.
    Static,
    /// By the number of pages whose next use would be a hit if no device ever opened.
    Optimal,
}

/// What rows of kind `D` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// Evictions of the recorded machine's own page cache: nothing.
    Evictions,
    /// The pages are gone for good.
    Flush,
}

/// What a trace is replayed against.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames of the page cache, at least one.
    pub page_cache: FrameCount,
    /// Frames of the victim cache; none: the page cache stands alone.
    pub cache: FrameCount,
    /// Devices: names and sizes.
    pub devices: Vec<(String, FrameCount)>,
    /// How places are chosen.
    pub choice: Choice,
    /// Which are possible.
    pub placement: Placement,
    /// The seed of [`Choice::Random`].
    pub seed: u64,
    /// What rows of kind `D` mean.
    pub deletes: Deletes,
}

/// A trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The setup's fault.
    #[error("{0}")]
    Setup(String),
    /// The trace's fault: it opens what is open, or closes what is closed.
    #[error("line {row}: device `{device}`: {message}")]
    Device {
        /// The row.
        row: u64,
        /// The device's name.
        device: String,
        /// What is wrong.
        message: String,
    },
}

impl From<SpecError> for ReplayError {
    fn from(error: SpecError) -> Self {
        Self::Setup(error.to_string())
    }
}

/// Replays a trace. `clock` tells nanoseconds, for how long choices take; nothing depends on it.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(rows: &[Row], setup: &Setup, clock: &mut dyn FnMut() -> u64) -> Result<Replayed, ReplayError> {
    if setup.page_cache.is_zero() {
        return Err(ReplayError::Setup("the page cache needs at least one page".to_owned()));
    }
    let future = Future::of(rows, setup);
    let mut best: Option<Replayed> = None;
    for policy in policies(setup)? {
        let begin = clock();
        let mut run = Run::new(setup, policy, &future.worth)?;
        for row in rows {
            run.row(row, clock)?;
        }
        let mut replayed = run.finish();
        replayed.bounds = future.bounds;
        replayed.wall_ns = clock().saturating_sub(begin);
        if best.as_ref().is_none_or(|best| replayed.misses < best.misses) {
            if let Policy::Static { order } = policy {
                replayed.order = Some(
                    order[..setup.devices.len()]
                        .iter()
                        .map(|place| usize::from(*place))
                        .collect(),
                );
            }
            best = Some(replayed);
        }
    }
    best.ok_or_else(|| ReplayError::Setup("there is no order of devices".to_owned()))
}

fn policies(setup: &Setup) -> Result<Vec<Policy>, ReplayError> {
    let one = match setup.choice {
        Choice::Lru => Policy::Lru,
        Choice::LruExact => Policy::LruExact,
        Choice::Count | Choice::Optimal => Policy::Worth,
        Choice::Random => Policy::Random { seed: setup.seed },
        Choice::Static => {
            if setup.devices.len() > MOST_ORDERED {
                let message = format!("static tries every order: at most {MOST_ORDERED} devices");
                return Err(ReplayError::Setup(message));
            }
            let mut orders = Vec::new();
            permute(&mut Vec::new(), setup.devices.len().max(1), &mut orders);
            return Ok(orders);
        }
    };
    Ok(vec![one])
}

fn permute(taken: &mut Vec<u8>, devices: usize, orders: &mut Vec<Policy>) {
    if taken.len() == devices {
        let mut order = [0; MOST_DEVICES];
        order[..devices].copy_from_slice(taken);
        orders.push(Policy::Static { order });
        return;
    }
    for device in (0..devices).filter_map(|device| u8::try_from(device).ok()) {
        if !taken.contains(&device) {
            taken.push(device);
            permute(taken, devices, orders);
            taken.pop();
        }
    }
}

/// What one LRU list of all frames would do, no device ever open.
struct Future {
    bounds: Bounds,
    /// For each access whether the next of its page is a hit; kept for the policy that looks into the future only.
    worth: Vec<u8>,
}

impl Future {
    fn of(rows: &[Row], setup: &Setup) -> Self {
        let looks = setup.choice == Choice::Optimal;
        let frames = setup.page_cache.get() as usize + setup.cache.get() as usize;
        let (mut numbers, mut lru, mut misses) = (Numbers::new(), Lru::new(frames), 0);
        let (mut worth, mut last) = (Vec::new(), Vec::new());
        for row in rows {
            let (pages, access) = match row.event {
                Event::Access(pages) => (pages, true),
                Event::Delete(pages) if setup.deletes == Deletes::Flush => (pages, false),
                _ => continue,
            };
            for page in each(pages) {
                let number = numbers.number(pages.file, page);
                if !access {
                    lru.remove(number);
                    continue;
                }
                let hit = lru.touch(number);
                if !hit {
                    misses += 1;
                    lru.add(number);
                }
                if looks {
                    last.resize(numbers.len().max(last.len()), usize::MAX);
                    if let Some(before) = worth.get_mut(last[number as usize]) {
                        *before = u8::from(hit);
                    }
                    last[number as usize] = worth.len();
                    worth.push(0);
                }
            }
        }
        Self {
            bounds: Bounds {
                distinct: numbers.len() as u64,
                no_device_misses: misses,
            },
            worth,
        }
    }
}

fn each(pages: Pages) -> std::ops::Range<u32> {
    let first = pages.first.get();
    first..first.saturating_add(pages.count)
}

/// Where a page is, as the replay believes.
#[derive(Clone, Copy, Default)]
struct Belief {
    /// It was put, and nothing but a device has taken it away since.
    put: bool,
    worth: u8,
}

struct Run<'a> {
    setup: &'a Setup,
    future: &'a [u8],
    numbers: Numbers,
    page_cache: Lru,
    victim: Option<VictimCache>,
    beliefs: Vec<Belief>,
    /// Devices whose open found no place: their close means nothing.
    refused: Vec<bool>,
    replayed: Replayed,
    choose: Vec<u64>,
    /// The sum of cached frames over accesses, and over microseconds.
    cached: (u128, u128),
    clock: Option<(u64, u64)>,
    /// The group of the last mark, and what had been used and read then.
    group: Option<(usize, u64, u64)>,
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup, policy: Policy, future: &'a [u8]) -> Result<Self, ReplayError> {
        let whole = [setup.cache];
        let sizes: Vec<FrameCount> = setup.devices.iter().map(|device| device.1).collect();
        let spec = VictimCacheSpec {
            frames: setup.cache,
            devices: if sizes.is_empty() { &whole } else { &sizes },
            granule: FrameCount::new(1),
            copies: 1,
            files: u32::MAX,
            policy,
            placement: setup.placement,
        };
        let victim = if setup.cache.is_zero() && sizes.is_empty() {
            None
        } else {
            Some(spec.seal()?)
        };
        Ok(Self {
            setup,
            future,
            numbers: Numbers::new(),
            page_cache: Lru::new(setup.page_cache.get() as usize),
            victim,
            beliefs: Vec::new(),
            refused: vec![false; sizes.len()],
            replayed: Replayed::default(),
            choose: Vec::new(),
            cached: (0, 0),
            clock: None,
            group: None,
        })
    }

    fn row(&mut self, row: &Row, clock: &mut dyn FnMut() -> u64) -> Result<(), ReplayError> {
        self.replayed.rows += 1;
        if let Some(time) = row.time {
            self.pass_time(time);
        }
        match row.event {
            Event::Access(pages) => each(pages).for_each(|page| self.access(pages.file, page)),
            Event::Delete(pages) if self.setup.deletes == Deletes::Flush => {
                each(pages).for_each(|page| self.flush(pages.file, page));
            }
            Event::Delete(_) | Event::Inform => {}
            Event::Mark { group } => self.mark(group),
            Event::Open { device, used } => self.open(row.number, device, used, clock)?,
            Event::Close { device } => self.close(row.number, device)?,
        }
        Ok(())
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

    fn access(&mut self, file: u64, page: u32) {
        let number = self.numbers.number(file, page);
        if self.beliefs.len() <= number as usize {
            self.beliefs.push(Belief::default());
        }
        let access = usize::try_from(self.replayed.accesses).unwrap_or(usize::MAX);
        self.beliefs[number as usize].worth = match self.setup.choice {
            Choice::Optimal => self.future.get(access).copied().unwrap_or(0),
            _ => 1,
        };
        self.replayed.accesses += 1;
        if self.page_cache.touch(number) {
            self.replayed.page_cache_hits += 1;
        } else {
            self.miss(number);
        }
        if let Some(victim) = &self.victim {
            self.cached.0 += u128::from(victim.frames().cached.get());
        }
    }

    /// A page that the page cache does not have: from the victim cache or read, and into the page cache.
    fn miss(&mut self, number: u32) {
        let (file, page) = self.numbers.page(number);
        let got = self
            .victim
            .as_mut()
            .map_or(Got::Miss, |victim| victim.get(FileId::new(file), page));
        let put = std::mem::take(&mut self.beliefs[number as usize].put);
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
        if let Some(gone) = self.page_cache.add(number) {
            self.put(gone);
        }
    }

    fn put(&mut self, number: u32) {
        let Some(victim) = &mut self.victim else { return };
        let (file, page) = self.numbers.page(number);
        let Ok(put) = victim.put(FileId::new(file), page, self.beliefs[number as usize].worth) else {
            return;
        };
        let _ = victim.copied(put.frame);
        self.beliefs[number as usize].put = true;
        if let Some((file, page)) = put.evicted {
            let gone = self.numbers.number(file.get(), page.get());
            self.beliefs[gone as usize].put = false;
        }
    }

    fn flush(&mut self, file: u64, page: u32) {
        let number = self.numbers.number(file, page);
        if self.beliefs.len() <= number as usize {
            self.beliefs.push(Belief::default());
        }
        self.page_cache.remove(number);
        self.beliefs[number as usize].put = false;
        if let Some(victim) = &mut self.victim {
            victim.flush_page(FileId::new(file), self.numbers.page(number).1);
        }
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

    fn open(&mut self, row: u64, device: usize, used: u32, clock: &mut dyn FnMut() -> u64) -> Result<(), ReplayError> {
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

    fn close(&mut self, row: u64, device: usize) -> Result<(), ReplayError> {
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
        self.replayed.utilisation = mean(self.cached.0, self.replayed.accesses);
        let span = self.clock.map(|(first, last)| last - first).filter(|span| *span > 0);
        self.replayed.utilisation_by_time = span.map(|span| mean(self.cached.1, span));
        if let Some(victim) = &self.victim {
            self.replayed.pages = victim.page_counts();
            self.replayed.resident = u64::from(victim.frames().cached.get());
        }
        self.replayed.choose = Times::of(self.choose);
        self.replayed
    }
}
