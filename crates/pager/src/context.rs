//! One thread's work space: what it drained from the core and has not carried out yet. All of it is allocated when the
//! task is made.

use crate::recorder::Recorder;
use crate::transfer_table::Transfer;
use freehold_core::units::Instant;
use freehold_driver::{Batch, Completions, EventCapacity};

/// Most transfers ended together.
pub(crate) const DUE_BATCH: usize = 64;

/// Buffers of one thread.
#[derive(Debug)]
pub(crate) struct Context {
    /// The task whose thread this is; none for commands.
    pub(crate) me: Option<u16>,
    /// What was drained from the core. Taken out while it is carried out.
    pub(crate) batch: Batch,
    /// What has ended and the core was not told of.
    pub(crate) completions: Completions,
    /// Tasks whose answers were posted and that may be asleep.
    pub(crate) wakes: Vec<u16>,
    pub(crate) due: Vec<Transfer>,
    /// Time spent waiting for the core's lock, until somebody takes it for his account.
    pub(crate) lock_wait: u64,
    /// When this thread last looked at the clock, in a fault or in the core: so recent that what it begins next begins
    /// then. A look costs as much as a step of the core.
    pub(crate) looked: Instant,
    /// Writes down what happens, if that was asked for.
    pub(crate) recorder: Option<Box<Recorder>>,
}

impl Context {
    /// Buffers for at most `effects` effects at a time, in a pager of `tasks` tasks.
    pub(crate) fn new(me: Option<u16>, effects: usize, tasks: usize, events: Option<&EventCapacity>) -> Self {
        Self {
            me,
            batch: Batch::bounded(effects, DUE_BATCH),
            completions: Completions::bounded(2 * effects),
            wakes: Vec::with_capacity(effects.max(tasks)),
            due: Vec::with_capacity(DUE_BATCH),
            lock_wait: 0,
            looked: Instant::ZERO,
            recorder: events.map(|capacity| Box::new(Recorder::new(me, capacity))),
        }
    }

    /// The time waited for the core's lock since this was last asked.
    pub(crate) fn take_lock_wait(&mut self) -> u64 {
        std::mem::take(&mut self.lock_wait)
    }
}
