//! Periodic tasks: a thread's loop of release, job, release.

use std::sync::Arc;
use std::time::Duration;

use freehold_client::Task;
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{self, Policy};
use freehold_rt::class::Class;
use freehold_rt::job::{Delays, Job};
use freehold_rt::pacer::Pacer;
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;

use crate::error::{Problem, freehold_status, guard};
use crate::handle::{self, object};
use crate::sized::{self, Versioned};
use crate::task::freehold_task;

/// A thread that works in periods.
#[derive(Debug)]
pub struct freehold_periodic {
    _private: [u8; 0],
}

object!(freehold_periodic, Periodic, "periodic task", b"fhperiod");

/// For `freehold_periodic_options.scheduling`: as the thread is.
pub const FREEHOLD_AS_IS: u32 = 0;
/// For `freehold_periodic_options.scheduling`: SCHED_FIFO at `priority`.
pub const FREEHOLD_FIFO: u32 = 1;
/// For `freehold_periodic_options.scheduling`: SCHED_DEADLINE with `budget_ns` in each period.
pub const FREEHOLD_DEADLINE: u32 = 2;

/// How a thread works in periods.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct freehold_periodic_options {
    /// sizeof(freehold_periodic_options).
    pub size: usize,
    /// Nanoseconds between releases.
    pub period_ns: u64,
    /// By when, after its release, a job is to be done; 0 for the period.
    pub deadline_ns: u64,
    /// CPU time of a job, for FREEHOLD_DEADLINE.
    pub budget_ns: u64,
    /// After how long there are no more releases; 0 for never.
    pub duration_ns: u64,
    /// The CPUs to stay on, a bit for each; 0 for those of the thread. Not with FREEHOLD_DEADLINE.
    pub cpus: u64,
    /// One of FREEHOLD_AS_IS, FREEHOLD_FIFO, FREEHOLD_DEADLINE.
    pub scheduling: u32,
    /// From 1 to 99, for FREEHOLD_FIFO.
    pub priority: u32,
}

// SAFETY: `repr(C)`, begins with its size, integers only.
unsafe impl Versioned for freehold_periodic_options {
    const LEAST: usize = 56;
    const NAME: &'static str = "freehold_periodic_options";
}

/// What became of a periodic task's jobs so far.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct freehold_tally {
    /// sizeof(freehold_tally).
    pub size: usize,
    /// Jobs that are over.
    pub jobs: u64,
    /// Of these, those that ended after their deadline.
    pub misses: u64,
    /// The longest time from a release to the job's end.
    pub worst_response_ns: u64,
    /// From the last job's release to its end.
    pub last_response_ns: u64,
    /// The last job's CPU time.
    pub last_cpu_ns: u64,
    /// 1 if the last job ended after its deadline.
    pub last_late: u64,
}

// SAFETY: `repr(C)`, begins with its size, integers only.
unsafe impl Versioned for freehold_tally {
    const LEAST: usize = 56;
    const NAME: &'static str = "freehold_tally";
}

/// One thread's periods.
#[derive(Debug)]
pub(crate) struct Periodic {
    thread: ThreadId,
    task: Option<Arc<Task>>,
    before: Option<Policy>,
    stop: StopFlag,
    state: PiMutex<State>,
}

#[derive(Debug)]
struct State {
    pacer: Pacer,
    tally: freehold_tally,
}

impl Periodic {
    /// Ends the job under way, if there is one, and writes it down.
    fn end_job(&self, state: &mut State) {
        let Some(job) = state.pacer.end(true, &Delays::default()) else {
            return;
        };
        state.tally.add(&job);
        if let Some(task) = &self.task {
            task.job_end(job.response(), job.late);
        }
    }
}

impl freehold_tally {
    fn add(&mut self, job: &Job) {
        self.jobs += 1;
        self.misses += u64::from(job.late);
        self.last_response_ns = nanos(job.response());
        self.worst_response_ns = self.worst_response_ns.max(self.last_response_ns);
        self.last_cpu_ns = nanos(job.cpu);
        self.last_late = u64::from(job.late);
    }
}

/// Makes the calling thread work in periods: gives it its scheduling and CPUs. `task`, which may be null, is told of
/// the ends of jobs. The first release is at once, with FREEHOLD_DEADLINE a period later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_periodic_begin(
    task: *const freehold_task,
    options: *const freehold_periodic_options,
    periodic: *mut *mut freehold_periodic,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let (out, task, options) = unsafe {
            let out = handle::place(periodic)?;
            (out, handle::borrow_if_any(task)?.cloned(), sized::read(options)?)
        };
        handle::give(begin(task, &options)?, out);
        Ok(())
    })
}

fn begin(task: Option<Arc<Task>>, options: &freehold_periodic_options) -> Result<Periodic, Problem> {
    if options.period_ns == 0 {
        return Err(Problem::invalid("the period is 0"));
    }
    let span = Duration::from_nanos;
    let period = span(options.period_ns);
    let deadline = if options.deadline_ns == 0 {
        period
    } else {
        span(options.deadline_ns)
    };
    let cpus: Vec<usize> = (0..64).filter(|cpu| options.cpus >> cpu & 1 == 1).collect();
    ThreadId::follow_forks().map_err(Problem::system)?;
    let thread = ThreadId::current();
    let before = sched::policy(thread).map_err(Problem::system)?;
    let class = match options.scheduling {
        FREEHOLD_AS_IS => None,
        FREEHOLD_FIFO => Some(Class::Fifo {
            priority: options.priority,
        }),
        FREEHOLD_DEADLINE => Some(Class::Deadline {
            runtime: span(options.budget_ns),
            deadline,
            period,
        }),
        other => return Err(Problem::invalid(format!("there is no scheduling {other}"))),
    };
    if class.is_none() && !cpus.is_empty() {
        return Err(Problem::invalid("cpus go with FREEHOLD_FIFO"));
    }
    if let Some(class) = class {
        class.apply(&cpus).map_err(Problem::system)?;
    }
    let now = clock::now();
    let late_start = options.scheduling == FREEHOLD_DEADLINE;
    let first = if late_start { now.saturating_add(period) } else { now };
    let end = match options.duration_ns {
        0 => MonotonicTime::from_nanos(u64::MAX),
        duration => first.saturating_add(span(duration)),
    };
    let timing = Timing {
        first,
        period: Some(period),
        deadline: Some(deadline),
        end,
    };
    Ok(Periodic {
        thread,
        task,
        before: class.map(|_| before),
        stop: StopFlag::new(),
        state: PiMutex::new(State {
            pacer: Pacer::new(timing),
            tally: freehold_tally::default(),
        }),
    })
}

/// Ends the job under way, if there is one, sleeps until the next release and begins the next job. Releases never skip:
/// a late job delays the next. FREEHOLD_OVER when there are no more. In the thread that called
/// `freehold_periodic_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_periodic_wait(periodic: *const freehold_periodic) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let periodic = unsafe { handle::borrow(periodic) }?;
        if ThreadId::current() != periodic.thread {
            return Err(Problem::invalid("a periodic task is the thread that began it"));
        }
        let mut state = periodic.state.lock();
        periodic.end_job(&mut state);
        // Not locked while asleep: others may look at the tally.
        drop(state);
        periodic.sleep()
    })
}

impl Periodic {
    fn sleep(&self) -> Result<(), Problem> {
        let release = {
            let state = self.state.lock();
            state.pacer.upcoming()
        };
        let release = release.ok_or_else(Problem::over)?;
        self.stop.sleep_until(release);
        let mut state = self.state.lock();
        let begun = state.pacer.next(&self.stop, Delays::default);
        begun.map(|_| ()).ok_or_else(Problem::over)
    }
}

/// What became of the jobs so far; `tally->size` is set by the caller. In any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_tally_of(
    periodic: *const freehold_periodic,
    tally: *mut freehold_tally,
) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let periodic = unsafe { handle::borrow(periodic) }?;
        let found = periodic.state.lock().tally;
        // SAFETY: as above.
        unsafe { sized::write(tally, found) }
    })
}

/// Ends the job under way and the periods; the thread gets back the scheduling it had, but not its CPUs. In the thread
/// that began it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freehold_periodic_end(periodic: *mut freehold_periodic) -> freehold_status {
    guard(|| {
        // SAFETY: the caller's promise (see the crate).
        let Some(periodic) = unsafe { handle::take(periodic) }? else {
            return Ok(());
        };
        if let Some(before) = periodic.before
            && ThreadId::current() == periodic.thread
        {
            sched::set_policy(periodic.thread, before).map_err(Problem::system)?;
        }
        let mut state = periodic.state.lock();
        periodic.end_job(&mut state);
        Ok(())
    })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
