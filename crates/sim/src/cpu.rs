//! The CPUs: which task runs on which.

/// The CPUs of the machine.
#[derive(Debug)]
pub(crate) struct Cpus {
    running: Vec<Option<usize>>,
    /// The CPU that each task ran on last.
    last: Vec<Option<usize>>,
    chosen: Vec<Option<usize>>,
}

impl Cpus {
    pub(crate) fn new(cpus: usize, tasks: usize) -> Self {
        Self {
            running: vec![None; cpus],
            last: vec![None; tasks],
            chosen: vec![None; cpus],
        }
    }

    /// The task on each CPU.
    pub(crate) fn running(&self) -> &[Option<usize>] {
        &self.running
    }

    /// The CPU a task runs on.
    pub(crate) fn of(&self, task: usize) -> Option<usize> {
        self.last[task].filter(|cpu| self.running[*cpu] == Some(task))
    }

    /// Gives the CPUs to these tasks, in this order, as far as they go. A task stays where it runs; else it takes, of
    /// those it may use and no task before it took: the one it ran on last if that is idle, the first idle one, or the
    /// one whose task comes last in the order. It does not push another task aside to a third CPU, nor does Linux.
    pub(crate) fn assign(&mut self, order: &[usize], may_use: impl Fn(usize, usize) -> bool) {
        self.chosen.fill(None);
        for (position, task) in order.iter().copied().enumerate() {
            let free = |cpu: &usize| self.chosen[*cpu].is_none() && may_use(task, *cpu);
            let last = self.last[task].filter(free);
            let stays = last.filter(|cpu| self.running[*cpu] == Some(task));
            let idle = |cpu: &usize| self.running[*cpu].is_none();
            let place_of = |cpu: usize| {
                let occupant = self.running[cpu];
                order[position..]
                    .iter()
                    .position(|other| Some(*other) == occupant)
                    .unwrap_or(usize::MAX)
            };
            let cpu = stays
                .or(last.filter(idle))
                .or_else(|| (0..self.running.len()).filter(free).find(idle))
                .or_else(|| {
                    (0..self.running.len())
                        .filter(free)
                        .max_by_key(|cpu| (place_of(*cpu), usize::MAX - *cpu))
                });
            if let Some(cpu) = cpu {
                self.chosen[cpu] = Some(task);
            }
            if self.chosen.iter().all(Option::is_some) {
                break;
            }
        }
        for (cpu, task) in self.chosen.iter().enumerate() {
            if let Some(task) = task {
                self.last[*task] = Some(cpu);
            }
        }
        std::mem::swap(&mut self.running, &mut self.chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: fn(usize, usize) -> bool = |_, _| true;

    #[test]
    fn tasks_stay_where_they_run() {
        let mut cpus = Cpus::new(2, 3);
        cpus.assign(&[0, 1], ANY);
        assert_eq!(cpus.running(), [Some(0), Some(1)]);
        cpus.assign(&[1, 0], ANY);
        assert_eq!(cpus.running(), [Some(0), Some(1)]);
        // A third one, above both, takes the CPU of the last.
        cpus.assign(&[2, 1, 0], ANY);
        assert_eq!(cpus.running(), [Some(2), Some(1)]);
        assert_eq!((cpus.of(0), cpus.of(2)), (None, Some(0)));
        // The displaced one comes back to its CPU.
        cpus.assign(&[1, 0], ANY);
        assert_eq!(cpus.running(), [Some(0), Some(1)]);
    }

    #[test]
    fn affinity_is_kept() {
        let mut cpus = Cpus::new(2, 3);
        let only_first = |task: usize, cpu: usize| task == 2 || cpu == 0;
        cpus.assign(&[0, 1, 2], only_first);
        assert_eq!(cpus.running(), [Some(0), Some(2)]);
    }
}
