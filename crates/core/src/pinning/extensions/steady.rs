//! Steps of a steady pool: an extension of Algorithm 1 (`steady`).
//!
//! The paper's pool shrinks after every job that leaves enough of its budget. The cost of a smaller pool shows only
//! when the pages that left are used again, perhaps many jobs later. By then the pool has shrunk far below the task's
//! need, and it grows back by a few pages a miss. A steady pool therefore follows these rules:
//!
//! - It takes one step in `pace` jobs, if the tightest of these jobs left enough for the step.
//! - A miss after a step takes back all steps since the last capacity that had proved itself.
//! - The next step then comes much later. It comes sooner if jobs have become lighter than those before the failed
//!   step. So a load that stays the same misses ever more rarely.
//! - Steps without a miss prove theirs, and halve the pace.
//! - Misses that follow one another without a step make the pool grow faster and faster.
//!
//! While a pool has room, no page leaves with a step, and the step proves nothing. Such steps are rare. Otherwise the
//! pool would forget the misses' lesson before it is full.

use crate::pinning::settings::JobReport;
use crate::units::PageCount;

/// Jobs for each step, at first.
const FIRST_PACE: u16 = 16;
/// Jobs for each step of a pool with room.
const ROOM_PACE: u16 = 8 * FIRST_PACE;
/// A miss after a step makes the pace so many times slower.
const SLOWER: u16 = 16;
/// And at most: at 30 ms, a step of 2 % in a quarter of an hour.
const SLOWEST_PACE: u16 = 1 << 15;
/// Steps without a miss that prove a capacity.
const PROOF: u8 = 8;
/// So do as many jobs after one step.
const PROVING_JOBS: u16 = PROOF as u16 * FIRST_PACE;
/// Jobs are lighter than others when the longest of them takes less CPU time, by one part in so many.
const LIGHTER_BY: u64 = 8;
/// A miss without a step before it grows the pool by up to two to this power as much as the paper says.
const MOST_DOUBLINGS: u32 = 4;

/// The tightest of some jobs that followed each other, one quantity at a time.
#[derive(Clone, Copy, Debug)]
struct Tightest {
    jobs: u16,
    /// The longest running time.
    running: u64,
    /// The least that was left of a budget.
    remaining: u64,
    /// And until a deadline.
    slack: u64,
}

impl Tightest {
    const NONE: Self = Self {
        jobs: 0,
        running: 0,
        remaining: u64::MAX,
        slack: u64::MAX,
    };

    fn and(self, job: &JobReport) -> Self {
        Self {
            jobs: self.jobs.saturating_add(1),
            running: self.running.max(job.running.get()),
            remaining: self.remaining.min(job.remaining.get()),
            slack: self.slack.min(job.slack.get()),
        }
    }
}

/// Where a steady pool is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// CPU time that one swap-in takes, as far as jobs have shown.
    cpu: u64,
    /// And how long a job waits for one.
    elapsed: u64,
    pace: u16,
    /// Jobs since the last step or miss.
    waited: u16,
    /// The tightest of them, or of those since a step was last thought of.
    tightest: Tightest,
    /// The longest running time before the last step, and before the last one that failed.
    stepped_at: u64,
    failed_at: u64,
    /// Steps since the last miss or proof.
    steps: u8,
    /// The capacity before the first of the steps that a miss would take back.
    proved: PageCount,
    /// There was such a step.
    fell: bool,
    /// Misses in a row that no step came before.
    doublings: u32,
}

impl Default for Steady {
    fn default() -> Self {
        Self {
            cpu: 0,
            elapsed: 0,
            pace: FIRST_PACE,
            waited: 0,
            tightest: Tightest::NONE,
            stepped_at: 0,
            failed_at: 0,
            steps: 0,
            proved: PageCount::ZERO,
            fell: false,
            doublings: 0,
        }
    }
}

impl Steady {
    /// Learns from a job. One without swap-ins teaches nothing of their cost.
    pub(crate) fn learn(&mut self, job: &JobReport) {
        self.waited = self.waited.saturating_add(1);
        self.tightest = self.tightest.and(job);
        if job.swap_ins > 0 {
            let pages = u64::from(job.swap_ins);
            self.cpu = job.swap_time.get() / pages;
            self.elapsed = job.swap_delay.get().max(job.swap_time.get()) / pages;
        }
    }

    /// The capacity after a miss for which the paper adds `growth`, with so many pages pinned.
    pub(crate) fn grow(&mut self, capacity: PageCount, growth: PageCount, pinned: PageCount) -> PageCount {
        let grown = if self.fell {
            // Where all that was missing had room, no step is to blame.
            if pinned.saturating_add(growth) > capacity {
                self.pace = self.pace.max(FIRST_PACE).saturating_mul(SLOWER).min(SLOWEST_PACE);
                self.failed_at = self.stepped_at;
            }
            self.doublings = 1;
            capacity.max(self.proved).saturating_add(growth)
        } else {
            let more = growth.get().saturating_mul(1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            capacity.saturating_add(PageCount::new(more))
        };
        (self.fell, self.steps) = (false, 0);
        self.begin_to_wait();
        grown
    }

    /// Whether the pool may shrink after a job that met its deadline. If so, that was a step.
    pub(crate) fn step(&mut self, capacity: PageCount, shrunk: PageCount, pinned: PageCount) -> bool {
        if pinned <= shrunk {
            return self.step_with_room();
        }
        if self.tightest.jobs < self.pace_now() {
            return false;
        }
        if !self.pays_for(capacity.saturating_sub(shrunk)) {
            self.tightest = Tightest::NONE;
            return false;
        }
        if self.fell && (self.steps >= PROOF || self.waited >= PROVING_JOBS) {
            self.pace = (self.pace / 2).max(1);
            (self.steps, self.fell) = (0, false);
        }
        if !self.fell {
            self.proved = capacity;
        }
        self.fell = true;
        self.doublings = 0;
        self.steps += 1;
        self.stepped_at = self.tightest.running;
        self.begin_to_wait();
        true
    }

    /// Nothing leaves, so there is nothing to pay for or to take back.
    fn step_with_room(&mut self) -> bool {
        let due = self.tightest.jobs >= ROOM_PACE;
        if due {
            self.begin_to_wait();
        }
        due
    }

    fn begin_to_wait(&mut self) {
        (self.waited, self.tightest) = (0, Tightest::NONE);
    }

    /// How many jobs the next step waits for: fewer, where they are lighter than those before the step that failed.
    fn pace_now(&self) -> u16 {
        let lighter = self.tightest.running < self.failed_at - self.failed_at / LIGHTER_BY;
        if lighter {
            (self.pace / SLOWER).max(FIRST_PACE).min(self.pace)
        } else {
            self.pace
        }
    }

    /// Whether half of what the tightest job left of its budget and of its time is more than so many more swap-ins
    /// would take. The other half is for what the next jobs do that these did not.
    fn pays_for(&self, pages: PageCount) -> bool {
        let pages = u64::from(pages.get());
        self.cpu.saturating_mul(pages) <= self.tightest.remaining / 2
            && self.elapsed.saturating_mul(pages) <= self.tightest.slack / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    fn job() -> JobReport {
        JobReport {
            swap_ins: 10,
            swap_time: Duration::from_millis(10),
            swap_delay: Duration::from_millis(20),
            remaining: Duration::from_millis(100),
            slack: Duration::from_millis(100),
            ..JobReport::default()
        }
    }

    const fn pages(count: u32) -> PageCount {
        PageCount::new(count)
    }

    /// A miss with the pool full.
    fn grow(steady: &mut Steady, capacity: u32, growth: u32) -> PageCount {
        steady.grow(pages(capacity), pages(growth), pages(capacity))
    }

    /// Lets such jobs end until there is a step of ten pages from a full pool; how many.
    fn jobs_like(job: &JobReport, steady: &mut Steady, capacity: u32) -> u32 {
        for count in 1..=u32::from(SLOWEST_PACE) {
            steady.learn(job);
            if steady.step(pages(capacity), pages(capacity - 10), pages(capacity)) {
                return count;
            }
        }
        panic!("no step");
    }

    fn jobs_for_a_step(steady: &mut Steady, capacity: u32) -> u32 {
        jobs_like(&job(), steady, capacity)
    }

    #[test]
    fn a_miss_after_steps_takes_them_back_and_slows_down() {
        let mut steady = Steady::default();
        assert_eq!(jobs_for_a_step(&mut steady, 1000), 16);
        assert_eq!(jobs_for_a_step(&mut steady, 990), 16);
        assert_eq!(grow(&mut steady, 980, 5), pages(1005));
        assert_eq!(jobs_for_a_step(&mut steady, 1005), 256);
        assert_eq!(grow(&mut steady, 995, 50), pages(1055));
        assert_eq!(jobs_for_a_step(&mut steady, 1055), 4096);
        for _ in 0..3 {
            grow(&mut steady, 1045, 1);
            jobs_for_a_step(&mut steady, 1000);
        }
        grow(&mut steady, 990, 1);
        assert_eq!(jobs_for_a_step(&mut steady, 1000), u32::from(SLOWEST_PACE));
    }

    #[test]
    fn lighter_jobs_are_tried_again_sooner() {
        let mut heavy = job();
        heavy.running = Duration::from_millis(80);
        let mut lighter = job();
        lighter.running = Duration::from_millis(70);
        let mut steady = Steady::default();
        assert_eq!(jobs_like(&heavy, &mut steady, 1000), 16);
        grow(&mut steady, 990, 1);
        assert_eq!(jobs_like(&heavy, &mut steady, 1001), 256, "nothing has changed");
        grow(&mut steady, 991, 1);
        assert_eq!(
            jobs_like(&lighter, &mut steady, 1002),
            4096,
            "an eighth is not less than an eighth"
        );
        grow(&mut steady, 992, 1);
        lighter.running = Duration::from_millis(61);
        assert_eq!(
            jobs_like(&lighter, &mut steady, 1003),
            2048,
            "and at the slowest pace too"
        );
    }

    #[test]
    fn steps_without_a_miss_prove_their_capacity_and_speed_up() {
        let mut steady = Steady::default();
        for step in 0..8 {
            assert_eq!(jobs_for_a_step(&mut steady, 1000 - 10 * step), 16);
        }
        // The next one finds eight behind it, and it comes at the pace that they had.
        assert_eq!(jobs_for_a_step(&mut steady, 920), 16);
        assert_eq!(jobs_for_a_step(&mut steady, 910), 8);
        assert_eq!(grow(&mut steady, 900, 1), pages(921));
        // So does one step that many jobs go by after.
        assert_eq!(jobs_for_a_step(&mut steady, 921), 256);
        assert_eq!(jobs_for_a_step(&mut steady, 911), 256);
        assert_eq!(jobs_for_a_step(&mut steady, 901), 128);
        assert_eq!(grow(&mut steady, 891, 1), pages(902));
    }

    #[test]
    fn misses_in_a_row_grow_it_faster() {
        let mut steady = Steady::default();
        let mut capacity = 100;
        for grown in [110, 130, 170, 250, 410, 570] {
            assert_eq!(grow(&mut steady, capacity, 10), pages(grown));
            capacity = grown;
        }
        jobs_for_a_step(&mut steady, 570);
        assert_eq!(grow(&mut steady, 560, 1), pages(571), "the step is taken back");
        assert_eq!(grow(&mut steady, 571, 10), pages(591), "anew");
    }

    #[test]
    fn a_pool_with_room_shrinks_slowly_and_is_not_to_blame() {
        let mut steady = Steady::default();
        for count in 1..=128 {
            steady.learn(&job());
            assert_eq!(
                steady.step(pages(1000), pages(980), pages(980)),
                count == 128,
                "{count}"
            );
        }
        assert_eq!(steady.grow(pages(980), pages(20), pages(100)), pages(1000));
        // A step of a full pool, and then the pages are gone for another reason.
        assert_eq!(jobs_for_a_step(&mut steady, 1000), 16);
        assert_eq!(steady.grow(pages(990), pages(20), pages(100)), pages(1020));
        assert_eq!(jobs_for_a_step(&mut steady, 1020), 16, "no slower");
    }

    #[test]
    fn no_step_costs_more_than_half_of_what_a_job_leaves() {
        // 1 ms of CPU time and 2 ms of waiting for each page.
        let may_leave = |count: u32, tight: &JobReport| {
            let mut steady = Steady::default();
            steady.learn(tight);
            for _ in 1..FIRST_PACE {
                steady.learn(&job());
            }
            steady.step(pages(1000), pages(1000 - count), pages(1000))
        };
        assert!(!may_leave(26, &job()), "52 ms of waiting");
        assert!(may_leave(25, &job()));
        let mut busy = job();
        busy.remaining = Duration::from_millis(49);
        assert!(!may_leave(25, &busy), "25 ms of CPU time, and one job left 49");
    }

    #[test]
    fn one_tight_job_does_not_count_for_ever() {
        let mut steady = Steady::default();
        let mut tight = job();
        tight.slack = Duration::ZERO;
        steady.learn(&tight);
        assert_eq!(jobs_for_a_step(&mut steady, 1000), 15 + 16);
    }
}
