//! Threads that do jobs: a call each period.

use super::processes::Processes;
use super::{RunError, Settings};
use crate::composition::{Composition, Thread};
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::sched::{self, Policy};
use freehold_tmem::channel::{ARGUMENTS, Caller};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What threads did since the policy's last run.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Jobs of each.
    pub(super) jobs: Vec<u64>,
    /// Mean tardiness of each, in nanoseconds.
    pub(super) tardiness: Vec<i64>,
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
    window: Done,
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
        for thread in &composition.threads {
            // Checked when the file was read.
            let to = composition.place(&thread.component).unwrap_or(0);
            let caller = processes.caller(composition, to)?;
            let priority = thread.priority.filter(|_| settings.inheritance);
            let (stop, record) = (Arc::clone(&drivers.stop), Arc::<Mutex<Record>>::default());
            drivers.records.push(Arc::clone(&record));
            let thread = thread.clone();
            let name = thread.name.clone();
            let spawned = std::thread::Builder::new().spawn(move || work(&thread, priority, &caller, &stop, &record));
            drivers
                .threads
                .push(spawned.map_err(|error| RunError::Start(name, error))?);
        }
        Ok(drivers)
    }

    /// What was done since the last call.
    pub(super) fn take_window(&self) -> Window {
        let mut window = Window::default();
        for record in &self.records {
            let done = std::mem::take(&mut record.lock().unwrap_or_else(PoisonError::into_inner).window);
            window.jobs.push(done.jobs);
            let mean = done.tardiness.as_nanos() / u128::from(done.jobs.max(1));
            window.tardiness.push(i64::try_from(mean).unwrap_or(i64::MAX));
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

fn work(thread: &Thread, priority: Option<u32>, caller: &Caller, stop: &AtomicBool, record: &Mutex<Record>) {
    if let Some(priority) = priority
        && let Err(error) = sched::set_policy(ThreadId::current(), Policy::Fifo { priority })
    {
        eprintln!("freehold: thread `{}` runs as an ordinary one: {error}", thread.name);
    }
    let mut arguments = [0; ARGUMENTS];
    arguments[..thread.arguments.len()].copy_from_slice(&thread.arguments);
    let mut release = clock::now();
    while !stop.load(Ordering::Relaxed) {
        clock::sleep_until(release);
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
        let deadline = release.saturating_add(thread.deadline.unwrap_or(thread.period).0);
        let tardiness = clock::now().saturating_since(deadline);
        for done in [&mut self.all, &mut self.window] {
            done.jobs += 1;
            done.misses += u64::from(!tardiness.is_zero());
            done.failed += u64::from(failed);
            done.tardiness += tardiness;
            done.most = done.most.max(tardiness);
        }
    }
}
