//! The preset `freehold`, beyond the paper: begin as `all` does, and let go of what has proved that it is not needed.
//!
//! The paper learns what a pool needs from misses: what a smaller pool costs is seen when the pages that left are used
//! again. Here pages are tried first. Those used longest ago lose their mappings and stay (the *trial*, the pool's
//! inactive list). A touch brings one back for the cost of a soft fault, and tells what its absence would have cost:
//! the touches of tried pages in one job are the swap-ins of a pool that is smaller by the trial.
//!
//! 1. *Arrive.* The capacity begins as high as the quota. A page that arrives is pinned while there is capacity.
//! 2. *Try.* Where somebody wants memory, the pages used longest ago are tried: a `share` of the pool, and no more
//!    than the last job left time to touch, so that a trial alone makes no job late.
//! 3. *Judge.* After a round of `patience` jobs: the most touches in a job, of pages that came on trial before this
//!    round or the last, at what a swap-in takes, must fit into what the tightest job left: swap-ins may take two
//!    thirds of the CPU time and of the time until the deadline that a job would have left without them. If they fit,
//!    what was on trial all the while leaves, at first few pages and each time more. If not, nothing leaves, and fewer
//!    are tried. A round with a late job lets go only of what no job touches, and of nothing while pages still arrive.
//! 4. *Take back.* At once after a miss that swap-ins had a part in, and where they took five sixths of that time, the
//!    capacity is what it was before the last pages left, and more by the memory's share of the delay. Pages that left
//!    are brought back before the next release (`restore`), as long as there is capacity. After a miss rounds are
//!    longer.
//! 5. *Starve.* A job that was late while there were no frames left to pin lets go of what it does not touch at once.

use crate::effect::{Holder, Scope, UnmapReason};
use crate::index::{EntryIndex, PinnedIndex};
use crate::memory::{DEMOTION_BATCH, Memory};
use crate::pages::entry::{Marks, Place};
use crate::pinning::settings::{CapacityRule, JobReport};
use crate::units::PageCount;

/// Jobs of a round, at first and at most.
const PATIENCE: u16 = 8;
const MOST_PATIENCE: u16 = 1 << 6;
/// One page in so many is on trial at most, and one in so many at least.
const MOST_SHARE: u32 = 2;
const LEAST_SHARE: u32 = 256;
/// What a touch of a tried page may take: CPU time in ns. More than a soft fault does.
const TOUCH: u64 = 4_000;
/// The part of what the last job left that touches of tried pages may take in the next.
const TOUCHES_PART: u32 = 4;
/// Pages that leave at first, or one in so many of the pool; so many times as many each time that it proved right.
const PROBE: u32 = 64;
const PROBE_SHARE: u32 = 32;
const BOLDER: u32 = 4;
/// Pages tried after a job that was late for want of frames.
const STARVED: u32 = 1_024;

/// Jobs at the end of a round in which no page comes on trial: what is touched in a later round than it came in has
/// been left alone for so many jobs at least.
const SETTLING: u16 = 2;
/// Pages that leave to learn what a swap-in takes, where none has been seen.
const SCOUTS: u32 = 8;

/// What the jobs of a round were, each quantity of the tightest of them.
#[derive(Clone, Copy, Debug)]
struct Round {
    jobs: u16,
    /// The most touches of tried pages in one job.
    touches: u32,
    /// The most swap-ins in one job, and whether they took five sixths of what there was for them.
    swap_ins: u32,
    tight: bool,
    /// A job was late.
    missed: bool,
    /// What swap-ins may take more, of CPU time and of time, until they take two thirds of what there was.
    cpu: u64,
    time: u64,
    /// Pages on trial when it began, and all pages pinned.
    tried: u32,
    pinned: u32,
}

impl Round {
    const NONE: Self = Self {
        jobs: 0,
        touches: 0,
        swap_ins: 0,
        tight: false,
        missed: false,
        cpu: u64::MAX,
        time: u64::MAX,
        tried: 0,
        pinned: 0,
    };
}

/// The trial of one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    round: Round,
    /// Whether its number is odd.
    odd: bool,
    patience: u16,
    /// One page of the pool in so many is tried.
    share: u32,
    /// Touches since the last job, of pages that were on trial before this round, and the most in a job of the last.
    touches: u32,
    last_touches: u32,
    /// Pages that may still come on trial until the next job ends, and how many there may be on trial.
    credit: u32,
    most: u32,
    /// Since the last job a page arrived for which there was capacity, and no frame that may be pinned.
    pub(crate) short: bool,
    /// CPU time and time of one swap-in; zero until one was seen.
    cpu: u64,
    time: u64,
    /// Pages that may leave together.
    probe: u32,
    /// Capacity before pages left last.
    proved: PageCount,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            round: Round::NONE,
            odd: false,
            patience: PATIENCE,
            share: MOST_SHARE,
            touches: 0,
            last_touches: 0,
            credit: 0,
            most: 0,
            short: false,
            cpu: 0,
            time: 0,
            probe: PROBE,
            proved: PageCount::ZERO,
        }
    }
}

impl Trial {
    /// Learns from a job.
    pub(crate) fn learn(&mut self, job: &JobReport) {
        let touches = core::mem::take(&mut self.touches);
        if job.swap_ins > 0 {
            let pages = u64::from(job.swap_ins);
            // The dearest, and slowly less.
            self.cpu = (job.swap_time.get() / pages).max(self.cpu - self.cpu / 4);
            self.time = (job.swap_delay.get().max(job.swap_time.get()) / pages).max(self.time - self.time / 4);
        }
        let round = &mut self.round;
        round.jobs = round.jobs.saturating_add(1);
        round.touches = round.touches.max(touches);
        round.missed |= job.missed;
        round.swap_ins = round.swap_ins.max(job.swap_ins);
        for (left, taken, room) in [
            (job.remaining.get(), job.swap_time.get(), &mut round.cpu),
            (job.slack.get(), job.swap_delay.get(), &mut round.time),
        ] {
            *room = (*room).min((2 * left).saturating_sub(taken) / 3);
            round.tight |= left < taken / 5;
        }
        let left = job.remaining.get().min(job.slack.get());
        self.most = u32::try_from(left / TOUCH).unwrap_or(u32::MAX).max(1);
        self.credit = (self.most / TOUCHES_PART).max(1);
        if round.jobs.saturating_add(SETTLING) >= self.patience {
            self.credit = 0;
        }
    }

    /// The capacity after a miss for which it ought to grow by so much.
    pub(crate) fn take_back(&mut self, capacity: PageCount, growth: PageCount) -> PageCount {
        if self.proved > PageCount::ZERO {
            self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
        }
        self.probe = PROBE;
        self.narrow();
        self.begin_round();
        capacity.max(self.proved).saturating_add(growth)
    }

    /// The capacity after a job in time, with so many pages pinned and so many of them on trial.
    pub(crate) fn judge(&mut self, capacity: PageCount, pinned: u32, tried: u32) -> (PageCount, CapacityRule) {
        let round = self.round;
        if round.tight {
            self.narrow();
            self.begin_round();
            let more = PageCount::new(round.swap_ins.saturating_mul(2));
            return (capacity.max(self.proved).saturating_add(more), CapacityRule::Grown);
        }
        if round.jobs < self.patience {
            return (capacity, CapacityRule::Steady);
        }
        let grows = pinned > round.pinned;
        self.begin_round();
        self.round.tried = tried;
        self.round.pinned = pinned;
        let touches = round
            .touches
            .max(core::mem::replace(&mut self.last_touches, round.touches));
        let fits = |each: u64, room: u64| each.saturating_mul(u64::from(touches)) <= room;
        let unclear = round.missed && (touches > 0 || grows);
        if unclear || !fits(self.time, round.time) || !fits(self.cpu, round.cpu) {
            self.narrow();
            return (capacity, CapacityRule::Steady);
        }
        self.probe = self.probe.max(pinned / PROBE_SHARE);
        let mut leaving = tried.min(round.tried).min(self.probe);
        if self.time == 0 && touches > 0 {
            leaving = leaving.min(SCOUTS);
        }
        if leaving == 0 {
            return (capacity, CapacityRule::Steady);
        }
        if leaving >= self.probe {
            self.probe = self.probe.saturating_mul(BOLDER);
        }
        self.share = (self.share - self.share / 4).max(MOST_SHARE);
        self.round.tried = tried - leaving;
        self.round.pinned = pinned - leaving;
        self.patience = (self.patience / 2).max(PATIENCE);
        self.proved = capacity.min(PageCount::new(pinned));
        (PageCount::new(pinned - leaving), CapacityRule::Shrunk)
    }

    /// Fewer pages are tried; after the fewest as many as at first.
    fn narrow(&mut self) {
        self.share = if self.share < LEAST_SHARE {
            self.share * 2
        } else {
            MOST_SHARE
        };
    }

    /// The capacity after a job that was late because it waited for frames, none of its own pages having been away:
    /// what it does not use itself is the nearest.
    pub(crate) fn starve(&mut self, pinned: u32, tried: u32) -> PageCount {
        let leaving = tried.min(self.round.tried);
        self.begin_round();
        self.round.tried = tried - leaving;
        self.share = MOST_SHARE;
        self.credit = STARVED;
        self.most = u32::MAX;
        PageCount::new(pinned - leaving)
    }

    fn begin_round(&mut self) {
        self.round = Round::NONE;
        self.odd = !self.odd;
    }
}

impl Memory {
    /// Whether the pool of a pinned page tries pages before they leave.
    pub(crate) fn tries(&self, index: EntryIndex) -> bool {
        let pinner = self.pinner(self.entries[index].page);
        self.pinned.slots.at(pinner.slot()).is_some_and(|pool| pool.proves())
    }

    /// A page on trial is touched.
    pub(crate) fn end_trial(&mut self, index: EntryIndex) {
        let pinner = self.pinner(self.entries[index].page);
        if let Some(pool) = self.pinned.get_mut(pinner) {
            let since_odd = self.entries[index].marks.has(Marks::ODD_ROUND);
            pool.trial.touches += u32::from(since_odd != pool.trial.odd);
        }
        self.relink(index, Place::PinnedActive);
    }

    /// Somebody wants memory: more pages are tried, of each pool, at most a batch of them together.
    pub(crate) fn try_pages(&mut self) {
        for slot in 0..self.pinned.slots.len() {
            let Ok(raw) = u16::try_from(slot) else { return };
            self.try_pages_of(PinnedIndex(raw));
        }
    }

    fn try_pages_of(&mut self, pinner: PinnedIndex) {
        while self.pinned.balanced < DEMOTION_BATCH {
            let Some(pool) = self.pinned.get_mut(pinner).filter(|pool| pool.proves()) else {
                return;
            };
            let enough = pool.inactive.len() >= pool.len().div_ceil(pool.trial.share).min(pool.trial.most);
            let Some(index) = pool.active.first().filter(|_| !enough && pool.trial.credit > 0) else {
                return;
            };
            pool.trial.credit -= 1;
            let odd = pool.trial.odd;
            self.pinned.balanced += 1;
            self.entries[index].marks.clear(Marks::ODD_ROUND);
            if odd {
                self.entries[index].marks.set(Marks::ODD_ROUND);
            }
            self.relink(index, Place::PinnedInactive);
            let page = self.entries[index].page;
            self.emit_unmap(page, Scope::Of(Holder::Pool), UnmapReason::Demotion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    const PINNED: u32 = 1_000;
    const TRIED: u32 = 200;

    fn job() -> JobReport {
        JobReport {
            remaining: Duration::from_millis(9),
            slack: Duration::from_millis(9),
            ..JobReport::default()
        }
    }

    /// A trial that knows that a swap-in takes 100 us, at the beginning of a round.
    fn trial() -> Trial {
        let mut trial = Trial::default();
        trial.learn(&JobReport {
            swap_ins: 10,
            swap_time: Duration::from_millis(1),
            swap_delay: Duration::from_millis(1),
            ..job()
        });
        round(&mut trial, &job(), 0);
        trial
    }

    /// A round of such jobs, each of which touches so many tried pages: the capacity after it.
    fn round(trial: &mut Trial, job: &JobReport, touches: u32) -> u32 {
        let mut capacity = PageCount::new(PINNED);
        while trial.round.jobs < trial.patience {
            trial.touches = touches;
            trial.learn(job);
            if trial.round.jobs == trial.patience {
                return trial.judge(capacity, PINNED, TRIED).0.get();
            }
            capacity = trial.judge(capacity, PINNED, TRIED).0;
        }
        capacity.get()
    }

    #[test]
    fn tried_pages_leave_where_their_touches_would_fit_as_swap_ins() {
        // Two thirds of 9 ms are 60 swap-ins of 100 us; what was learnt becomes cheaper with no job.
        assert_eq!(round(&mut trial(), &job(), 60), PINNED - PROBE);
        assert_eq!(round(&mut trial(), &job(), 61), PINNED);
        // The dearest of this round and the last counts.
        let mut two = trial();
        assert_eq!(round(&mut two, &job(), 61), PINNED);
        assert_eq!(round(&mut two, &job(), 0), PINNED);
        assert_eq!(round(&mut two, &job(), 0), PINNED - PROBE);
    }

    #[test]
    fn more_leave_each_time_and_none_that_were_not_on_trial_all_the_while() {
        let mut trial = trial();
        assert_eq!(round(&mut trial, &job(), 0), PINNED - PROBE);
        assert_eq!(round(&mut trial, &job(), 0), PINNED - (TRIED - PROBE));
    }

    #[test]
    fn a_late_job_lets_only_go_of_what_no_job_touches() {
        let late = JobReport { missed: true, ..job() };
        assert_eq!(round(&mut trial(), &late, 1), PINNED);
        assert_eq!(round(&mut trial(), &late, 0), PINNED - PROBE);
    }

    #[test]
    fn a_miss_takes_back_what_left_last_and_makes_rounds_longer() {
        let mut trial = trial();
        let left = PageCount::new(round(&mut trial, &job(), 0));
        assert_eq!(trial.take_back(left, PageCount::new(5)).get(), PINNED + 5);
        assert_eq!(trial.patience, 2 * PATIENCE);
        // Nothing has left: nobody was impatient.
        let mut first = Trial::default();
        first.take_back(left, PageCount::new(5));
        assert_eq!(first.patience, PATIENCE);
    }

    #[test]
    fn swap_ins_that_take_nearly_all_are_taken_back_before_a_miss() {
        let mut trial = trial();
        let left = PageCount::new(round(&mut trial, &job(), 0));
        let tight = JobReport {
            swap_ins: 20,
            swap_delay: Duration::from_millis(8),
            slack: Duration::from_millis(1),
            ..job()
        };
        trial.learn(&tight);
        assert_eq!(trial.judge(left, PINNED - PROBE, TRIED).0.get(), PINNED + 40);
    }

    #[test]
    fn no_more_is_tried_than_a_job_leaves_time_to_touch() {
        let mut trial = trial();
        trial.learn(&JobReport {
            remaining: Duration::from_micros(400),
            ..job()
        });
        assert_eq!((trial.most, trial.credit), (100, 25));
    }
}
