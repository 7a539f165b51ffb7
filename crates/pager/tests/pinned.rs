//! Pinned page pools on real pages.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, check_page, pager, private, stamp, write_page};
use freehold_pager::core::error::{JobError, PinningError};
use freehold_pager::core::id::{ObjectId, PinnedPoolId};
use freehold_pager::core::pinning::{CapacityRule, JobReport, PinningPolicy, PinningSettings, SwapBudgetRule};
use freehold_pager::core::units::{Duration, PageCount};
use freehold_pager::{MappedRegion, Pager, TaskHandle};

const FRAMES: u32 = 256;
/// What the pinned task uses.
const PAGES: u32 = 80;
const HOG: u32 = 500;

fn settings(policy: PinningPolicy, capacity: u32) -> PinningSettings {
    let millis = |millis: u64| Duration::from_micros(millis * 1_000);
    PinningSettings {
        policy,
        initial_capacity: PageCount::new(capacity),
        ..PinningSettings::paper(millis(5), millis(30))
    }
}

fn pinned_pages(pager: &Pager, pool: PinnedPoolId) -> u32 {
    let view = pager.inspect(|core| core.pinned_pool(pool)).unwrap();
    view.active.get() + view.inactive.get()
}

struct Hog {
    task: TaskHandle,
    region: MappedRegion,
    version: u64,
    next: usize,
}

impl Hog {
    fn new(pager: &Pager) -> Self {
        let task = pager.add_task(None).unwrap();
        let region = task.map(private(pager, HOG)).unwrap();
        Self {
            task,
            region,
            version: 0,
            next: 0,
        }
    }

    /// Touches some, so that what others touch in every round proves its use and is demoted all the same.
    fn walk(&mut self, pages: usize) {
        let bound = self.task.enter().unwrap();
        for _ in 0..pages {
            self.next = (self.next + 1) % HOG as usize;
            bound.write_word(&self.region, self.next * WORDS + 1, 1).unwrap();
        }
    }

    /// Touches more than there is, twice, so that all is evicted that can be.
    fn sweep(&mut self) {
        let bound = self.task.enter().unwrap();
        for _ in 0..2 {
            self.version += 1;
            for page in 0..HOG as usize {
                bound
                    .write_word(&self.region, page * WORDS, stamp(page, 0, self.version))
                    .unwrap();
            }
        }
    }
}

fn pinned_task(pager: &Pager, object: ObjectId, settings: PinningSettings) -> (PinnedPoolId, TaskHandle, MappedRegion) {
    let pool = pager.open_pinned_pool(settings).unwrap();
    let task = pager.add_pinned_task(pool).unwrap();
    let region = task.map(object).unwrap();
    (pool, task, region)
}

/// One job: every page is read and checked. Pages that had to be read back.
fn job(task: &TaskHandle, region: &MappedRegion, pages: std::ops::Range<u32>, version: u64) -> u64 {
    let before = (task.counts().swap_ins, task.times().swap_ins);
    let bound = task.enter().unwrap();
    for page in pages {
        check_page(&bound, region, page as usize, version);
    }
    let after = (task.counts().swap_ins, task.times().swap_ins);
    assert_eq!(after.0 - before.0, after.1 - before.1, "core and pager count alike");
    after.1 - before.1
}

fn report(task: &TaskHandle, missed: bool, swap_ins: u64) -> freehold_pager::Verdict {
    let times = task.times();
    let report = JobReport {
        missed,
        // So that the pool keeps what it has where none is missed.
        running: Duration::from_micros(5_000),
        swap_ins: u32::try_from(swap_ins).unwrap(),
        swap_time: times.swap_cpu,
        swap_delay: times.swap_elapsed,
        ..JobReport::default()
    };
    task.enter().unwrap().report_job(&report).unwrap()
}

#[test]
fn what_is_pinned_is_not_evicted_and_what_is_not_is() {
    for latency in [0, 20, 80] {
        let pager = pager(FRAMES, PAGES + 100 + HOG, latency);
        let (pool, task, region) = pinned_task(&pager, private(&pager, PAGES), settings(PinningPolicy::All, 0));
        let plain = pager.add_task(None).unwrap();
        let other = plain.map(private(&pager, 100)).unwrap();
        {
            let bound = task.enter().unwrap();
            (0..PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
        }
        {
            let bound = plain.enter().unwrap();
            (0..100).for_each(|page| write_page(&bound, &other, page, 1));
        }
        assert_eq!(pinned_pages(&pager, pool), PAGES);
        let mut hog = Hog::new(&pager);
        hog.sweep();
        let faults = task.times().faults;
        assert_eq!(job(&task, &region, 0..PAGES, 1), 0);
        assert_eq!(task.times().faults, faults, "no page was so much as unmapped");
        assert_eq!(task.counts().evictions, 0);
        let bound = plain.enter().unwrap();
        (0..100).for_each(|page| check_page(&bound, &other, page, 1));
        drop(bound);
        assert_eq!(plain.counts().swap_ins, 100, "the same memory without a pool");
        assert_eq!(plain.times().swap_ins, 0, "and nothing of it is measured");
        drop(task);
        pager.close_pinned_pool(pool).unwrap();
        hog.sweep();
        audit(&pager);
    }
}

#[test]
fn a_pool_grows_by_what_late_jobs_read_back_until_none_is() {
    let pager = pager(FRAMES, PAGES + HOG, 20);
    let (pool, task, region) = pinned_task(&pager, private(&pager, PAGES), settings(PinningPolicy::Adaptive, 8));
    {
        let bound = task.enter().unwrap();
        (0..PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
    }
    let mut hog = Hog::new(&pager);
    let mut grown = 0;
    for round in 0..100 {
        // Before every tenth job all is evicted that can be.
        let swept = round % 10 == 9;
        if swept {
            hog.sweep();
        } else {
            hog.walk(120);
        }
        let swap_ins = job(&task, &region, 0..PAGES, 1);
        let capacity = pager.inspect(|core| core.pinned_pool(pool)).unwrap().capacity.get();
        let verdict = report(&task, swap_ins > 0, swap_ins);
        if swap_ins > 0 {
            assert_eq!(verdict.judgement.capacity_rule, CapacityRule::Grown);
            assert!(verdict.judgement.capacity.get() > capacity, "{verdict:?}");
            grown += 1;
        } else if swept && round > 20 {
            assert!(grown > 0);
            let pinned = pinned_pages(&pager, pool);
            assert!(pinned > PAGES / 2, "{pinned} in round {round}");
            let times = task.times();
            assert!(
                times.swap_elapsed >= times.swap_cpu && times.swap_cpu > Duration::ZERO,
                "{times:?}"
            );
            audit(&pager);
            return;
        }
    }
    panic!(
        "it reads back to the end: {:?}",
        pager.inspect(|core| core.pinned_pool(pool))
    );
}

#[test]
fn a_set_that_moves_is_followed_and_its_old_pages_leave() {
    let pager = pager(180, 2 * PAGES + HOG, 0);
    let object = private(&pager, 2 * PAGES);
    let (pool, task, region) = pinned_task(&pager, object, settings(PinningPolicy::Adaptive, PAGES));
    {
        let bound = task.enter().unwrap();
        (0..2 * PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
    }
    let mut hog = Hog::new(&pager);
    // What the last job reads back after all was evicted that can be.
    let mut rounds = |pages: std::ops::Range<u32>| {
        (0..40).fold(0, |_, round| {
            if round == 39 {
                hog.sweep();
            } else {
                hog.walk(40);
            }
            let swap_ins = job(&task, &region, pages.clone(), 1);
            // The pool has room for one set and not for both.
            report(&task, false, swap_ins);
            swap_ins
        })
    };
    assert!(rounds(0..PAGES) < 20, "nearly all of it is pinned");
    let before = pager.inspect(|core| core.pinned_pool(pool)).unwrap().unpinned;
    assert!(rounds(PAGES..2 * PAGES) < 20, "after the shift too");
    let after = pager.inspect(|core| core.pinned_pool(pool)).unwrap().unpinned;
    assert!(after - before >= 10, "{} old pages were unpinned", after - before);
    let back = job(&task, &region, 0..PAGES, 1);
    assert!(back >= 10, "and left: {back}");
    audit(&pager);
}

#[test]
fn budgets_are_told_where_they_change_and_jobs_of_nobody_refused() {
    let pager = pager(FRAMES, PAGES + HOG, 0);
    let (pool, task, _) = pinned_task(&pager, private(&pager, PAGES), settings(PinningPolicy::Adaptive, 8));
    let late = JobReport {
        missed: true,
        running: Duration::from_micros(6_000),
        swap_ins: 10,
        swap_time: Duration::from_micros(400),
        ..JobReport::default()
    };
    let bound = task.enter().unwrap();
    let raised = bound.report_job(&late).unwrap();
    assert_eq!(raised.judgement.swap_budget_rule, SwapBudgetRule::Raised);
    assert_eq!(raised.judgement.swap_budget, Duration::from_micros(400));
    // Neither rule applies.
    let quiet = JobReport {
        running: Duration::from_micros(5_000),
        ..JobReport::default()
    };
    let held = bound.report_job(&quiet).unwrap().judgement;
    assert_eq!(held.swap_budget, raised.judgement.swap_budget);
    drop(bound);
    let again = pager.report_job(pool, &late).unwrap().judgement;
    assert_eq!(again.swap_budget, Duration::from_micros(800));
    let plain = pager.add_task(None).unwrap();
    let bound = plain.enter().unwrap();
    assert_eq!(bound.report_job(&quiet), Err(JobError::Stale));
    drop(bound);
    let bad = PinningSettings {
        budget: Duration::from_micros(31_000),
        ..settings(PinningPolicy::Adaptive, 8)
    };
    assert_eq!(pager.open_pinned_pool(bad), Err(PinningError::BadBudget));
}

#[test]
fn a_restorer_brings_back_what_the_last_jobs_read_back() {
    let pager = pager(FRAMES, PAGES + HOG, 20);
    let object = private(&pager, PAGES);
    let settings = PinningSettings {
        restore: PageCount::new(1),
        ..settings(PinningPolicy::Adaptive, 1)
    };
    let (pool, task, region) = pinned_task(&pager, object, settings);
    let restorer = pager.add_restorer(pool).unwrap();
    restorer.map(object).unwrap();
    {
        let bound = task.enter().unwrap();
        (0..PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
    }
    let mut hog = Hog::new(&pager);
    let mut saved = 0;
    for _ in 0..4 {
        hog.sweep();
        let before = restorer.counts();
        let bound = restorer.enter().unwrap();
        let named = (0..PAGES).take_while(|_| bound.restore_next()).count() as u64;
        assert!(!bound.restore_next(), "each is named once");
        drop(bound);
        let after = restorer.counts();
        assert_eq!(
            after.swap_ins - before.swap_ins,
            named,
            "one fault for each, and no more"
        );
        assert_eq!(restorer.times().failures, 0);
        let swap_ins = job(&task, &region, 0..PAGES, 1);
        saved += named;
        assert!(
            named == 0 || swap_ins < u64::from(PAGES),
            "{named} brought back, {swap_ins} read back"
        );
        report(&task, false, swap_ins);
    }
    assert!(saved > 0);
    // A task that is none restores nothing.
    assert!(!task.enter().unwrap().restore_next());
    audit(&pager);
}

/// Jobs, reports and a hog at once, in threads, while the pool is looked at.
#[test]
fn threads_of_a_pool_keep_books_and_content() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
    println!("seed {seed}");
    for latency in [0, 20, 80] {
        let pager = pager(FRAMES, PAGES + HOG, latency);
        let (pool, task, region) = pinned_task(&pager, private(&pager, PAGES), settings(PinningPolicy::Adaptive, 20));
        let mut hog = Hog::new(&pager);
        let sweeper = &mut hog;
        std::thread::scope(|scope| {
            scope.spawn(move || (0..6).for_each(|_| sweeper.sweep()));
            scope.spawn(|| {
                let bound = task.enter().unwrap();
                let mut random = Random(seed);
                let mut versions = [0_u64; PAGES as usize];
                for number in 0..400 {
                    let before = task.times();
                    for _ in 0..40 {
                        let page = random.below(PAGES as usize);
                        assert_eq!(
                            bound.read_word(&region, page * WORDS).unwrap(),
                            if versions[page] == 0 {
                                0
                            } else {
                                stamp(page, 0, versions[page])
                            }
                        );
                        if random.below(3) == 0 {
                            versions[page] += 1;
                            bound
                                .write_word(&region, page * WORDS, stamp(page, 0, versions[page]))
                                .unwrap();
                        }
                    }
                    let times = task.times();
                    let report = JobReport {
                        missed: number % 5 == 0,
                        running: Duration::from_micros(random.below(9_000) as u64),
                        swap_ins: u32::try_from(times.swap_ins - before.swap_ins).unwrap(),
                        swap_time: times.swap_cpu.saturating_sub(before.swap_cpu),
                        ..JobReport::default()
                    };
                    let verdict = bound.report_job(&report).unwrap();
                    assert!(verdict.pool.active.get() + verdict.pool.inactive.get() <= PAGES);
                    bound.job_end();
                }
            });
        });
        assert_eq!(task.times().swap_ins, task.counts().swap_ins);
        drop(task);
        pager.close_pinned_pool(pool).unwrap();
        drop(hog);
        audit(&pager);
    }
}
