//! Threads that do jobs: a call each period.

use super::processes::Processes;
use super::{RunError, Settings};
use crate::composition::{Composition, Thread};
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::sched::{self, Policy};
use freehold_tmem::channel::{ARGUMENTS, Caller};
use freehold_tmem::job;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What threads did since the policy's last run.
#[derive(Debug, Default)]
pub struct Window {
    /// How late each job of each thread was, in nanoseconds.
    pub tardiness: Vec<Vec<i64>>,
    /// How late a thread's job is that has not ended and is past its deadline.
    pub unfinished: Vec<Option<i64>>,
}

/// What a thread did in all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) jobs: u64,
    pub(super) misses: u64,
    pub(super) failed: u64,
    pub(super) tardiness: Duration,
    pub(super) most: Duration,
}

#[derive(Debug, Default)]
struct Record {
    all: Done,
    window: Vec<i64>,
    deadline: Option<MonotonicTime>,
}

/// The threads.
#[derive(Debug)]
pub(super) struct Drivers {
    stop: Arc<AtomicBool>,
    records: Vec<Arc<Mutex<Record>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Drivers {
    pub(super) fn start(
        composition: &Composition,
        settings: &Settings,
        processes: &Processes,
    ) -> Result<Self, RunError> {
        let mut drivers = Self {
            stop: Arc::default(),
            records: Vec::new(),
            threads: Vec::new(),
        };
        for (job, thread) in (1..).zip(&composition.threads) {
            // Checked when the file was read.
            let to = composition.place(&thread.component).unwrap_or(0);
            let caller = processes.caller(composition, to)?;
            let cpu = composition.components[to].cpu;
            let class = thread.class().filter(|_| settings.inheritance);
            let (stop, record) = (Arc::clone(&drivers.stop), Arc::<Mutex<Record>>::default());
            drivers.records.push(Arc::clone(&record));
            let thread = thread.clone();
            let name = thread.name.clone();
            let spawned = std::thread::Builder::new().spawn(move || {
                job::set(job);
                stay_on(&thread, cpu);
                work(&thread, class, &caller, &stop, &record);
            });
            drivers
                .threads
                .push(spawned.map_err(|error| RunError::Start(name, error))?);
        }
        Ok(drivers)
    }

    /// What was done since the last call.
    pub(super) fn take_window(&self) -> Window {
        let mut window = Window::default();
        let now = clock::now();
        for record in &self.records {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            window.tardiness.push(std::mem::take(&mut record.window));
            let lateness = record.deadline.map(|deadline| now.saturating_since(deadline));
            let late = lateness.filter(|lateness| !lateness.is_zero());
            window.unfinished.push(late.map(signed));
        }
        window
    }

    /// Ends the threads, with their jobs.
    pub(super) fn stop(self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let all = self
            .records
            .iter()
            .map(|record| record.lock().unwrap_or_else(PoisonError::into_inner).all);
        all.collect()
    }
}

/// The kernel has threads with deadlines run on every CPU.
fn stay_on(thread: &Thread, cpu: Option<usize>) {
    if let Some(cpu) = cpu.filter(|_| thread.budget.is_none())
        && let Err(error) = sched::pin(ThreadId::current(), cpu)
    {
        eprintln!("freehold: thread `{}` runs on any CPU: {error}", thread.name);
    }
}

fn work(thread: &Thread, class: Option<Policy>, caller: &Caller, stop: &AtomicBool, record: &Mutex<Record>) {
    if let Some(class) = class
        && let Err(error) = sched::set_policy(ThreadId::current(), class)
    {
        eprintln!("freehold: thread `{}` runs as an ordinary one: {error}", thread.name);
    }
    let mut arguments = [0; ARGUMENTS];
    arguments[..thread.arguments.len()].copy_from_slice(&thread.arguments);
    let mut release = clock::now();
    while !stop.load(Ordering::Relaxed) {
        if !sleep_until(release, stop) {
            break;
        }
        record.lock().unwrap_or_else(PoisonError::into_inner).deadline = Some(deadline_of(thread, release));
        let done = caller.call(thread.function, arguments).is_ok_and(|result| result >= 0);
        record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note(thread, release, !done);
        release = release.saturating_add(thread.period.0);
    }
}

impl Record {
    fn note(&mut self, thread: &Thread, release: MonotonicTime, failed: bool) {
        self.deadline = None;
        let tardiness = clock::now().saturating_since(deadline_of(thread, release));
        self.window.push(signed(tardiness));
        let done = &mut self.all;
        done.jobs += 1;
        done.misses += u64::from(!tardiness.is_zero());
        done.failed += u64::from(failed);
        done.tardiness += tardiness;
        done.most = done.most.max(tardiness);
    }
}

/// Sleeps until a release; false where the run ends before.
fn sleep_until(release: MonotonicTime, stop: &AtomicBool) -> bool {
    /// How long the end of a run may wait for a thread that sleeps.
    const SLICE: Duration = Duration::from_millis(50);
    while clock::now() < release {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        clock::sleep_until(release.min(clock::now().saturating_add(SLICE)));
    }
    true
}

fn deadline_of(thread: &Thread, release: MonotonicTime) -> MonotonicTime {
    release.saturating_add(thread.deadline.unwrap_or(thread.period).0)
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
