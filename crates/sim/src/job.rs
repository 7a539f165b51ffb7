//! One job: how far it has come in CPU time and in accesses.
//!
//! A job of n accesses and a total of W ns (n accesses at their cost, and its computation spread between them) makes
//! access k when it has worked for ⌊k·W / n⌋ ns. What faults cost comes on top as a debt, paid before the work goes on.

use freehold_scenario::{ComputeSpread, Costs, Task};

/// What every job of a task amounts to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) accesses: u64,
    pub(crate) work: u64,
}

impl Shape {
    pub(crate) fn of(task: &Task, costs: &Costs) -> Self {
        let accesses = ComputeSpread::of(task).accesses();
        let work = accesses
            .saturating_mul(costs.access.get())
            .saturating_add(task.compute.get());
        Self { accesses, work }
    }

    /// Work before access `access`; all work for the one past the last.
    pub(crate) fn work_before(&self, access: u64) -> u64 {
        if access >= self.accesses {
            return self.work;
        }
        let part = u128::from(access) * u128::from(self.work) / u128::from(self.accesses);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Accesses begun in the first `work` nanoseconds.
    pub(crate) fn accesses_within(&self, work: u64) -> u64 {
        if self.work == 0 {
            return 0;
        }
        let begun = (u128::from(work) * u128::from(self.accesses)).div_ceil(u128::from(self.work));
        u64::try_from(begun).unwrap_or(u64::MAX).min(self.accesses)
    }
}

/// A job under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) shape: Shape,
    /// Work done.
    pub(crate) done: u64,
    /// Fault service still to be paid.
    pub(crate) debt: u64,
    /// The access that faulted last has not been made: it comes first when the task runs again.
    pub(crate) resumes: bool,
}

impl Job {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            done: 0,
            debt: 0,
            resumes: false,
        }
    }

    /// CPU time until access `access` can be made; until the end for the one past the last.
    pub(crate) fn time_until(&self, access: u64) -> u64 {
        self.debt
            .saturating_add(self.shape.work_before(access).saturating_sub(self.done))
    }

    /// Spends CPU time, on the debt first. Returns how much of it the debt took.
    pub(crate) fn spend(&mut self, time: u64) -> u64 {
        let paid = time.min(self.debt);
        self.debt -= paid;
        self.done += time - paid;
        paid
    }

    /// Accesses begun by now.
    pub(crate) fn begun(&self) -> u64 {
        self.shape.accesses_within(self.done)
    }

    /// Whether nothing is left to do, `made` accesses having been made.
    pub(crate) fn is_finished(&self, made: u64) -> bool {
        made >= self.shape.accesses && self.debt == 0 && self.done >= self.shape.work && !self.resumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_and_work_invert_each_other() {
        for (accesses, work) in [(1, 1), (3, 10), (7, 7), (1000, 123_457), (5, 5_000_003)] {
            let shape = Shape { accesses, work };
            for access in 0..accesses {
                let before = shape.work_before(access);
                assert_eq!(shape.accesses_within(before), access, "{accesses} {work}");
                assert_eq!(shape.accesses_within(before + 1), access + 1, "{accesses} {work}");
            }
            assert_eq!(shape.work_before(accesses), work);
        }
    }

    #[test]
    fn debt_is_paid_before_work() {
        let mut job = Job::new(Shape { accesses: 2, work: 10 });
        job.debt = 4;
        assert_eq!(job.time_until(1), 9);
        assert_eq!((job.spend(3), job.begun()), (3, 0));
        assert_eq!((job.spend(3), job.begun()), (1, 1));
        assert_eq!((job.debt, job.done), (0, 2));
        assert!(!job.is_finished(1));
        job.spend(8);
        assert!(job.is_finished(2));
    }
}
