//! What runs in a process of its own: the task, its memory, and the sibling.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::{PAGE_SIZE, clock, memory, program, sched, stack};
use freehold_pager::Pager;
use freehold_rt::class::Class;
use freehold_rt::job::Job;
use freehold_rt::record::Record;
use freehold_rt::runner;
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use serde::{Deserialize, Serialize};

use super::job::{Memory, Page, Paged, Plain, Touching};
use super::served;
use crate::bench::rounds::{Samples, refused};
use crate::bench::world::{self, WORDS};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

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
/// Pages that one touches who keeps them.
pub(super) const KEPT_PAGES: usize = 8 * HOG_PAGES;
/// From one release of the task to the next.
pub(super) const PERIOD: Duration = Duration::from_millis(1);
/// A job that does not fault is stopped for so long by the machine only: an interrupt that makes a CPU forget
/// translations takes some microseconds.
pub(super) const STALL: Duration = Duration::from_micros(100);
/// Jobs that are not measured: the first touches are among them.
pub(super) const WARM_UP: u32 = 50;
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
    /// The same without a reservation: the task shares the pool with its sibling
    Unreserved,
    /// A reservation; the sibling computes and touches no memory: what a busy machine does without any paging
    Computing,
    /// Plain memory under mlockall; the sibling is a thread with plain memory
    Mlockall,
    /// The same with the sibling in another process
    MlockallApart,
    /// Plain memory of a cgroup that is short of it; the sibling is a thread with plain memory
    Cgroup,
    /// The sibling only, in memory that it keeps, until it is ended
    KeptHog,
    /// As alone, with a working set of 4 MiB
    AloneLarge,
    /// As beside, with a working set of 4 MiB
    BesideLarge,
    /// The sibling only, until it is ended
    Hog,
    /// A reservation of the memory server at the socket; whoever is beside it is another process
    Served,
    /// The same without a reservation
    ServedUnreserved,
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
            Self::Unreserved => "beside the sibling, without a reservation",
            Self::Computing => "beside one that only computes",
            Self::Mlockall => "mlockall",
            Self::MlockallApart => "mlockall, sibling in another process",
            Self::Cgroup => "memory cgroup with swap",
            Self::AloneLarge => "4 MiB working set, alone",
            Self::BesideLarge => "4 MiB working set, beside the sibling",
            Self::Hog => "sibling",
            Self::KeptHog => "sibling that keeps its memory",
            Self::Served => "served",
            Self::ServedUnreserved => "served, without a reservation",
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
    /// The kernel's events of page faults of its thread, from the first of these jobs to the end of the last; None
    /// without the right to count them.
    pub(super) events: Option<u64>,
    /// Those before: of the first touches.
    pub(super) events_before: Option<u64>,
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

    /// Whether any job ran without a stall.
    pub(super) fn has_figure(&self) -> bool {
        !self.without_stalls.is_empty()
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
        Setting::Alone => paged(jobs, WORKING_SET, true, None)?,
        Setting::Beside => paged(jobs, WORKING_SET, true, Some(hog_paged))?,
        Setting::Unreserved => paged(jobs, WORKING_SET, false, Some(hog_paged))?,
        Setting::Computing => paged(jobs, WORKING_SET, true, Some(compute))?,
        Setting::AloneLarge => paged(jobs, LARGE_SET, true, None)?,
        Setting::BesideLarge => paged(jobs, LARGE_SET, true, Some(hog_paged))?,
        Setting::Mlockall => plain(jobs, true, true)?,
        Setting::MlockallApart => plain(jobs, true, false)?,
        Setting::Cgroup => plain(jobs, false, true)?,
        Setting::Served => served::task(arguments.socket.as_deref(), jobs, true)?,
        Setting::ServedUnreserved => served::task(arguments.socket.as_deref(), jobs, false)?,
        Setting::Locked => served::locked(jobs)?,
        Setting::ServedHog => return served::hog(arguments.socket.as_deref()).map(|()| Status::Done),
        Setting::Busy => {
            stay_with_sibling()?;
            return spin(&AtomicBool::new(false)).map(|()| Status::Done);
        }
        Setting::Hog => {
            stay_with_sibling()?;
            hog_plain(&AtomicBool::new(false), &AtomicU64::new(0), HOG_PAGES, true);
            return Ok(Status::Done);
        }
        Setting::KeptHog => {
            stay_with_sibling()?;
            hog_plain(&AtomicBool::new(false), &AtomicU64::new(0), KEPT_PAGES, false);
            return Ok(Status::Done);
        }
    };
    output::print_json(&report)?;
    Ok(Status::Done)
}

/// What a sibling does until it is stopped.
type Sibling = fn(&Pager, &AtomicBool, &AtomicU64) -> Result<(), Failure>;

/// The CPU of the task and that of the sibling: not the same where there are two, or the scheduler is measured.
fn places() -> Result<(usize, usize), Failure> {
    let cpus = sched::allowed_cpus().map_err(refused)?;
    let place = |cpu: Option<&usize>| cpu.copied().ok_or_else(|| refused("there is no CPU to run on"));
    Ok((place(cpus.last())?, place(cpus.first())?))
}

/// The task in managed memory, in a reservation or without one.
fn paged(jobs: u32, pages: usize, reserved: bool, sibling: Option<Sibling>) -> Result<Report, Failure> {
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let own = small(pages) + 64;
    let pager = world::pager(own + small(HOG_FRAMES), small(pages + HOG_PAGES))?;
    let reservation = reserved.then(|| world::reserve(&pager, own)).transpose()?;
    let object = world::object(&pager, ObjectKind::Private, small(pages), Regime::Conserve)?;
    let task = pager.add_task(reservation).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let (stop, faults) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let sibling = scope.spawn(|| {
            stay_with_sibling()?;
            sibling.map_or(Ok(()), |sibling| sibling(&pager, &stop, &faults))
        });
        let report = task.enter().map_err(refused).and_then(|bound| {
            let mut work = Touching::new(Paged { bound: &bound, region }, pages, TOUCHES, jobs);
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
    let mut work = Touching::new(
        Plain(vec![Page([1; PAGE_SIZE]); WORKING_SET]),
        WORKING_SET,
        TOUCHES,
        jobs,
    );
    if locked {
        memory::lock_all_current().map_err(refused)?;
    }
    let (stop, faults) = (AtomicBool::new(!sibling), AtomicU64::new(0));
    thread::scope(|scope| {
        let sibling = scope.spawn(|| {
            stay_with_sibling()?;
            hog_plain(&stop, &faults, HOG_PAGES, locked);
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
    // What comes between two jobs and after the last is code too, which runs for the first time there.
    stack::bring_in_current().map_err(refused)?;
    let _ = program::lock().map_err(refused)?;
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
    work.counted.arm();
    runner::run(&timing, &StopFlag::new(), work, &mut record);
    let events = work.counted.events();
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
        faults: work.counted.faults,
        events,
        events_before: work.counted.events_before(),
        sibling_faults,
        seconds,
    })
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
fn hog_plain(stop: &AtomicBool, faults: &AtomicU64, pages: usize, fresh: bool) {
    let mut memory = vec![0_u8; pages * PAGE_SIZE];
    loop {
        for page in 0..pages {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            memory[page * PAGE_SIZE] = 1;
            black_box(&mut memory);
            faults.fetch_add(1, Ordering::Relaxed);
        }
        if fresh {
            drop(std::mem::replace(&mut memory, vec![0_u8; pages * PAGE_SIZE]));
        }
    }
}
