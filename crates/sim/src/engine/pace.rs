//! From one event to the next.

use super::Engine;

impl Engine<'_> {
    /// When something happens next.
    pub(super) fn next_event(&mut self) -> u64 {
        let mut next = self.end;
        if self.counts.is_none() {
            next = next.min(self.counts_at);
        }
        if let Some(end) = self.world.next_end() {
            next = next.min(end);
        }
        if let Some(restore) = self.next_restore() {
            next = next.min(restore);
        }
        for runner in &self.runners {
            next = next.min(runner.timer().unwrap_or(u64::MAX));
        }
        for cpu in 0..self.cpus.running().len() {
            if let Some(task) = self.cpus.running()[cpu] {
                next = next.min(self.now.saturating_add(self.time_to_stop(task)));
            }
        }
        next.max(self.now)
    }

    /// How long a running task can go on before it faults, ends its job, uses up its allowance, or has not been looked
    /// ahead of any further.
    fn time_to_stop(&mut self, task: usize) -> u64 {
        let runner = &mut self.runners[task];
        let allowance = runner.policy.allowance();
        match &runner.job {
            Some(job) if !runner.waits => {
                let ahead = runner.tape.look_ahead(&self.world.tables, task);
                allowance.min(job.time_until(ahead.access()))
            }
            _ => allowance,
        }
    }

    /// Lets every running task work until then.
    pub(super) fn advance_to(&mut self, next: u64) {
        let (before, time) = (self.now, next - self.now);
        self.now = next;
        if time == 0 {
            return;
        }
        for cpu in 0..self.cpus.running().len() {
            let Some(task) = self.cpus.running()[cpu] else { continue };
            let runner = &mut self.runners[task];
            runner.policy.consume(time);
            let Some(job) = runner.job.as_mut().filter(|_| !runner.waits) else {
                continue;
            };
            let served = job.spend(time);
            let begun = job.begun();
            runner.account.ledger.serve(served);
            if served > 0 {
                self.world.log.fault_served(before, task, served);
            }
            let clear = runner.tape.look_ahead(&self.world.tables, task).access();
            debug_assert!(
                begun <= clear,
                "accesses made that were not looked at: {begun} of {clear}"
            );
            let accesses = begun.min(clear).saturating_sub(runner.tape.made());
            if accesses > 0 {
                runner.tape.make(&mut self.world.tables, task, accesses);
                self.recorder.made(task, accesses);
            }
        }
    }
}
