//! One slice: a space, a load, two seconds.

use std::process::Command;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::memory::{self, LockError};
use freehold_linux::sched_events::{Record, SchedEvents};
use freehold_linux::{ThreadId, stack};
use freehold_rt::class::{Class, ClassError};

use crate::load::{Load, Running, StartError};
use crate::probe_thread::{self, Plan, Wake};
use crate::reference::Lateness;
use crate::settings::{Settings, Space};
use crate::timer::{Timers, Trigger};

/// What the threads need to get ready.
const LEAD: Duration = Duration::from_millis(50);

/// What a slice has seen.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) wakes: Vec<Wake>,
    pub(crate) reference: Lateness,
    /// What the kernel did with the thread, in the order of time; empty without events.
    pub(crate) records: Vec<Record>,
    /// What the CPU's timer did, in the order of time; empty without events.
    pub(crate) triggers: Vec<Trigger>,
}

/// A slice could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// The load does not run.
    #[error(transparent)]
    Load(#[from] StartError),
    /// The thread does not get its priority or its CPU.
    #[error("the measured thread: {0}")]
    Class(#[from] ClassError),
    /// Its memory cannot be locked.
    #[error("the memory of the measured thread cannot be locked: {0}")]
    Lock(#[from] LockError),
    /// The machine has no room for a thread more.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
    /// A thread panicked, which is a fault of this program.
    #[error("a measuring thread ended early: please report it")]
    Ended,
}

/// What the threads of a slice have in common.
#[derive(Debug)]
struct Frame {
    plan: Plan,
    priority: u32,
    cpu: usize,
    events: bool,
}

/// Starts a load where `space` says; `process` is what starts one in a process of its own.
pub(crate) fn start(load: Load, space: Space, cpu: usize, process: Command) -> Result<Option<Running>, StartError> {
    match (load, space) {
        (Load::None, _) => Ok(None),
        (_, Space::Shared) => Running::here(load, cpu).map(Some),
        (_, Space::Separate) => Running::there(process).map(Some),
    }
}

/// Measures one slice beside what has been started; `turn` is how many intervals came before.
pub(crate) fn measure(settings: &Settings, span: Duration, turn: u64, events: bool) -> Result<Measured, SliceError> {
    let first = clock::now().saturating_add(LEAD);
    let frame = Frame {
        plan: Plan::new(first, span, settings.interval, turn),
        priority: settings.priority,
        cpu: settings.cpu,
        events,
    };
    std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let probe = named("probe").spawn_scoped(scope, || probe(&frame))?;
        let reference = named("reference").spawn_scoped(scope, || reference(&frame))?;
        let mut measured = probe.join().map_err(|_| SliceError::Ended)??;
        measured.reference = reference.join().map_err(|_| SliceError::Ended)??;
        Ok(measured)
    })
}

/// The measured thread. What it needs is there before its first wake-up.
fn probe(frame: &Frame) -> Result<Measured, SliceError> {
    let mut measured = Measured {
        wakes: probe_thread::room(&frame.plan),
        reference: Lateness::room(&frame.plan),
        records: Vec::new(),
        triggers: Vec::new(),
    };
    // Without the right there are no records, which the report says.
    let wanted = || frame.events.then_some(());
    let mut switches = wanted().and_then(|()| SchedEvents::of(ThreadId::current()).ok());
    let mut timers = wanted().and_then(|()| Timers::of(frame.cpu).ok());
    ready(frame.priority, frame.cpu)?;
    probe_thread::follow(&frame.plan, &mut measured.wakes);
    if let Some(switches) = &mut switches {
        switches.take(&mut measured.records, true);
    }
    if let Some(timers) = &mut timers {
        timers.take(&mut measured.triggers);
    }
    Ok(measured)
}

fn reference(frame: &Frame) -> Result<Lateness, SliceError> {
    let mut lateness = Lateness::room(&frame.plan);
    ready(frame.priority.saturating_sub(1).max(1), frame.cpu)?;
    lateness.follow(&frame.plan);
    Ok(lateness)
}

/// Locks what the calling thread uses and gives it its priority and its CPU.
fn ready(priority: u32, cpu: usize) -> Result<(), SliceError> {
    memory::lock_all_current()?;
    // All of its stack, which the kernel has made as large as a thread's is.
    stack::lock_current().map_err(LockError::System)?;
    Class::Fifo { priority }.apply(&[cpu])?;
    // The first sleep brings in what the clock's code touches.
    clock::sleep_until(MonotonicTime::from_nanos(clock::now().as_nanos() + 1));
    Ok(())
}
