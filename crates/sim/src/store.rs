//! The store of evicted pages in virtual time: requests wait, the most urgent first and among equals first come first
//! served, for one of a few channels, each of which serves one request in one latency. Faults (late, failed, reordered)
//! come from a seed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use freehold_scenario::{Faults, StoreConfig};

use crate::rng::Rng;
use crate::world::{Ticket, Urgency};

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) ticket: Ticket,
    pub(crate) failed: bool,
}

/// A request that no channel serves yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    urgency: Urgency,
    /// A running number.
    arrival: u64,
    ticket: Ticket,
}

impl Waiting {
    /// Who comes first has the smaller one.
    fn rank(&self) -> (Reverse<Urgency>, u64) {
        (Reverse(self.urgency), self.arrival)
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    latency: u64,
    channels: usize,
    /// By rank.
    waiting: VecDeque<Waiting>,
    arrivals: u64,
    /// Due time, running number (ties end in order of starting), slot in `serving`.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    serving: Vec<Option<Ended>>,
    started: u64,
    injector: Option<Injector>,
}

impl Store {
    pub(crate) fn new(config: &StoreConfig, injector: Option<Injector>) -> Self {
        let channels = usize::try_from(config.parallel.max(1)).unwrap_or(1);
        Self {
            latency: config.latency.get(),
            channels,
            waiting: VecDeque::new(),
            arrivals: 0,
            due: BinaryHeap::with_capacity(channels),
            serving: vec![None; channels],
            started: 0,
            injector,
        }
    }

    /// Hands a request in at `now`.
    pub(crate) fn submit(&mut self, now: u64, ticket: Ticket, urgency: Urgency) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.enqueue(Waiting {
            urgency,
            arrival,
            ticket,
        });
        self.start(now);
    }

    /// Whether a request handed in now begins at once, whatever its urgency.
    pub(crate) fn has_free_channel(&self) -> bool {
        self.due.len() < self.channels
    }

    /// Whether such a request waits or is being served. O(requests).
    pub(crate) fn is_under_way(&self, chosen: impl Fn(&Ticket) -> bool) -> bool {
        let serving = self.serving.iter().flatten().map(|ended| &ended.ticket);
        serving
            .chain(self.waiting.iter().map(|waiting| &waiting.ticket))
            .any(chosen)
    }

    /// Lets requests that wait be served before less urgent ones. O(requests), more only where any is lifted.
    pub(crate) fn lift(&mut self, urgency: Urgency, chosen: impl Fn(&Ticket) -> bool) {
        let lifted = |waiting: &Waiting| waiting.urgency < urgency && chosen(&waiting.ticket);
        while let Some(position) = self.waiting.iter().position(lifted) {
            if let Some(waiting) = self.waiting.remove(position) {
                self.enqueue(Waiting { urgency, ..waiting });
            }
        }
    }

    fn enqueue(&mut self, request: Waiting) {
        let position = self.waiting.partition_point(|waiting| waiting.rank() < request.rank());
        self.waiting.insert(position, request);
    }

    /// When the next request ends.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// The next request that has ended by `now`; its channel takes up the next one that waits.
    pub(crate) fn end_one(&mut self, now: u64) -> Option<Ended> {
        if self.next_end()? > now {
            return None;
        }
        let Reverse((_, _, slot)) = self.due.pop()?;
        let ended = self.serving.get_mut(slot)?.take();
        self.start(now);
        ended
    }

    /// Requests handed in and not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.waiting.len() + self.due.len()
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
            let Some(Waiting { ticket, .. }) = self.waiting.remove(position) else {
                return;
            };
            let Some(slot) = self.serving.iter().position(Option::is_none) else {
                return;
            };
            let (time, failed) = match &mut self.injector {
                Some(injector) => injector.serve(self.latency),
                None => (self.latency, false),
            };
            self.serving[slot] = Some(Ended { ticket, failed });
            self.due.push(Reverse((now.saturating_add(time), self.started, slot)));
            self.started += 1;
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
