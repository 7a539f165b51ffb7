//! Algorithm 1 of paper 004: units move to where they lower the largest tardiness, from where they cost least.
//!
//! Readings, where the paper's text does not decide:
//! - The receiver (line 12) is sought for the tardiest thread: of the components whose unit helps it, the one that
//!   leaves the smallest maximum over all threads; then the larger impact on it; then the lower index.
//! - The donor (line 18) is the one that leaves the smallest maximum, what the receiver gains counted too; then the
//!   smallest maximum over the threads that lose by it; then the one that could have done without the unit in most of
//!   the last runs; then the lower index. It keeps its minimum, and one unit beside those of suspended threads.
//! - A call takes a stack and a buffer, and waits where either is wanting. So a receiver all of whose companion's units
//!   are in use receives one of both kinds or none: one alone would move the wait to the other. A unit whose companion
//!   went in this run is worth nothing where it is.
//! - A move must lower the maximum, or the number of threads that have it. Who has received in this run does not give.
//! - A thread that no move helps is set aside for this run. It may lose nothing, and others go on.
//! - Predictions are signed; a thread above 0 is tardy.

use super::{ComponentFacts, Estimates, MOST_COMPONENTS, MOST_MOVES, MOST_THREADS, Move, ScheduleError};

/// One run of the policy.
#[derive(Debug)]
pub struct Schedule<'a> {
    estimates: &'a Estimates,
    components: &'a [ComponentFacts],
    aside: [bool; MOST_THREADS],
    plan: Plan,
}

/// What the moves so far come to.
#[derive(Clone, Copy, Debug)]
struct Plan {
    desired: [u32; MOST_COMPONENTS],
    received: [bool; MOST_COMPONENTS],
    predicted: [i64; MOST_THREADS],
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
            aside: [false; MOST_THREADS],
            plan: Plan {
                desired: [0; MOST_COMPONENTS],
                received: [false; MOST_COMPONENTS],
                predicted: [0; MOST_THREADS],
                free,
                moves: [Move { from: None, to: 0 }; MOST_MOVES],
                count: 0,
            },
        };
        for (desired, facts) in schedule.plan.desired.iter_mut().zip(components) {
            *desired = facts.allocated;
        }
        schedule.plan.predicted[..tardiness.len()].copy_from_slice(tardiness);
        schedule.run();
        Ok(schedule)
    }

    /// What each component ought to have (δ).
    #[must_use]
    pub fn desired(&self) -> &[u32] {
        &self.plan.desired[..self.components.len()]
    }

    /// What each thread's tardiness will be, as estimated, in nanoseconds; negative where there is time to spare.
    #[must_use]
    pub fn predicted(&self) -> &[i64] {
        &self.plan.predicted[..self.estimates.threads()]
    }

    /// Units that stay free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.plan.free
    }

    /// The moves, in order.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.plan.moves[..self.plan.count]
    }

    /// Lines 10 to 24.
    fn run(&mut self) {
        while self.plan.count < MOST_MOVES
            && let Some(tardiest) = self.tardiest()
        {
            self.aside[tardiest] = !self.help(tardiest);
        }
    }

    fn threads(&self) -> core::ops::Range<usize> {
        0..self.estimates.threads()
    }

    /// The thread with the largest tardiness above 0 that is not set aside; the first of equals.
    fn tardiest(&self) -> Option<usize> {
        let late = self
            .threads()
            .filter(|thread| !self.aside[*thread] && self.plan.predicted[*thread] > 0);
        late.reduce(|best, thread| {
            if self.plan.predicted[thread] > self.plan.predicted[best] {
                thread
            } else {
                best
            }
        })
    }

    /// Carries out the moves that help the tardiest thread, if they lower the peak; else nothing has changed.
    fn help(&mut self, tardiest: usize) -> bool {
        let Some(to) = self.receiver(tardiest) else {
            return false;
        };
        let (before, tried) = (self.peak(), self.plan);
        let receivers = [Some(to), self.full_companion(to)];
        let brought = receivers.into_iter().flatten().all(|to| self.bring(to));
        let helped = brought && self.peak() < before;
        if !helped {
            self.plan = tried;
        }
        helped
    }

    /// Brings a unit; false where none is to be had.
    fn bring(&mut self, to: usize) -> bool {
        let from = if self.plan.free > 0 { None } else { self.donor(to) };
        let possible = (self.plan.free > 0 || from.is_some()) && self.plan.count < MOST_MOVES;
        if possible {
            self.carry_out(Move { from, to });
        }
        possible
    }

    /// The other kind, where a unit more of this one would only have its user wait there.
    fn full_companion(&self, to: usize) -> Option<usize> {
        let companion = self.companion(to)?;
        let has = self.plan.desired[companion];
        (has <= self.components[companion].requested && has <= self.plan.desired[to]).then_some(companion)
    }

    /// The other kind, if there is such a component.
    fn companion(&self, of: usize) -> Option<usize> {
        let companion = self.components[of].companion;
        companion.filter(|companion| *companion < self.components.len())
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
        let gives = (0..self.components.len()).filter(|from| self.may_give(*from) && !self.is_for(*from, to));
        gives.min_by_key(|from| {
            let step = Move { from: Some(*from), to };
            let counted = self.threads().filter(|thread| !self.aside[*thread]);
            let largest = counted.map(|thread| self.after(thread, step)).max();
            let losers = self.threads().filter(|thread| self.loss(*thread, *from) > 0);
            let worst = losers.map(|thread| self.after(thread, step)).max();
            (largest, worst, core::cmp::Reverse(self.spared(*from)), *from)
        })
    }

    /// In how many of the last runs a unit less would have been enough.
    fn spared(&self, of: usize) -> usize {
        let recent = self.components[of].recent.iter();
        recent.filter(|wanted| **wanted < self.plan.desired[of]).count()
    }

    /// Whether its companion has given more in this run.
    fn lost_its_companion(&self, of: usize) -> bool {
        let change = |at: usize| i64::from(self.plan.desired[at]) - i64::from(self.components[at].allocated);
        self.companion(of)
            .is_some_and(|companion| change(companion) < change(of))
    }

    /// Whether a unit of `from` is needed beside the one that `to` receives.
    fn is_for(&self, from: usize, to: usize) -> bool {
        let companion = self.companion(to) == Some(from) && self.plan.desired[from] < self.plan.desired[to] + 2;
        from == to || companion
    }

    fn may_give(&self, from: usize) -> bool {
        let spare = self.plan.desired[from] > self.components[from].kept();
        let takes_from_aside = self
            .threads()
            .any(|thread| self.aside[thread] && self.loss(thread, from) > 0);
        spare && !self.plan.received[from] && !takes_from_aside
    }

    fn gain(&self, thread: usize, to: usize) -> u64 {
        self.estimates
            .gain(thread, to, &self.components[to], self.plan.desired[to])
    }

    fn loss(&self, thread: usize, from: usize) -> u64 {
        if self.lost_its_companion(from) {
            return 0;
        }
        let (facts, now) = (&self.components[from], self.plan.desired[from]);
        self.estimates.loss(thread, from, facts, now)
    }

    /// A thread's tardiness after a move.
    fn after(&self, thread: usize, step: Move) -> i64 {
        let gain = i64::try_from(self.gain(thread, step.to)).unwrap_or(i64::MAX);
        let loss = step.from.map_or(0, |from| self.loss(thread, from));
        let loss = i64::try_from(loss).unwrap_or(i64::MAX);
        self.plan.predicted[thread].saturating_sub(gain).saturating_add(loss)
    }

    /// The peak over threads that are not set aside.
    fn peak(&self) -> Peak {
        let mut peak = Peak {
            tardiness: i64::MIN,
            threads: 0,
        };
        for thread in self.threads().filter(|thread| !self.aside[*thread]) {
            let tardiness = self.plan.predicted[thread];
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
            self.plan.predicted[thread] = self.after(thread, step);
        }
        match step.from {
            Some(from) => self.plan.desired[from] -= 1,
            None => self.plan.free -= 1,
        }
        self.plan.desired[step.to] += 1;
        self.plan.received[step.to] = true;
        self.plan.moves[self.plan.count] = step;
        self.plan.count += 1;
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
