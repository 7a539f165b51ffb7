//! How a steady pool shrinks and grows again: an extension of Algorithm 1 (`steady`).
//!
//! The paper's algorithm shrinks after every job that leaves enough of its budget. What a smaller pool costs is seen
//! only when the pages that left are used again, which may be many jobs later: by then it has shrunk far below what the
//! task needs, and grows back by some pages a miss. So a steady pool takes one step in `pace` jobs. A miss after a step
//! doubles the pace and takes back all steps since the last capacity that had proved itself; several steps without a
//! miss prove theirs and halve the pace. Misses that follow one another without a step make it grow faster and faster.

use crate::pinning::settings::JobReport;
use crate::units::PageCount;

/// Jobs for each step, at first.
const FIRST_PACE: u16 = 16;
/// And at most: at 30 ms, a step of 2 % in half a minute.
const SLOWEST_PACE: u16 = 1024;
/// Steps without a miss that prove a capacity.
const PROOF: u8 = 8;
/// A miss without a step before it grows the pool by up to two to this power as much as the paper says.
const MOST_DOUBLINGS: u32 = 4;

/// Where a steady pool is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descent {
    /// CPU time that one swap-in takes, as far as jobs have shown.
    cpu: u64,
    /// And how long a job waits for one.
    elapsed: u64,
    pace: u16,
    /// Jobs since the last step or miss.
    waited: u16,
    /// Steps since the last miss or proof.
    steps: u8,
    /// The capacity before the first of the steps that a miss would take back.
    proved: PageCount,
    /// There was such a step.
    fell: bool,
    /// Misses in a row that no step came before.
    doublings: u32,
}

impl Default for Descent {
    fn default() -> Self {
        Self {
            cpu: 0,
            elapsed: 0,
            pace: FIRST_PACE,
            waited: 0,
            steps: 0,
            proved: PageCount::ZERO,
            fell: false,
            doublings: 0,
        }
    }
}

impl Descent {
    /// Learns from a job. One without swap-ins teaches nothing of their cost.
    pub(crate) fn learn(&mut self, job: &JobReport) {
        self.waited = self.waited.saturating_add(1);
        if job.swap_ins > 0 {
            let pages = u64::from(job.swap_ins);
            self.cpu = job.swap_time.get() / pages;
            self.elapsed = job.swap_delay.get().max(job.swap_time.get()) / pages;
        }
    }

    /// The capacity after a miss for which the paper adds `growth`.
    pub(crate) fn grow(&mut self, capacity: PageCount, growth: PageCount) -> PageCount {
        let grown = if self.fell {
            self.pace = self.pace.saturating_mul(2).min(SLOWEST_PACE);
            self.doublings = 0;
            capacity.saturating_add(growth).max(self.proved)
        } else {
            let more = growth.get().saturating_mul(1 << self.doublings);
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            capacity.saturating_add(PageCount::new(more))
        };
        (self.fell, self.waited, self.steps) = (false, 0, 0);
        grown
    }

    /// Whether the pool may shrink after a job that met its deadline, though so many pages leave. If so, that was a
    /// step.
    pub(crate) fn step(&mut self, capacity: PageCount, pages: PageCount, job: &JobReport) -> bool {
        if self.waited < self.pace {
            return false;
        }
        self.doublings = 0;
        if !self.pays_for(pages, job) {
            return false;
        }
        if self.steps == PROOF {
            self.pace = (self.pace / 2).max(1);
            (self.steps, self.fell) = (0, false);
        }
        if !self.fell {
            self.proved = capacity;
        }
        self.fell = true;
        self.waited = 0;
        self.steps += 1;
        true
    }

    /// Whether half of what the job left of its budget and of its time is more than so many more swap-ins would take.
    /// The other half is for what the next job does that this one did not.
    fn pays_for(&self, pages: PageCount, job: &JobReport) -> bool {
        let pages = u64::from(pages.get());
        self.cpu.saturating_mul(pages) <= job.remaining.get() / 2
            && self.elapsed.saturating_mul(pages) <= job.slack.get() / 2
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

    fn grow(descent: &mut Descent, capacity: u32, growth: u32) -> PageCount {
        descent.grow(pages(capacity), pages(growth))
    }

    /// Lets jobs end until there is a step; how many.
    fn jobs_for_a_step(descent: &mut Descent, capacity: u32) -> u32 {
        for count in 1..=u32::from(SLOWEST_PACE) {
            descent.learn(&job());
            if descent.step(pages(capacity), pages(10), &job()) {
                return count;
            }
        }
        panic!("no step");
    }

    #[test]
    fn a_miss_after_steps_takes_them_back_and_slows_down() {
        let mut descent = Descent::default();
        assert_eq!(jobs_for_a_step(&mut descent, 1000), 16);
        assert_eq!(jobs_for_a_step(&mut descent, 980), 16);
        assert_eq!(grow(&mut descent, 960, 5), pages(1000));
        assert_eq!(jobs_for_a_step(&mut descent, 1000), 32);
        assert_eq!(grow(&mut descent, 980, 50), pages(1030));
        for _ in 0..10 {
            jobs_for_a_step(&mut descent, 1000);
            grow(&mut descent, 980, 1);
        }
        assert_eq!(jobs_for_a_step(&mut descent, 1000), u32::from(SLOWEST_PACE));
    }

    #[test]
    fn steps_without_a_miss_prove_their_capacity_and_speed_up() {
        let mut descent = Descent::default();
        for step in 0..8 {
            assert_eq!(jobs_for_a_step(&mut descent, 1000 - 10 * step), 16);
        }
        // The next one finds eight behind it, and it comes at the pace that they had.
        assert_eq!(jobs_for_a_step(&mut descent, 920), 16);
        assert_eq!(jobs_for_a_step(&mut descent, 910), 8);
        assert_eq!(grow(&mut descent, 900, 1), pages(920));
    }

    #[test]
    fn misses_in_a_row_grow_it_faster() {
        let mut descent = Descent::default();
        let mut capacity = 100;
        for grown in [110, 130, 170, 250, 410, 570] {
            assert_eq!(grow(&mut descent, capacity, 10), pages(grown));
            capacity = grown;
        }
        jobs_for_a_step(&mut descent, 570);
        grow(&mut descent, 560, 1);
        assert_eq!(grow(&mut descent, 570, 10), pages(580), "anew");
    }

    #[test]
    fn no_step_costs_more_than_half_of_what_a_job_leaves() {
        let mut descent = Descent::default();
        for _ in 0..100 {
            descent.learn(&job());
        }
        // 1 ms of CPU time and 2 ms of waiting each.
        assert!(!descent.step(pages(1000), pages(26), &job()), "52 ms of waiting");
        let mut busy = job();
        busy.remaining = Duration::from_millis(49);
        assert!(!descent.step(pages(1000), pages(25), &busy), "25 ms of CPU time");
        assert!(descent.step(pages(1000), pages(25), &job()));
    }
}
