//! One thread's work space: what it drained from the core and has not carried out yet. All of it is allocated when the
//! task is made.

use crate::object::Whose;
use crate::recorder::Recorder;
use crate::request::Transfer;
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Duration, Instant};
use freehold_driver::{EventCapacity, HolderRow};
use std::collections::VecDeque;

/// Most transfers ended together.
pub(crate) const DUE_BATCH: usize = 64;

/// Pages to unmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmapping {
    pub(crate) object: usize,
    pub(crate) page: usize,
    pub(crate) whose: Whose,
}

/// A request of the core's, to be carried out or begun.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Give the page a frame of zeros.
    FillZero(PageRef),
    /// Read the page back, for this task.
    FillStored(PageRef, HolderRow, Option<u16>),
    /// Write the page to the store, then drop it.
    WriteBack(PageRef, HolderRow),
    /// Drop the page.
    Discard(PageRef),
    /// Not possible here.
    Refuse(PageRef, Request),
}

/// A request that has ended; the core is to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) page: PageRef,
    pub(crate) kind: Request,
    pub(crate) failed: bool,
}

/// Buffers of one thread.
#[derive(Debug)]
pub(crate) struct Context {
    /// The task whose thread this is; none for commands.
    pub(crate) me: Option<u16>,
    pub(crate) unmappings: Vec<Unmapping>,
    /// Those that only ask whether a page is still referenced.
    pub(crate) demotions: Vec<Unmapping>,
    pub(crate) work: Vec<Work>,
    /// Tasks whose answers were posted and that may be asleep.
    pub(crate) wakes: Vec<u16>,
    pub(crate) ended: VecDeque<Ended>,
    pub(crate) due: Vec<Transfer>,
    /// Pages to drop, sorted into runs.
    pub(crate) drops: Vec<(usize, usize)>,
    /// Time spent waiting for the core's lock, until somebody takes it for his account.
    pub(crate) lock_wait: u64,
    /// When this thread last looked at the clock, in a fault or in the core: so recent that what it begins next begins
    /// then. A look costs as much as a step of the core.
    pub(crate) looked: Instant,
    /// The budget of a pinned page pool that was decided last, whole.
    pub(crate) budget: Option<Duration>,
    /// Writes down what happens, if that was asked for.
    pub(crate) recorder: Option<Box<Recorder>>,
}

impl Context {
    /// Buffers for at most `effects` effects at a time, in a pager of `tasks` tasks.
    pub(crate) fn new(me: Option<u16>, effects: usize, tasks: usize, events: Option<&EventCapacity>) -> Self {
        Self {
            me,
            unmappings: Vec::with_capacity(effects),
            demotions: Vec::with_capacity(effects),
            work: Vec::with_capacity(effects),
            wakes: Vec::with_capacity(effects.max(tasks)),
            ended: VecDeque::with_capacity(2 * effects),
            due: Vec::with_capacity(DUE_BATCH),
            drops: Vec::with_capacity(effects.max(DUE_BATCH)),
            lock_wait: 0,
            looked: Instant::ZERO,
            budget: None,
            recorder: events.map(|capacity| Box::new(Recorder::new(me, capacity))),
        }
    }

    /// Whether one more effect of any kind fits.
    pub(crate) fn has_room(&self) -> bool {
        self.unmappings.len() < self.unmappings.capacity()
            && self.demotions.len() < self.demotions.capacity()
            && self.work.len() < self.work.capacity()
            && self.wakes.len() < self.wakes.capacity()
    }

    /// The time waited for the core's lock since this was last asked.
    pub(crate) fn take_lock_wait(&mut self) -> u64 {
        std::mem::take(&mut self.lock_wait)
    }
}
