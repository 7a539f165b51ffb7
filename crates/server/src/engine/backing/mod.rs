//! Frames that are there: the engine's side of the backing.

pub(super) mod page_sources;

use crate::backing::{BATCH, LockedBacking, Target};
use crate::engine::Engine;
use crate::engine::backing::page_sources::PageSources;
use crate::engine::private_memory::lending::Lending;
use crate::engine::teardown::holes::Holes;
use crate::engine::transfers::eviction_batch::EvictionBatch;
use crate::error::EngineError;
use crate::settings::Settings;
use freehold_linux::{Errno, clock};
use std::sync::Arc;
use std::time::Duration;

/// The backing of a server.
fn make(settings: &Settings) -> Result<Arc<LockedBacking>, EngineError> {
    let what = "the backing's event descriptor could not be made";
    let backing = LockedBacking::new(settings.frames.get() as usize);
    backing.map(Arc::new).map_err(EngineError::system(what))
}

/// How long they stay where they are: programs follow each other, and each one's reservation would be filled from
/// nothing while the program starts.
const LINGERING: Duration = Duration::from_secs(1);

/// Frames of reservations that have ended, for those that come next, and frames in whose place pages have come, for
/// when those go.
#[derive(Clone, Copy, Debug, Default)]
struct Spare {
    frames: usize,
    /// When they go, in nanoseconds of the engine's time.
    until: u64,
}

/// Frames that are there for pages to come, and what has pages give their frames back.
#[derive(Debug)]
pub(super) struct Backing {
    pub(super) locked: Arc<LockedBacking>,
    spare: Spare,
    pub(super) holes: Holes,
    pub(super) eviction_batch: EvictionBatch,
    pub(super) lending: Lending,
    pub(super) sources: PageSources,
}

impl Backing {
    /// Nothing yet.
    ///
    /// # Errors
    /// [`EngineError::System`], [`EngineError::Limit`].
    pub(super) fn new(settings: &Settings) -> Result<Self, EngineError> {
        Ok(Self {
            locked: make(settings)?,
            spare: Spare::default(),
            holes: Holes::default(),
            eviction_batch: EvictionBatch::default(),
            lending: Lending::default(),
            sources: PageSources::new(settings.priority)?,
        })
    }
}

impl Engine {
    /// What the backing is to hold: frames that are to be there, less those that are there elsewhere: in free slots of
    /// transfer memories, in the memory of objects that are gone, and where holes are being made.
    pub(crate) fn backing_due(&self) -> usize {
        let (due, warm) = self.frames_due();
        due.saturating_sub(warm + self.teardown.deferred_free.frames() + self.backing.holes.frames())
    }

    /// What the backing is to hold, and what it may: that and what is spare, as far as nobody else has those frames.
    pub(super) fn due_with_spare(&self, due: usize) -> Target {
        let unused = self.core.pool_free().get() as usize;
        Target {
            frames: due,
            kept: due + self.backing.spare.frames.min(unused),
            lingers: self.backing.spare.frames > 0,
        }
    }

    /// A reservation has ended: what the backing has beyond what is due now is spare for a while.
    pub(super) fn begin_spare(&mut self) {
        self.keep_spare(self.step.now.get(), self.backing_due());
        // It may sleep, and is to see when they go.
        self.backing.locked.wake();
    }

    fn keep_spare(&mut self, now: u64, due: usize) {
        let lingering = u64::try_from(LINGERING.as_nanos()).unwrap_or(u64::MAX);
        self.backing.spare = Spare {
            frames: self.backing.locked.held().saturating_sub(due),
            until: now.saturating_add(lingering),
        };
    }

    /// A reservation has been admitted: what was spare is due again, and the rest is to be taken.
    pub(super) fn use_spare(&mut self) {
        let left = self.backing.locked.held().saturating_sub(self.backing_due());
        self.backing.spare.frames = self.backing.spare.frames.min(left);
        self.backing.locked.wake();
    }

    /// As [`backing_due`](Self::backing_due); where free slots have more frames than are due, takes theirs, a batch at
    /// a time. While pages `flow`, slots may keep as many: the next page that comes needs one.
    pub(crate) fn settle_due(&mut self, flow: bool) -> Target {
        let now = clock::now().as_nanos();
        let (due, warm) = self.frames_due();
        let deferred = self.teardown.deferred_free.frames() + self.backing.holes.frames();
        if flow {
            self.keep_spare(now, due.saturating_sub(warm + deferred));
        } else if now >= self.backing.spare.until {
            self.backing.spare = Spare::default();
        }
        let mut excess = warm.saturating_sub(due).min(BATCH);
        if excess == BATCH || !flow {
            for (_, client) in self.clients.iter_mut() {
                // What cannot be given back stays, and is seen in what the kernel counts.
                excess -= client.slots.cool(excess).unwrap_or(0).min(excess);
            }
            self.cool_apart(excess);
        }
        self.due_with_spare(due.saturating_sub(warm + deferred))
    }

    /// Frames that the core counts as free, conserved or being filled, or has in pages of zeros that are in no frame
    /// yet; and frames of free slots.
    fn frames_due(&self) -> (usize, usize) {
        let mut due = 0_usize;
        for row in self.reservations.iter().flatten() {
            if let Some(lists) = self.core.reservation(row.id) {
                due += lists.free.get() as usize + lists.conserved.get() as usize;
            }
        }
        let mut warm = 0;
        for (_, client) in self.clients.iter() {
            due += usize::try_from(client.memory.blank).unwrap_or(0);
            warm += client.slots.warm();
        }
        (due + self.transfers.fills(), warm)
    }

    pub(crate) fn locked_backing(&self) -> Arc<LockedBacking> {
        Arc::clone(&self.backing.locked)
    }

    /// At the end of a step: tells the backing how many pages have come or gone.
    pub(super) fn tell_backing(&mut self) {
        let moved = std::mem::take(&mut self.step.moved);
        if !self.step.in_dispatch {
            // A reservation may have come or gone.
            let due = self.due_with_spare(self.backing_due());
            self.backing.locked.turn_to(due);
        } else if moved > 0 && self.backing.locked.note(moved) {
            // What pages have taken is spare for a while: they come and go, and a frame that is released here and taken
            // again costs as much as the page itself.
            let due = self.backing_due();
            self.keep_spare(self.step.now.get(), due);
            self.backing.locked.follow(self.due_with_spare(due));
        }
    }

    /// Tries what may need a frame, and once more with the headroom where the machine has none.
    pub(super) fn with_headroom<T>(&self, attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match attempt() {
            Err(Errno::NOMEM) if self.give_way() => attempt(),
            result => result,
        }
    }

    /// The machine has no frame: gives up some that nobody was promised; whether there were any.
    pub(super) fn give_way(&self) -> bool {
        self.teardown.deferred_free.give_way() || self.backing.locked.give_headroom(self.backing_due())
    }
}
