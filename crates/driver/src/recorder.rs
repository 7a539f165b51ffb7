//! The recorder of a run's events, as far as there is room.
//!
//! Its buffers are allocated and touched when the recorder is made, so recording takes no lock and allocates nothing.
//! A full buffer keeps the first events and counts the others.

use crate::events::{
    EvictionEvent, Evictions, FaultEnd, FaultEvent, LockHoldEvent, TransferEvent, WaitEvent, object_slot,
};
use freehold_core::effect::Effect;
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Duration, Instant, PageIndex};
use std::mem::MaybeUninit;

/// Events that one recorder can keep. Each takes some 50 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCapacity {
    /// Faults.
    pub faults: usize,
    /// Waits for the store.
    pub waits: usize,
    /// Evictions.
    pub evictions: usize,
    /// Transfers.
    pub transfers: usize,
    /// Holds of the core's lock.
    pub lock_holds: usize,
    /// Holds shorter than this are counted only ([`Recorder::short_holds`]), where nobody had to wait for
    /// [`shortest_wait`](Self::shortest_wait) before: every fault takes the lock several times.
    pub shortest_hold: Duration,
    /// A wait for the lock that is worth an event.
    pub shortest_wait: Duration,
}

/// One thread's events, or everybody's.
#[derive(Debug)]
pub struct Recorder {
    /// Faults served, in the order in which they ended.
    pub faults: Vec<FaultEvent>,
    /// Waits.
    pub waits: Vec<WaitEvent>,
    /// Evictions, in the order in which they were decided.
    pub evictions: Vec<EvictionEvent>,
    /// Transfers, in the order in which they ended.
    pub transfers: Vec<TransferEvent>,
    /// Holds of the core's lock.
    pub lock_holds: Vec<LockHoldEvent>,
    /// Holds that were too short to be kept one by one.
    pub short_holds: u64,
    /// Events that found no room.
    pub lost: u64,
    shortest_hold: u64,
    shortest_wait: u64,
    told: Evictions,
}

impl Recorder {
    /// Empty buffers, all of whose memory is there.
    #[must_use]
    pub fn new(capacity: &EventCapacity) -> Self {
        Self {
            faults: touched(capacity.faults),
            waits: touched(capacity.waits),
            evictions: touched(capacity.evictions),
            transfers: touched(capacity.transfers),
            lock_holds: touched(capacity.lock_holds),
            short_holds: 0,
            lost: 0,
            shortest_hold: capacity.shortest_hold.get(),
            shortest_wait: capacity.shortest_wait.get(),
            told: Evictions::default(),
        }
    }

    /// The core has decided. To be told of every effect, in order.
    pub fn decided(&mut self, at: Instant, effect: &Effect) {
        if let Some(eviction) = self.told.told(at, effect) {
            keep(&mut self.evictions, &mut self.lost, eviction);
        }
    }

    /// A fault is served; from and to in nanoseconds, the page by its object's slot.
    pub fn fault(&mut self, task: Option<u16>, (from, to): (u64, u64), page: (usize, PageIndex), end: FaultEnd) {
        let fault = FaultEvent {
            task,
            from: Instant::new(from),
            to: Instant::new(to),
            object: u16::try_from(page.0).unwrap_or(u16::MAX),
            page: page.1,
            end,
        };
        keep(&mut self.faults, &mut self.lost, fault);
    }

    /// A task has waited for the store.
    pub fn waited(&mut self, wait: WaitEvent) {
        keep(&mut self.waits, &mut self.lost, wait);
    }

    /// The transfer of a page has ended, which the core had asked for, for a task or for nobody.
    pub fn transfer(
        &mut self,
        (page, kind): (PageRef, Request),
        (from, to): (Instant, Instant),
        task: Option<u16>,
        failed: bool,
    ) {
        let transfer = TransferEvent {
            from,
            to,
            object: object_slot(page),
            page: page.page(),
            kind,
            failed,
            task,
        };
        keep(&mut self.transfers, &mut self.lost, transfer);
    }

    /// The core's lock was held, by a task or by nobody, after a wait. Nanoseconds.
    pub fn lock_hold(&mut self, task: Option<u16>, (from, to): (u64, u64), waited: u64) {
        if waited < self.shortest_wait && to.saturating_sub(from) < self.shortest_hold {
            self.short_holds += 1;
            return;
        }
        let hold = LockHoldEvent {
            from: Instant::new(from),
            to: Instant::new(to),
            waited: Duration::new(waited),
            task,
        };
        keep(&mut self.lock_holds, &mut self.lost, hold);
    }
}

/// An empty buffer whose memory is there: the kernel would otherwise give it page by page, while tasks run.
#[must_use]
pub fn touched<T>(capacity: usize) -> Vec<T> {
    let mut buffer = Vec::with_capacity(capacity);
    buffer.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    buffer
}

/// Appends where there is room, and counts what finds none. Never allocates.
pub fn keep<T>(buffer: &mut Vec<T>, lost: &mut u64, event: T) {
    if buffer.len() < buffer.capacity() {
        buffer.push(event);
    } else {
        *lost = lost.saturating_add(1);
    }
}
