//! A store that fails at random, thousands of times: whoever was told that a page is kept finds it, whoever cannot be
//! served is told so, and nobody else notices.
//!
//! `FREEHOLD_FAILURES` sets how many failures are injected (10000 unless told), `FREEHOLD_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, file, hard, other_media, private, shared, stamp};
use freehold_pager::store::{RandomFaults, Urgency};
use freehold_pager::{AccessError, Bound, Failure, MappedRegion, Pager, StoreMedium, TaskHandle};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TASKS: usize = 3;
const PRIVATE_PAGES: usize = 40;
const SHARED_PAGES: usize = 24;
/// In the half of a page that a short or torn transfer leaves out.
const PRIVATE_PLACE: usize = 300;
/// A task that makes no access for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const FAILURES: RandomFaults = RandomFaults {
    fail_reads: 150_000,
    fail_writes: 150_000,
    short: 50_000,
    torn: 0,
};

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What one task knows of the words that only it writes, one in each page.
struct Writer<'a> {
    bound: Bound<'a>,
    region: MappedRegion,
    /// The place of its word in each page.
    place: usize,
    versions: Vec<u64>,
    /// Accesses that ended with their defined error.
    refused: u64,
}

impl<'a> Writer<'a> {
    fn new(task: &'a TaskHandle, region: MappedRegion, place: usize, pages: usize) -> Self {
        Self {
            bound: task.enter().unwrap(),
            region,
            place,
            versions: vec![0; pages],
            refused: 0,
        }
    }

    /// Reads a page's word, which must be the last that was acknowledged, and perhaps writes the next.
    fn visit(&mut self, page: usize, write: bool) -> Result<(), String> {
        let at = page * WORDS + self.place;
        if self.check(page)? && write {
            let next = self.versions[page] + 1;
            match self.bound.write_word(&self.region, at, stamp(page, self.place, next)) {
                Ok(()) => self.versions[page] = next,
                Err(error) => self.refuse(error)?,
            }
        }
        Ok(())
    }

    /// False if the page cannot be had for the moment.
    fn check(&mut self, page: usize) -> Result<bool, String> {
        match self.bound.read_word(&self.region, page * WORDS + self.place) {
            Ok(found) => {
                let version = self.versions[page];
                let wanted = if version == 0 {
                    0
                } else {
                    stamp(page, self.place, version)
                };
                if found == wanted {
                    return Ok(true);
                }
                Err(format!("page {page}: {found:#x} instead of {wanted:#x}"))
            }
            Err(error) => self.refuse(error).map(|()| false),
        }
    }

    fn refuse(&mut self, error: AccessError) -> Result<(), String> {
        self.refused += 1;
        match error {
            AccessError::Failed(Failure::Read | Failure::WriteBack) => Ok(()),
            other => Err(other.to_string()),
        }
    }
}

/// How far each task has come, and whether they are to stop.
#[derive(Default)]
struct Watch {
    progress: [AtomicU64; TASKS + 1],
    stop: AtomicBool,
}

impl Watch {
    fn goes_on(&self, task: usize) -> bool {
        self.progress[task].fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    /// Until `enough` says so; ends the process where a task hangs.
    fn watch(&self, enough: impl Fn() -> bool) {
        let mut last = [0; TASKS + 1];
        let mut moved = [Instant::now(); TASKS + 1];
        while !enough() {
            std::thread::sleep(Duration::from_millis(10));
            for (task, progress) in self.progress.iter().enumerate() {
                let now = progress.load(Ordering::Relaxed);
                if now != last[task] {
                    (last[task], moved[task]) = (now, Instant::now());
                } else if moved[task].elapsed() > PATIENCE {
                    eprintln!("task {task} hangs after {now} rounds");
                    std::process::abort();
                }
            }
        }
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Where those who page wait, once told to stop, until the store is healed.
#[derive(Default)]
struct Pause {
    waiting: AtomicUsize,
    healed: AtomicBool,
}

impl Pause {
    fn until_healed(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        while !self.healed.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Heals once none of those who page is at an access, or one of them is over early.
    fn heal(&self, over: impl Fn() -> bool, heal: impl FnOnce()) {
        while self.waiting.load(Ordering::Acquire) < TASKS && !over() {
            std::thread::yield_now();
        }
        heal();
        self.healed.store(true, Ordering::Release);
    }
}

/// One that pages: until told to stop, then once through all its pages, which must all be had again if no write was
/// torn. Returns how many accesses were refused, and how many pages are lost.
fn page(task: &TaskHandle, region: MappedRegion, shared: MappedRegion, part: Part<'_>) -> Result<(u64, u64), String> {
    let mut random = Random(part.seed ^ (part.number as u64) << 32);
    let mut own = Writer::new(task, region, PRIVATE_PLACE, PRIVATE_PAGES);
    let mut versions = vec![0; SHARED_PAGES];
    while part.watch.goes_on(part.number) {
        own.visit(random.below(PRIVATE_PAGES), random.below(2) == 0)?;
        // In the shared region each task has a word of its own in every page.
        (own.region, own.place) = (shared, 8 + part.number);
        std::mem::swap(&mut own.versions, &mut versions);
        own.visit(random.below(SHARED_PAGES), random.below(2) == 0)?;
        std::mem::swap(&mut own.versions, &mut versions);
        (own.region, own.place) = (region, PRIVATE_PLACE);
        if random.below(50) == 0 {
            own.bound.job_end();
        }
    }
    part.pause.until_healed();
    // What was under way when the store was healed may still fail, also for who only joins it: the first time through
    // ends that, the second counts.
    let mut lost = 0;
    for counts in [0, 1] {
        for page in 0..PRIVATE_PAGES {
            lost += counts * u64::from(!own.check(page)?);
        }
        (own.region, own.place) = (shared, 8 + part.number);
        std::mem::swap(&mut own.versions, &mut versions);
        for page in 0..SHARED_PAGES {
            lost += counts * u64::from(!own.check(page)?);
        }
        std::mem::swap(&mut own.versions, &mut versions);
        (own.region, own.place) = (region, PRIVATE_PLACE);
    }
    Ok((own.refused, lost))
}

/// One whose pages all fit: the store is none of its business.
fn stay(task: &TaskHandle, region: MappedRegion, watch: &Watch) -> Result<(u64, u64), String> {
    let mut writer = Writer::new(task, region, 5, 16);
    let mut random = Random(9);
    while watch.goes_on(TASKS) {
        writer.visit(random.below(16), true)?;
        if random.below(1000) == 0 {
            writer.bound.job_end();
        }
    }
    Ok((writer.refused, 0))
}

#[derive(Clone, Copy)]
struct Part<'a> {
    seed: u64,
    number: usize,
    watch: &'a Watch,
    pause: &'a Pause,
}

fn failing_pager(medium: StoreMedium) -> Pager {
    let mut config = config(128, 256, 0);
    config.limits.objects = 8;
    config.medium = medium;
    Pager::new(config).unwrap()
}

/// Runs everybody over a store that fails `failures` times. Returns refused accesses and lost pages of those who page.
fn campaign(pager: &Pager, faults: RandomFaults, failures: u64) -> (u64, u64) {
    let seed = number("FREEHOLD_SEED", 17);
    println!("seed {seed}, {:?}", pager.store().describe());
    let region = shared(pager, u32::try_from(SHARED_PAGES).unwrap());
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let task = pager.add_task(Some(hard(pager, 20))).unwrap();
            task.set_urgency(Urgency::new(u8::try_from(number).unwrap() * 100));
            let own = task.map(private(pager, u32::try_from(PRIVATE_PAGES).unwrap())).unwrap();
            let shared = task.map(region).unwrap();
            (task, own, shared)
        })
        .collect();
    let bystander = pager.add_task(Some(hard(pager, 24))).unwrap();
    let at_bystander = bystander.map(private(pager, 16)).unwrap();
    let (watch, pause) = (Watch::default(), Pause::default());
    pager.store().faults().at_random(seed, faults);
    let (refused, lost) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (task, own, shared)) in tasks.iter().enumerate() {
            let (watch, pause) = (&watch, &pause);
            let part = Part {
                seed,
                number,
                watch,
                pause,
            };
            threads.push(scope.spawn(move || page(task, *own, *shared, part)));
        }
        let staying = scope.spawn(|| stay(&bystander, at_bystander, &watch));
        // A thread that is over early has something to say.
        let over = || threads.iter().any(std::thread::ScopedJoinHandle::is_finished);
        watch.watch(|| {
            pager.check_laws().unwrap();
            pager.store().faults().struck() >= failures || over()
        });
        pause.heal(over, || {
            pager.store().faults().at_random(seed, RandomFaults::default());
        });
        assert_eq!(
            staying.join().unwrap(),
            Ok((0, 0)),
            "the bystander noticed, seed {seed}"
        );
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap().expect("nothing but defined errors"));
        ends.fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1))
    });
    assert!(pager.store().faults().struck() >= failures, "seed {seed}");
    assert_eq!(bystander.times().failures, 0);
    drop((tasks, bystander));
    audit(pager);
    let stats = pager.store().stats();
    println!("{refused} accesses refused, {lost} pages lost, {stats:?}");
    (refused, lost)
}

#[test]
fn ten_thousand_failures_lose_no_acknowledged_page_and_stop_nobody_else() {
    let failures = number("FREEHOLD_FAILURES", 10_000);
    let pager = failing_pager(file(true));
    let (refused, lost) = campaign(&pager, FAILURES, failures);
    assert_eq!(lost, 0);
    assert!(refused > failures / 10, "only {refused} accesses noticed anything");
    let stats = pager.store().stats();
    assert!(
        stats.failed_reads > 0 && stats.failed_writes > 0 && stats.retried > 0,
        "{stats:?}"
    );
}

#[test]
fn other_stores_lose_nothing_either() {
    let mut media = other_media();
    media.push(("memory", StoreMedium::Memory));
    for (name, medium) in media {
        println!("{name}");
        let (_, lost) = campaign(&failing_pager(medium), FAILURES, 2_000);
        assert_eq!(lost, 0, "{name}");
    }
}

/// A device that leaves half a record and says that all is well cannot be made good; but nobody is told a lie.
#[test]
fn torn_writes_are_errors_and_never_content() {
    for medium in [
        file(true),
        file(false),
        StoreMedium::Compressed(None),
        StoreMedium::Memory,
    ] {
        let torn = RandomFaults {
            torn: 30_000,
            ..FAILURES
        };
        let (_, lost) = campaign(&failing_pager(medium), torn, 2_000);
        assert!(lost > 0, "no write was torn");
    }
}
