//! The core alone with a pinned page pool: what a fault event of over-committed memory costs, with the policy of paper
//! 001 and without.

use std::hint::black_box;

use freehold_core::id::{MappingId, ObjectId, PinnedPoolId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
use freehold_core::pinning::{JobReport, PinningSettings};
use freehold_core::units::{Duration, FrameCount, PageCount};
use freehold_linux::clock;

use super::Bench;
use super::driven::{Driven, wrong};
use super::rounds::{Effort, Found, Samples};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Small enough for the tables to fit a cache.
const FRAMES: u32 = 192;
const TASK_PAGES: u32 = 96;
const HOG_PAGES: u32 = 288;
/// Of the task's pages and of the hog's, those that are touched again and again.
const TASK_HOT: u32 = 64;
const HOG_HOT: u32 = 80;
/// Fewer pages than the task's hot ones, so that Algorithm 2 runs.
const CAPACITY: u32 = 48;
/// Touches in one sample.
const TOUCHES: u32 = 2_000;
const SAMPLES: u32 = 400;
/// Touches of the task in one of its jobs.
const JOB: u32 = 200;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "core-pinning",
    about: "one fault event of over-committed memory beside a pinned page pool that pins and unpins, tables in the \
            cache",
    floor: "the same without the pool: the global lists only",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.1,
    run,
};

/// Faults of a soft-real-time task and a hog together, by all that follows from them; with the end of a job every 200
/// touches.
fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let (mut without, mut with) = (World::new(false)?, World::new(true)?);
    let repeat = effort.scaled(SAMPLES);
    found.alternate(
        effort,
        |samples| without.sample(repeat, samples),
        |samples| with.sample(repeat, samples),
    )?;
    let pool = with.pool.and_then(|pool| with.driven.memory.pinned_pool(pool));
    let pool = pool.ok_or_else(|| wrong("the pinned page pool is gone"))?;
    if pool.pinned == 0 || pool.unpinned == 0 {
        return Err(wrong("nothing was pinned, or nothing unpinned"));
    }
    found.notes.push(format!(
        "{} pages pinned and {} unpinned in {} faults; the work of the policy is the difference",
        pool.pinned, pool.unpinned, with.faults
    ));
    Ok(found)
}

/// A soft-real-time task, with or without a pinned page pool, and a hog.
struct World {
    driven: Driven,
    pool: Option<PinnedPoolId>,
    objects: [ObjectId; 2],
    mappings: [MappingId; 2],
    mapped: [Vec<bool>; 2],
    step: u32,
    faults: u64,
}

impl World {
    fn new(pinned: bool) -> Result<Self, Failure> {
        let limits = Limits {
            frames: FrameCount::new(FRAMES),
            pages: PageCount::new(TASK_PAGES + HOG_PAGES),
            reservations: 1,
            objects: 2,
            tasks: 2,
            mappings: 2,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        };
        let mut memory = limits.seal().map_err(wrong)?;
        let mut settings = PinningSettings::paper(Duration::from_millis(5), Duration::from_millis(30));
        settings.initial_capacity = PageCount::new(CAPACITY);
        let pool = pinned
            .then(|| memory.open_pinned_pool(settings).map_err(wrong))
            .transpose()?;
        let task = match pool {
            Some(pool) => memory.add_pinned_task(pool),
            None => memory.add_task(None),
        };
        let tasks = [task.map_err(wrong)?, memory.add_task(None).map_err(wrong)?];
        let mut object = |pages| {
            let (kind, regime) = (ObjectKind::Private, Regime::Conserve);
            let pages = PageCount::new(pages);
            memory.create_object(ObjectSpec { kind, pages, regime }).map_err(wrong)
        };
        let objects = [object(TASK_PAGES)?, object(HOG_PAGES)?];
        let mappings = [
            memory.map(tasks[0], objects[0]).map_err(wrong)?,
            memory.map(tasks[1], objects[1]).map_err(wrong)?,
        ];
        Ok(Self {
            driven: Driven::new(memory),
            pool,
            objects,
            mappings,
            mapped: [vec![false; TASK_PAGES as usize], vec![false; HOG_PAGES as usize]],
            step: 0,
            faults: 0,
        })
    }

    fn sample(&mut self, repeat: u32, samples: &mut Samples) -> Result<(), Failure> {
        for _ in 0..repeat {
            let (begun, before) = (clock::now(), self.faults);
            for _ in 0..TOUCHES {
                self.next_touch()?;
            }
            samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), self.faults - before);
        }
        Ok(())
    }

    /// Of six touches, two of the task's hot pages, three of the hog's, one of the hog's stream.
    fn next_touch(&mut self) -> Result<(), Failure> {
        self.step = self.step.wrapping_add(1);
        let turn = self.step / 6;
        match self.step % 6 {
            place @ 0..2 => self.touch(0, (2 * turn + place) % TASK_HOT)?,
            place @ 2..5 => self.touch(1, (3 * turn + place) % HOG_HOT)?,
            _ => self.touch(1, HOG_HOT + turn % (HOG_PAGES - HOG_HOT))?,
        }
        if let Some(pool) = self.pool.filter(|_| self.step.is_multiple_of(JOB)) {
            let job = JobReport {
                running: Duration::from_millis(5),
                ..JobReport::default()
            };
            let judged = self.driven.memory.handle_pinned_job_end(self.driven.now(), pool, &job);
            black_box(judged.map_err(wrong)?);
        }
        Ok(())
    }

    fn touch(&mut self, who: usize, page: u32) -> Result<(), Failure> {
        if self.mapped[who][page as usize] {
            return Ok(());
        }
        self.faults += 1;
        let Self {
            driven,
            objects,
            mappings,
            mapped,
            ..
        } = self;
        driven.fault(mappings[who], page, |page, is_mapped| {
            let who = usize::from(page.object() == objects[1]);
            mapped[who][page.page().get() as usize] = is_mapped;
        })
    }
}
