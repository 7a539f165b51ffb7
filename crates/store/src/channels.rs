//! Emulated latency: transfers pass through a few channels, the most urgent first.

use crate::queue::UrgencyQueue;
use crate::slots::Slot;
use crate::store::Urgency;
use freehold_core::units::{Duration, Instant};
use freehold_linux::pi_mutex::PiMutex;

/// `parallel` channels, each busy for `latency` with one transfer at a time.
#[derive(Debug)]
pub(crate) struct Channels {
    latency: Duration,
    state: PiMutex<State>,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// When it is due, unless it waits and is overtaken.
    pub(crate) due: Instant,
    /// It waits for a channel.
    pub(crate) queued: bool,
}

#[derive(Debug)]
struct State {
    latency: Duration,
    /// When each channel is free again, ascending from `earliest` on, around the end: a transfer that starts ends last.
    free_at: Box<[Instant]>,
    earliest: usize,
    /// The latest time seen: requests of threads that were preempted on their way count as made now.
    now: Instant,
    queue: UrgencyQueue,
    /// When those that waited and have started are due.
    due: Box<[Instant]>,
}

impl Channels {
    pub(crate) fn new(latency: Duration, parallel: u16, slots: u32) -> Self {
        // Where all is done at once nothing waits.
        let slots = if latency.is_zero() { 0 } else { slots };
        Self {
            latency,
            state: PiMutex::new(State {
                latency,
                free_at: vec![Instant::ZERO; usize::from(parallel)].into_boxed_slice(),
                earliest: 0,
                now: Instant::ZERO,
                queue: UrgencyQueue::new(slots),
                due: vec![Instant::ZERO; slots as usize].into_boxed_slice(),
            }),
        }
    }

    /// Starts a transfer if a channel is free, else lets it wait. A few steps.
    pub(crate) fn occupy(&self, now: Instant, slot: Slot, urgency: Urgency) -> Standing {
        if self.latency.is_zero() {
            return Standing {
                due: now,
                queued: false,
            };
        }
        let mut state = self.state.lock();
        state.advance(now);
        if state.queue.length() == 0 && state.free_at[state.earliest] <= state.now {
            let begin = state.now;
            let due = state.start(begin);
            return Standing { due, queued: false };
        }
        state.queue.push(slot, urgency);
        Standing {
            due: state.estimate(slot),
            queued: true,
        }
    }

    /// Where a transfer stands that waited when it was made.
    pub(crate) fn standing(&self, now: Instant, slot: Slot) -> Standing {
        if self.latency.is_zero() {
            return Standing {
                due: now,
                queued: false,
            };
        }
        let mut state = self.state.lock();
        state.advance(now);
        state.standing(slot)
    }

    /// Makes a transfer that waits more urgent; its new standing, if that changed it.
    pub(crate) fn raise(&self, now: Instant, slot: Slot, urgency: Urgency) -> Option<Standing> {
        if self.latency.is_zero() {
            return None;
        }
        let mut state = self.state.lock();
        state.advance(now);
        let raised = state.queue.raise(slot, urgency);
        raised.then(|| state.standing(slot))
    }

    /// Forgets a transfer, which may wait.
    pub(crate) fn forget(&self, slot: Slot) {
        self.state.lock().queue.remove(slot);
    }
}

impl State {
    /// Starts whatever waits and would have started by `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while self.queue.length() > 0 && self.free_at[self.earliest] <= self.now {
            let Some(slot) = self.queue.pop() else { return };
            // Whoever waits came when every channel was busy, so before this one was free.
            let begin = self.free_at[self.earliest];
            self.due[slot.index()] = self.start(begin);
        }
    }

    /// Occupies the channel that is free earliest from `begin` on.
    fn start(&mut self, begin: Instant) -> Instant {
        let due = begin.saturating_add(self.latency);
        self.free_at[self.earliest] = due;
        self.earliest = (self.earliest + 1) % self.free_at.len();
        due
    }

    fn standing(&self, slot: Slot) -> Standing {
        let queued = self.queue.contains(slot);
        let due = if queued {
            self.estimate(slot)
        } else {
            self.due[slot.index()]
        };
        Standing { due, queued }
    }

    /// When a transfer that waits is due if nothing overtakes it.
    fn estimate(&self, slot: Slot) -> Instant {
        let ahead = self.queue.ahead_of(slot) as usize;
        let channel = (self.earliest + ahead) % self.free_at.len();
        let rounds = (ahead / self.free_at.len()) as u64 + 1;
        self.free_at[channel].saturating_add(Duration::new(self.latency.get().saturating_mul(rounds)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Channels, Standing};
    use crate::slots::Slot;
    use crate::store::Urgency;
    use freehold_core::units::{Duration, Instant};

    fn occupy(channels: &Channels, now: u64, slot: u32, urgency: u8) -> u64 {
        let standing = channels.occupy(Instant::new(now), Slot::new(slot), Urgency::new(urgency));
        standing.due.get()
    }

    fn standing(channels: &Channels, now: u64, slot: u32) -> (u64, bool) {
        let Standing { due, queued } = channels.standing(Instant::new(now), Slot::new(slot));
        (due.get(), queued)
    }

    #[test]
    fn one_channel_serves_in_order_of_arrival() {
        let channels = Channels::new(Duration::new(10), 1, 3);
        assert_eq!(occupy(&channels, 100, 0, 0), 110);
        assert_eq!(occupy(&channels, 101, 1, 0), 120);
        assert_eq!(occupy(&channels, 500, 2, 0), 510);
    }

    #[test]
    fn channels_work_side_by_side() {
        let channels = Channels::new(Duration::new(10), 2, 5);
        let due: Vec<u64> = [0, 0, 0, 0, 15]
            .iter()
            .zip(0..)
            .map(|(&now, slot)| occupy(&channels, now, slot, 0))
            .collect();
        assert_eq!(due, [10, 10, 20, 20, 30]);
    }

    #[test]
    fn without_latency_a_transfer_is_due_at_once() {
        let channels = Channels::new(Duration::ZERO, 1, 2);
        assert_eq!(occupy(&channels, 7, 0, 0), 7);
        assert_eq!(occupy(&channels, 7, 1, 0), 7);
    }

    #[test]
    fn the_urgent_overtake_those_that_wait_but_not_those_that_have_started() {
        let channels = Channels::new(Duration::new(10), 1, 4);
        assert_eq!(occupy(&channels, 0, 0, 0), 10);
        assert_eq!(occupy(&channels, 1, 1, 0), 20);
        assert_eq!(occupy(&channels, 2, 2, 0), 30);
        assert_eq!(occupy(&channels, 3, 3, 9), 20);
        assert_eq!(standing(&channels, 4, 1), (30, true));
        assert_eq!(standing(&channels, 4, 2), (40, true));
        // From 10 on the urgent one is served, from 20 on the next.
        assert_eq!(standing(&channels, 20, 3), (20, false));
        assert_eq!(standing(&channels, 20, 1), (30, false));
        assert_eq!(standing(&channels, 20, 2), (40, true));
    }

    #[test]
    fn who_is_raised_is_due_earlier_and_who_is_forgotten_makes_room() {
        let channels = Channels::new(Duration::new(10), 1, 4);
        for slot in 0..4 {
            occupy(&channels, 0, slot, 0);
        }
        let raised = channels.raise(Instant::new(1), Slot::new(3), Urgency::new(1));
        assert_eq!(raised.map(|standing| standing.due.get()), Some(20));
        assert_eq!(channels.raise(Instant::new(1), Slot::new(3), Urgency::new(1)), None);
        assert_eq!(standing(&channels, 1, 2), (40, true));
        channels.forget(Slot::new(1));
        assert_eq!(standing(&channels, 1, 2), (30, true));
    }
}
