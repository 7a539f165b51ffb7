//! The store of evicted pages in virtual time: requests wait, the most urgent first and among equals first come first
//! served, for one of a few channels, each of which serves one request in one latency. Faults (late, failed, reordered)
//! come from a seed.

use std::cmp::Reverse;
use std::collections::VecDeque;

use freehold_core::units::Instant;
use freehold_driver::{HolderRow, Transfer, Transfers, WHEN_TOLD};
use freehold_scenario::{Faults, StoreConfig};

use crate::rng::Rng;
use crate::world::{Ticket, Urgency};

/// A request that has ended, or that a channel serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) ticket: Ticket,
    pub(crate) failed: bool,
}

/// A request to be handed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission {
    pub(crate) ticket: Ticket,
    pub(crate) urgency: Urgency,
    /// The page's number among all pages.
    pub(crate) record: u32,
    /// Of a write: who gets the frame.
    pub(crate) frees_for: Option<HolderRow>,
}

/// A request that no channel serves yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    urgency: Urgency,
    /// A running number.
    arrival: u64,
    record: u32,
}

impl Waiting {
    /// Who comes first has the smaller one.
    fn rank(&self) -> (Reverse<Urgency>, u64) {
        (Reverse(self.urgency), self.arrival)
    }
}

/// All requests end in one queue.
const QUEUE: usize = 0;

#[derive(Debug)]
pub(crate) struct Store {
    latency: u64,
    channels: usize,
    /// Those that no channel serves are due when they are told.
    transfers: Transfers<Ended>,
    /// By rank.
    waiting: VecDeque<Waiting>,
    arrivals: u64,
    injector: Option<Injector>,
}

impl Store {
    /// For the pages of `records` on the lists of `holders`.
    pub(crate) fn new(config: &StoreConfig, records: usize, holders: usize, injector: Option<Injector>) -> Self {
        Self {
            latency: config.latency.get(),
            channels: usize::try_from(config.parallel.max(1)).unwrap_or(1),
            transfers: Transfers::growing(records, 1, holders),
            waiting: VecDeque::new(),
            arrivals: 0,
            injector,
        }
    }

    /// Hands a request in at `now`; whether its page has no other.
    #[must_use]
    pub(crate) fn submit(&mut self, now: u64, request: Submission) -> bool {
        let Submission {
            ticket,
            urgency,
            record,
            frees_for,
        } = request;
        let entered = self.transfers.insert(Transfer {
            record,
            queue: QUEUE,
            due: WHEN_TOLD,
            urgency: urgency.get(),
            frees_for,
            what: Ended { ticket, failed: false },
        });
        if entered {
            let arrival = self.arrivals;
            self.arrivals += 1;
            self.enqueue(Waiting {
                urgency,
                arrival,
                record,
            });
            self.start(now);
        }
        entered
    }

    /// Whether a request handed in now begins at once, whatever its urgency.
    pub(crate) fn has_free_channel(&self) -> bool {
        self.transfers.count() - self.waiting.len() < self.channels
    }

    /// Makes the request of a page, if there is one, as urgent as this at least, so that it is served before less
    /// urgent ones; whether there is one. O(requests) where it waits and is less urgent.
    pub(crate) fn lift(&mut self, record: u32, urgency: Urgency) -> bool {
        let raised = self.transfers.raise(record, urgency.get());
        let waits = |waiting: &Waiting| waiting.record == record;
        if raised == Some(true)
            && let Some(position) = self.waiting.iter().position(waits)
            && let Some(waiting) = self.waiting.remove(position)
        {
            self.enqueue(Waiting { urgency, ..waiting });
        }
        raised.is_some()
    }

    /// Makes all write-backs that free frames for a holder as urgent as this at least.
    pub(crate) fn lift_writes(&mut self, holder: HolderRow, urgency: Urgency) {
        while let Some(record) = self.transfers.write_below(holder, urgency.get()) {
            self.lift(record, urgency);
        }
    }

    fn enqueue(&mut self, request: Waiting) {
        let position = self.waiting.partition_point(|waiting| waiting.rank() < request.rank());
        self.waiting.insert(position, request);
    }

    /// When the next request ends.
    pub(crate) fn next_end(&self) -> Option<u64> {
        let due = self.transfers.first(QUEUE)?.due;
        (due != WHEN_TOLD).then_some(due.get())
    }

    /// The next request that has ended by `now`; its channel takes up the next one that waits.
    pub(crate) fn end_one(&mut self, now: u64) -> Option<Ended> {
        let ended = self.transfers.take_due(QUEUE, Instant::new(now))?.what;
        self.start(now);
        Some(ended)
    }

    /// Requests handed in and not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.transfers.count()
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&mut self) {
        self.injector = None;
    }

    fn start(&mut self, now: u64) {
        while self.has_free_channel() {
            let position = match &mut self.injector {
                Some(injector) => injector.choose(self.waiting.len()),
                None => 0,
            };
            let Some(Waiting { record, .. }) = self.waiting.remove(position) else {
                return;
            };
            let (time, failed) = match &mut self.injector {
                Some(injector) => injector.serve(self.latency),
                None => (self.latency, false),
            };
            if let Some(ended) = self.transfers.what_mut(record) {
                ended.failed = failed;
            }
            let due = Instant::new(now.saturating_add(time));
            self.transfers.expect(record, QUEUE, due);
        }
    }
}

/// Injects the faults of `[faults]`.
#[derive(Clone, Debug)]
pub(crate) struct Injector {
    faults: Faults,
    rng: Rng,
}

impl Injector {
    /// `seed` is the scenario's, used where the faults have none of their own.
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            rng: Rng::stream(faults.seed.unwrap_or(seed), 0xfa17),
        }
    }

    /// Which of the waiting requests is served next.
    fn choose(&mut self, waiting: usize) -> usize {
        if !self.faults.reorder {
            return 0;
        }
        usize::try_from(self.rng.below(waiting as u64)).unwrap_or(0)
    }

    /// How long a request takes, and whether it fails. Where completions may overtake each other, each takes between
    /// one and two latencies.
    fn serve(&mut self, latency: u64) -> (u64, bool) {
        let mut time = latency;
        if self.faults.reorder {
            time = time.saturating_add(self.rng.within(0, latency));
        }
        if self.rng.chance(self.faults.late) {
            time = time.saturating_add(self.faults.late_by.get());
        }
        (time, self.rng.chance(self.faults.fail))
    }
}

#[cfg(test)]
mod tests;
