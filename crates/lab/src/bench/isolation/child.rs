//! What runs in a process of its own: the task, its memory, and the sibling.

use std::fs;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::{PAGE_SIZE, bare, clock, faults, memory, sched};
use freehold_pager::{Bound, MappedRegion, Pager};
use freehold_rt::class::Class;
use freehold_rt::job::{Delays, Job};
use freehold_rt::pacer::Pacer;
use freehold_rt::record::Record;
use freehold_rt::runner::{self, Work};
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use serde::{Deserialize, Serialize};

use super::served;
use crate::bench::rounds::{Samples, refused};
use crate::bench::world::{self, WORDS};
use freehold_command::output;
use freehold_command::status::{Failure, Status};

/// Pages of the task, all of them touched in every job: 1 MiB, which fits a private cache.
pub(super) const WORKING_SET: usize = 256;
/// Pages of the task with a large working set: 4 MiB.
pub(super) const LARGE_SET: usize = 1024;
/// Pages read, and written in part, in one job, in as many passes as it takes.
const TOUCHES: usize = 3072;
/// Frames that the sibling can have.
pub(super) const HOG_FRAMES: usize = 2048;
/// Pages that the sibling touches, one after the other.
pub(super) const HOG_PAGES: usize = 8192;
/// From one release of the task to the next.
pub(super) const PERIOD: Duration = Duration::from_millis(1);
/// A job that does not fault is stopped for so long by the machine only: an interrupt that makes a CPU forget
/// translations takes some microseconds.
pub(super) const STALL: Duration = Duration::from_micros(100);
/// Touches between two looks at the clock.
const LOOK_EVERY: usize = 8;
/// Bytes of a page that a job writes.
const WRITTEN: usize = 256;
/// Jobs that are not measured: the first touches are among them.
const WARM_UP: u32 = 50;
pub(super) const PRIORITY: u32 = 50;
/// From the start to the first release.
const START: Duration = Duration::from_millis(20);

/// How the task gets its memory, and who is beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Setting {
    /// A reservation, nobody else
    Alone,
    /// A reservation; the sibling is a best-effort task of the same pager
    Beside,
    /// A reservation; the sibling computes and touches no memory: what a busy machine does without any paging
    Computing,
    /// Plain memory under mlockall; the sibling is a thread with plain memory
    Mlockall,
    /// The same with the sibling in another process
    MlockallApart,
    /// Plain memory of a cgroup that is short of it; the sibling is a thread with plain memory
    Cgroup,
    /// As alone, with a working set of 4 MiB
    AloneLarge,
    /// As beside, with a working set of 4 MiB
    BesideLarge,
    /// The sibling only, until it is ended
    Hog,
    /// A reservation of the memory server at the socket; whoever is beside it is another process
    Served,
    /// The sibling as a client of that server, until it is ended
    ServedHog,
    /// The same task in plain memory under mlockall
    Locked,
    /// A sibling that computes and touches no memory, until it is ended
    Busy,
}

impl Setting {
    /// For a reader.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Beside => "beside the sibling",
            Self::Computing => "beside one that only computes",
            Self::Mlockall => "mlockall",
            Self::MlockallApart => "mlockall, sibling in another process",
            Self::Cgroup => "memory cgroup with swap",
            Self::AloneLarge => "4 MiB working set, alone",
            Self::BesideLarge => "4 MiB working set, beside the sibling",
            Self::Hog => "sibling",
            Self::Served => "served",
            Self::ServedHog => "served sibling",
            Self::Locked => "mlockall, beside a served sibling",
            Self::Busy => "sibling that only computes",
        }
    }
}

/// Options of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    setting: Setting,
    /// Jobs to measure
    #[arg(long, default_value_t = 1)]
    jobs: u32,
    /// The member file of a cgroup to join first
    #[arg(long)]
    join: Option<PathBuf>,
    /// The socket of a memory server
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// What a process found.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// Of each job, in nanoseconds.
    responses: Vec<u64>,
    /// The same less every stall.
    without_stalls: Vec<u64>,
    /// Page faults of the task in these jobs.
    pub(super) faults: u64,
    pub(super) sibling_faults: u64,
    pub(super) seconds: f64,
}

impl Report {
    /// The responses.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn samples(&self) -> Result<Samples, Failure> {
        distribution(&self.responses)
    }

    /// The responses less every stall.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn samples_without_stalls(&self) -> Result<Samples, Failure> {
        distribution(&self.without_stalls)
    }
}

fn distribution(responses: &[u64]) -> Result<Samples, Failure> {
    let mut samples = Samples::new()?;
    responses.iter().for_each(|response| samples.record(*response));
    Ok(samples)
}

/// The hidden subcommand.
pub(crate) fn perform(arguments: &Arguments) -> Result<Status, Failure> {
    if let Some(members) = &arguments.join {
        // 0 is whoever writes.
        fs::write(members, "0").map_err(refused)?;
    }
    let jobs = arguments.jobs.saturating_add(WARM_UP);
    let report = match arguments.setting {
        Setting::Alone => reserved(jobs, WORKING_SET, None)?,
        Setting::Beside => reserved(jobs, WORKING_SET, Some(hog_paged))?,
        Setting::Computing => reserved(jobs, WORKING_SET, Some(compute))?,
        Setting::AloneLarge => reserved(jobs, LARGE_SET, None)?,
        Setting::BesideLarge => reserved(jobs, LARGE_SET, Some(hog_paged))?,
        Setting::Mlockall => plain(jobs, true, true)?,
        Setting::MlockallApart => plain(jobs, true, false)?,
        Setting::Cgroup => plain(jobs, false, true)?,
        Setting::Served => served::task(arguments.socket.as_deref(), jobs)?,
        Setting::Locked => served::locked(jobs)?,
        Setting::ServedHog => return served::hog(arguments.socket.as_deref()).map(|()| Status::Done),
        Setting::Busy => {
            stay_with_sibling()?;
            return spin(&AtomicBool::new(false)).map(|()| Status::Done);
        }
        Setting::Hog => {
            stay_with_sibling()?;
            hog_plain(&AtomicBool::new(false), &AtomicU64::new(0), true);
            return Ok(Status::Done);
        }
    };
    output::print_json(&report)?;
    Ok(Status::Done)
}

/// Room for a number a job, whose memory is there before the first.
pub(super) fn touched(jobs: u32) -> Vec<Duration> {
    let mut room = vec![Duration::MAX; jobs as usize];
    room.clear();
    room
}

/// What a sibling does until it is stopped.
type Sibling = fn(&Pager, &AtomicBool, &AtomicU64) -> Result<(), Failure>;

/// The CPU of the task and that of the sibling: not the same where there are two, or the scheduler is measured.
fn places() -> Result<(usize, usize), Failure> {
    let cpus = sched::allowed_cpus().map_err(refused)?;
    let place = |cpu: Option<&usize>| cpu.copied().ok_or_else(|| refused("there is no CPU to run on"));
    Ok((place(cpus.last())?, place(cpus.first())?))
}

/// The task in a reservation.
fn reserved(jobs: u32, pages: usize, sibling: Option<Sibling>) -> Result<Report, Failure> {
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let own = small(pages) + 64;
    let pager = world::pager(own + small(HOG_FRAMES), small(pages + HOG_PAGES))?;
    let reservation = world::reserve(&pager, own)?;
    let object = world::object(&pager, ObjectKind::Private, small(pages), Regime::Conserve)?;
    let task = pager.add_task(Some(reservation)).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let (stop, faults) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let sibling = scope.spawn(|| {
            stay_with_sibling()?;
            sibling.map_or(Ok(()), |sibling| sibling(&pager, &stop, &faults))
        });
        let report = task.enter().map_err(refused).and_then(|bound| {
            let mut work = Touching {
                memory: Paged { bound: &bound, region },
                pages,
                touches: TOUCHES,
                buffer: [0; PAGE_SIZE],
                stalls: touched(jobs),
                faults: 0,
                failed: None,
            };
            periodic(jobs, &mut work, &faults)
        });
        stop.store(true, Ordering::Relaxed);
        let ended = sibling.join().unwrap_or_else(|_| Err(refused("the sibling panicked")));
        ended.and(report)
    })
}

/// Keeps the calling thread on the sibling's CPU.
pub(super) fn stay_with_sibling() -> Result<(), Failure> {
    Class::BestEffort.apply(&[places()?.1]).map_err(refused)
}

/// The task in plain memory, locked or not.
fn plain(jobs: u32, locked: bool, sibling: bool) -> Result<Report, Failure> {
    let mut work = Touching {
        memory: Plain(vec![Page([1; PAGE_SIZE]); WORKING_SET]),
        pages: WORKING_SET,
        touches: TOUCHES,
        buffer: [0; PAGE_SIZE],
        stalls: touched(jobs),
        faults: 0,
        failed: None,
    };
    if locked {
        memory::lock_all_current().map_err(refused)?;
    }
    let (stop, faults) = (AtomicBool::new(!sibling), AtomicU64::new(0));
    thread::scope(|scope| {
        let sibling = scope.spawn(|| {
            stay_with_sibling()?;
            hog_plain(&stop, &faults, locked);
            Ok(())
        });
        let report = periodic(jobs, &mut work, &faults);
        stop.store(true, Ordering::Relaxed);
        let ended = sibling.join().unwrap_or_else(|_| Err(refused("the sibling panicked")));
        ended.and(report)
    })
}

/// Does the jobs in a thread of its own class.
pub(super) fn periodic<M: Memory>(jobs: u32, work: &mut Touching<M>, faults: &AtomicU64) -> Result<Report, Failure> {
    Class::Fifo { priority: PRIORITY }
        .apply(&[places()?.0])
        .map_err(refused)?;
    let first = clock::now().saturating_add(START);
    let timing = Timing {
        first,
        period: Some(PERIOD),
        deadline: None,
        end: first.saturating_add(PERIOD * jobs),
    };
    let mut record = Record::for_timing(&timing);
    let faults_before = faults.load(Ordering::Relaxed);
    runner::run(&timing, &StopFlag::new(), work, &mut record);
    let seconds = clock::now().saturating_since(first).as_secs_f64();
    let sibling_faults = faults.load(Ordering::Relaxed) - faults_before;
    // The class is for the jobs only: what follows must not keep others from the CPU.
    Class::BestEffort.apply(&[]).map_err(refused)?;
    if let Some(failure) = work.failed.take() {
        return Err(failure);
    }
    let measured = record.jobs().iter().filter(|job| job.number >= u64::from(WARM_UP));
    let nanos = |response: Duration| u64::try_from(response.as_nanos()).unwrap_or(u64::MAX);
    let stalled = |job: &Job| {
        let late = Duration::from_nanos(job.start.saturating_sub(job.release));
        let inside = usize::try_from(job.number).ok().and_then(|at| work.stalls.get(at));
        let inside = inside.copied().unwrap_or_default();
        if late > STALL { inside + late } else { inside }
    };
    let (responses, without_stalls) = measured
        .map(|job| {
            (
                nanos(job.response()),
                nanos(job.response().saturating_sub(stalled(job))),
            )
        })
        .unzip();
    Ok(Report {
        responses,
        without_stalls,
        faults: work.faults,
        sibling_faults,
        seconds,
    })
}

/// Memory of the task.
pub(super) trait Memory {
    /// Copies a page out.
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure>;

    /// Writes to the front of a page.
    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure>;

    /// Between two jobs.
    fn rest(&mut self) {}
}

struct Paged<'a> {
    bound: &'a Bound<'a>,
    region: MappedRegion,
}

impl Memory for Paged<'_> {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        self.bound.read(&self.region, page * PAGE_SIZE, to).map_err(refused)
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        self.bound.write(&self.region, page * PAGE_SIZE, from).map_err(refused)
    }

    fn rest(&mut self) {
        self.bound.job_end();
    }
}

/// Copied by the same instruction as managed memory, and as that from the beginning of a page: only where the memory
/// comes from differs.
struct Plain(Vec<Page>);

#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; PAGE_SIZE]);

impl Memory for Plain {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        bare::copy(to, &self.0[page].0);
        Ok(())
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        bare::copy(&mut self.0[page].0, from);
        Ok(())
    }
}

/// A job: every page is read, and written in part, several times over.
pub(super) struct Touching<M> {
    pub(super) memory: M,
    pub(super) pages: usize,
    /// Pages read, and written in part, in one job.
    pub(super) touches: usize,
    pub(super) buffer: [u8; PAGE_SIZE],
    /// How long each job was stopped.
    pub(super) stalls: Vec<Duration>,
    /// Page faults in the jobs measured.
    pub(super) faults: u64,
    pub(super) failed: Option<Failure>,
}

impl<M: Memory> Touching<M> {
    /// Touches everything, and returns for how long it was stopped.
    fn touch(&mut self) -> Result<Duration, Failure> {
        let (mut looked, mut stalled) = (clock::now(), Duration::ZERO);
        for touch in 0..self.touches {
            let page = touch % self.pages;
            self.memory.read(page, &mut self.buffer)?;
            self.memory.write(page, &self.buffer[..WRITTEN])?;
            if touch % LOOK_EVERY == 0 {
                let now = clock::now();
                let gap = now.saturating_since(looked);
                looked = now;
                if gap > STALL {
                    stalled += gap;
                }
            }
        }
        Ok(stalled)
    }
}

impl<M: Memory> Work for Touching<M> {
    fn job(&mut self, number: u64, _: &Pacer) -> ControlFlow<()> {
        let faults = faults::of_this_thread();
        match self.touch() {
            Ok(stalled) => {
                self.stalls.push(stalled);
                if number >= u64::from(WARM_UP) {
                    self.faults += faults::of_this_thread() - faults;
                }
                ControlFlow::Continue(())
            }
            Err(failure) => {
                self.failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn delays(&self) -> Delays {
        Delays::default()
    }

    fn rest(&mut self, _: &Job, _: &Pacer) {
        self.memory.rest();
    }
}

/// Writes a page after the other of four times as many as there are frames, so that every write faults, takes a dirty
/// page out and brings one in.
fn hog_paged(pager: &Pager, stop: &AtomicBool, faults: &AtomicU64) -> Result<(), Failure> {
    let pages = u32::try_from(HOG_PAGES).unwrap_or(u32::MAX);
    let object = world::object(pager, ObjectKind::Private, pages, Regime::Conserve)?;
    let task = pager.add_task(None).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let bound = task.enter().map_err(refused)?;
    for page in (0..HOG_PAGES).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        bound.write_word(&region, page * WORDS, 1).map_err(refused)?;
        faults.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Keeps a CPU busy.
fn compute(_: &Pager, stop: &AtomicBool, _: &AtomicU64) -> Result<(), Failure> {
    spin(stop)
}

#[allow(clippy::unnecessary_wraps, reason = "it is one sibling of several")]
fn spin(stop: &AtomicBool) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Writes a page after the other of fresh memory, over and over; of memory that is `kept`, where a cgroup makes the
/// kernel take pages away.
fn hog_plain(stop: &AtomicBool, faults: &AtomicU64, fresh: bool) {
    let mut memory = vec![0_u8; HOG_PAGES * PAGE_SIZE];
    loop {
        for page in 0..HOG_PAGES {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            memory[page * PAGE_SIZE] = 1;
            black_box(&mut memory);
            faults.fetch_add(1, Ordering::Relaxed);
        }
        if fresh {
            drop(std::mem::replace(&mut memory, vec![0_u8; HOG_PAGES * PAGE_SIZE]));
        }
    }
}
