//! Algorithm 1 of paper 004: units move to where they lower the largest tardiness, from where they cost least.
//!
//! Readings, where the paper's text does not decide:
//! - The receiver (line 12) is sought for the tardiest thread: of the components whose unit helps it, the one that
//!   leaves the smallest maximum over all threads; then the larger impact on it; then the lower index.
//! - The donor (line 18) is the one that leaves the smallest maximum, what the receiver gains counted too; then the
//!   smallest maximum over the threads that lose by it; then the lower index. It keeps its minimum, and one unit
//!   beside those of suspended threads.
//! - A move must lower the maximum, or the number of threads that have it. Who has received in this run does not give.
//! - A thread that no move helps is set aside for this run. It may lose nothing, and others go on.
//! - Predictions are signed; a thread above 0 is tardy.

use super::{ComponentFacts, Estimates, MOST_COMPONENTS, MOST_MOVES, MOST_THREADS, Move, ScheduleError};

/// One run of the policy.
#[derive(Debug)]
pub struct Schedule<'a> {
    estimates: &'a Estimates,
    components: &'a [ComponentFacts],
    desired: [u32; MOST_COMPONENTS],
    received: [bool; MOST_COMPONENTS],
    predicted: [i64; MOST_THREADS],
    aside: [bool; MOST_THREADS],
    free: u32,
    moves: [Move; MOST_MOVES],
    count: usize,
}

/// The largest tardiness, and how many threads have it: what every move lowers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Peak {
    tardiness: i64,
    threads: usize,
}

impl<'a> Schedule<'a> {
    /// Plans from what components have (a), free units, and each thread's mean tardiness in nanoseconds (t).
    /// `estimates` have taken up the same period. O(moves × components × threads).
    ///
    /// # Errors
    /// [`ScheduleError::Shape`].
    pub fn plan(
        estimates: &'a Estimates,
        components: &'a [ComponentFacts],
        free: u32,
        tardiness: &[i64],
    ) -> Result<Self, ScheduleError> {
        if components.len() != estimates.components() || tardiness.len() != estimates.threads() {
            return Err(ScheduleError::Shape);
        }
        let mut schedule = Self {
            estimates,
            components,
            desired: [0; MOST_COMPONENTS],
            received: [false; MOST_COMPONENTS],
            predicted: [0; MOST_THREADS],
            aside: [false; MOST_THREADS],
            free,
            moves: [Move { from: None, to: 0 }; MOST_MOVES],
            count: 0,
        };
        for (desired, facts) in schedule.desired.iter_mut().zip(components) {
            *desired = facts.allocated;
        }
        schedule.predicted[..tardiness.len()].copy_from_slice(tardiness);
        schedule.run();
        Ok(schedule)
    }

    /// What each component ought to have (δ).
    #[must_use]
    pub fn desired(&self) -> &[u32] {
        &self.desired[..self.components.len()]
    }

    /// What each thread's tardiness will be, as estimated, in nanoseconds; negative where there is time to spare.
    #[must_use]
    pub fn predicted(&self) -> &[i64] {
        &self.predicted[..self.estimates.threads()]
    }

    /// Units that stay free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The moves, in order.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves[..self.count]
    }

    /// Lines 10 to 24.
    fn run(&mut self) {
        while self.count < MOST_MOVES
            && let Some(tardiest) = self.tardiest()
        {
            if let Some(step) = self.best_move(tardiest) {
                self.carry_out(step);
            } else {
                self.aside[tardiest] = true;
            }
        }
    }

    fn threads(&self) -> core::ops::Range<usize> {
        0..self.estimates.threads()
    }

    /// The thread with the largest tardiness above 0 that is not set aside; the first of equals.
    fn tardiest(&self) -> Option<usize> {
        let late = self
            .threads()
            .filter(|thread| !self.aside[*thread] && self.predicted[*thread] > 0);
        late.reduce(|best, thread| {
            if self.predicted[thread] > self.predicted[best] {
                thread
            } else {
                best
            }
        })
    }

    /// The move for the tardiest thread, if one lowers the peak.
    fn best_move(&self, tardiest: usize) -> Option<Move> {
        let to = self.receiver(tardiest)?;
        let from = if self.free > 0 { None } else { Some(self.donor(to)?) };
        let step = Move { from, to };
        (self.peak(Some(step)) < self.peak(None)).then_some(step)
    }

    /// Line 12.
    fn receiver(&self, tardiest: usize) -> Option<usize> {
        let helps = (0..self.components.len()).filter(|to| self.gain(tardiest, *to) > 0);
        helps.min_by_key(|to| {
            let step = Move { from: None, to: *to };
            let largest = self.threads().map(|thread| self.after(thread, step)).max();
            (largest, core::cmp::Reverse(self.gain(tardiest, *to)), *to)
        })
    }

    /// Line 18.
    fn donor(&self, to: usize) -> Option<usize> {
        let gives = (0..self.components.len()).filter(|from| *from != to && self.may_give(*from));
        gives.min_by_key(|from| {
            let step = Move { from: Some(*from), to };
            let counted = self.threads().filter(|thread| !self.aside[*thread]);
            let largest = counted.map(|thread| self.after(thread, step)).max();
            let losers = self.threads().filter(|thread| self.loss(*thread, *from) > 0);
            let worst = losers.map(|thread| self.after(thread, step)).max();
            (largest, worst, *from)
        })
    }

    fn may_give(&self, from: usize) -> bool {
        let spare = self.desired[from] > self.components[from].kept();
        let takes_from_aside = self
            .threads()
            .any(|thread| self.aside[thread] && self.loss(thread, from) > 0);
        spare && !self.received[from] && !takes_from_aside
    }

    fn gain(&self, thread: usize, to: usize) -> u64 {
        self.estimates.gain(thread, to, &self.components[to], self.desired[to])
    }

    fn loss(&self, thread: usize, from: usize) -> u64 {
        self.estimates
            .loss(thread, from, &self.components[from], self.desired[from])
    }

    /// A thread's tardiness after a move.
    fn after(&self, thread: usize, step: Move) -> i64 {
        let gain = i64::try_from(self.gain(thread, step.to)).unwrap_or(i64::MAX);
        let loss = step.from.map_or(0, |from| self.loss(thread, from));
        let loss = i64::try_from(loss).unwrap_or(i64::MAX);
        self.predicted[thread].saturating_sub(gain).saturating_add(loss)
    }

    /// The peak over threads that are not set aside, as it is or after a move.
    fn peak(&self, step: Option<Move>) -> Peak {
        let mut peak = Peak {
            tardiness: i64::MIN,
            threads: 0,
        };
        for thread in self.threads().filter(|thread| !self.aside[*thread]) {
            let tardiness = step.map_or(self.predicted[thread], |step| self.after(thread, step));
            if tardiness > peak.tardiness {
                peak = Peak { tardiness, threads: 0 };
            }
            peak.threads += usize::from(tardiness == peak.tardiness);
        }
        peak
    }

    /// Lines 15, 16, 20 and 21.
    fn carry_out(&mut self, step: Move) {
        for thread in self.threads() {
            self.predicted[thread] = self.after(thread, step);
        }
        match step.from {
            Some(from) => self.desired[from] -= 1,
            None => self.free -= 1,
        }
        self.desired[step.to] += 1;
        self.received[step.to] = true;
        self.moves[self.count] = step;
        self.count += 1;
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
