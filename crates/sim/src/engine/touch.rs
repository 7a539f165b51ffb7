//! Accesses that fault.

use freehold_core::effect::Resolution;

use super::Engine;
use crate::error::SimError;
use crate::laws::Oracle;
use crate::tape::Ahead;
use crate::world::{FaultEnd, Touch, Wake};

/// How often one access may fault without waiting before it counts as stuck: absent, then read-only, and a page lost
/// again now and then.
const TRIES: u32 = 64;

impl Engine<'_> {
    /// Gives out the CPUs and lets running tasks touch the pages that are to be touched at this very instant, until
    /// nobody has any.
    pub(super) fn touch_pages(&mut self) -> Result<(), SimError> {
        loop {
            if self.reschedule {
                self.schedule();
            }
            let mut toucher = None;
            for cpu in 0..self.cpus.running().len() {
                toucher = self.cpus.running()[cpu].filter(|task| self.touches_now(*task));
                if toucher.is_some() {
                    break;
                }
            }
            let Some(task) = toucher else { return Ok(()) };
            self.touch(task)?;
        }
    }

    /// Whether a running task's next access is due and faults, or was held up by a fault.
    fn touches_now(&mut self, task: usize) -> bool {
        let runner = &mut self.runners[task];
        let Some(job) = runner.job.filter(|_| !runner.waits) else {
            return false;
        };
        if job.resumes {
            return true;
        }
        let made = runner.tape.made();
        job.time_until(made) == 0
            && made < job.shape.accesses
            && runner.tape.look_ahead(&self.world.tables, task) == Ahead::Fault(made)
    }

    /// Makes a task's next access, by way of faults, as far as that goes without waiting.
    fn touch(&mut self, task: usize) -> Result<(), SimError> {
        let Some(access) = self.runners[task].tape.next() else {
            return Ok(());
        };
        let touch = Touch {
            region: access.region.get(),
            page: access.page.get(),
            write: access.write,
        };
        let mut again = self.runners[task].job.is_some_and(|job| job.resumes);
        for _ in 0..TRIES {
            let table = self.world.tables.table(task, touch.region);
            if table.is_some_and(|table| table.hits(touch.page, 1, touch.write) == 1) {
                self.runners[task].tape.make(&mut self.world.tables, task, 1);
                self.done_touching(task);
                return Ok(());
            }
            self.recorder.fault(task);
            self.runners[task].account.note_touch(self.now);
            self.world.fault(self.now, task, touch, again)?;
            again = true;
            match self.hear_wakes_of(task) {
                None => {
                    self.wait(task);
                    return Ok(());
                }
                Some(Wake {
                    end: FaultEnd::Failed(_),
                    ..
                }) => {
                    self.done_touching(task);
                    return Ok(());
                }
                Some(_) => {}
            }
        }
        let name = &self.world.scenario.tasks[task].name;
        self.world
            .laws
            .report(self.now, Oracle::Liveness, || format!("{name} faults without end"));
        self.runners[task].tape.skip();
        self.done_touching(task);
        Ok(())
    }

    fn done_touching(&mut self, task: usize) {
        if let Some(job) = &mut self.runners[task].job {
            job.resumes = false;
        }
        self.recorder.made(task, 1);
    }

    fn wait(&mut self, task: usize) {
        self.recorder.begin(task);
        let now = self.now;
        let runner = &mut self.runners[task];
        if let Some(pinned) = &mut runner.pinned {
            runner.account.ledger.catch_up(now);
            pinned.begin_wait(now, runner.account.ledger.cpu());
        }
        runner.waits = true;
        runner.suspended = !self.spins;
        if let Some(job) = &mut runner.job {
            job.resumes = true;
        }
        self.reschedule = true;
    }

    /// Hears of faults that ended. None of them is of a task whose fault is being handled.
    pub(super) fn hear_wakes(&mut self) {
        while let Some(wake) = self.world.work.wakes.pop_front() {
            self.end_wait(wake);
        }
    }

    /// Hears of faults that ended, the task's own among them or not.
    fn hear_wakes_of(&mut self, task: usize) -> Option<Wake> {
        let mut own = None;
        while let Some(wake) = self.world.work.wakes.pop_front() {
            if wake.task == task {
                self.settle_fault(wake);
                own = Some(wake);
            } else {
                self.end_wait(wake);
            }
        }
        own
    }

    /// A task's wait is over.
    fn end_wait(&mut self, wake: Wake) {
        if wake.task >= self.runners.len() {
            self.end_restore_wait(wake);
            return;
        }
        self.settle_fault(wake);
        let runner = &mut self.runners[wake.task];
        runner.waits = false;
        if let (FaultEnd::Failed(_), Some(job)) = (wake.end, &mut runner.job) {
            job.resumes = false;
        }
        if runner.suspended {
            runner.suspended = false;
            self.make_ready(wake.task);
        }
        self.reschedule = true;
    }

    /// Charges what a fault cost. One that failed costs as much as a soft one, and its access is left out.
    fn settle_fault(&mut self, wake: Wake) {
        let cost = self.cost_of(&wake);
        self.world.log.fault_costs(wake.task, wake.end, cost);
        let now = self.now;
        let runner = &mut self.runners[wake.task];
        if let Some(pinned) = &mut runner.pinned {
            runner.account.ledger.catch_up(now);
            pinned.end_fault(now, runner.account.ledger.cpu(), wake.end, cost);
        }
        if let Some(job) = &mut runner.job {
            job.debt = job.debt.saturating_add(cost);
        }
        if let FaultEnd::Failed(_) = wake.end {
            runner.account.errors += 1;
            runner.tape.skip();
        }
    }

    /// CPU time that a fault costs, with its evictions and what is read ahead: of such a page all but the soft fault
    /// that it costs when it is touched.
    pub(super) fn cost_of(&self, wake: &Wake) -> u64 {
        let costs = &self.world.scenario.costs;
        let cost = match wake.end {
            FaultEnd::Mapped(Resolution::Soft | Resolution::Upgrade | Resolution::Ahead) | FaultEnd::Failed(_) => {
                costs.soft_fault
            }
            FaultEnd::Mapped(Resolution::ZeroFill | Resolution::Copy) => costs.zero_fill,
            FaultEnd::Mapped(Resolution::SwapIn { .. } | Resolution::FileRead) => costs.swap_in,
            FaultEnd::Retry => freehold_core::units::Duration::ZERO,
        };
        let evictions = costs.eviction.get().saturating_mul(wake.evictions);
        let reading = costs.swap_in.get().saturating_sub(costs.soft_fault.get());
        let ahead = reading.saturating_mul(wake.read_ahead);
        cost.get().saturating_add(evictions).saturating_add(ahead)
    }
}
