//! The run: virtual time goes from event to event. Between two events every running task makes accesses that hit, all
//! at once; where its next access faults is found by looking ahead.
//!
//! At one instant: jobs end, the store's requests end, counts are taken, timers expire, jobs are released, the CPUs are
//! given out, and last, tasks that run touch pages.

mod pace;
mod pinning;
mod touch;

use self::pinning::Restore;

use freehold_core::units::PageIndex;
use freehold_scenario::{RegionIndex, Scenario, StoreWait, setup};

use crate::counts::Counts;
use crate::cpu::Cpus;
use crate::device::Ended;
use crate::error::SimError;
use crate::lockstep::{Recorder, Step};
use crate::options::Options;
use crate::runner::Runner;
use crate::schedule::Rank;
use crate::world::{Ticket, World};

/// Everything of one run.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    pub(crate) world: World<'a>,
    pub(crate) runners: Vec<Runner>,
    pub(crate) recorder: Recorder,
    /// What was counted, once it was.
    pub(crate) counts: Option<Counts>,
    cpus: Cpus,
    now: u64,
    end: u64,
    counts_at: u64,
    /// Whoever may run may have changed.
    reschedule: bool,
    /// A running number: who became ready after whom.
    turn: u64,
    /// Whether tasks spin while they wait for the store.
    spins: bool,
    ready: Vec<(Rank, usize)>,
    order: Vec<usize>,
    /// Who brings pages back, in the order of [`setup::restorers`].
    restores: Vec<Restore>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(scenario: &'a Scenario, options: &Options) -> Result<Self, SimError> {
        let world = World::new(scenario, options)?;
        let tasks = scenario.tasks.len();
        let takes_part = |task: usize| world.names.tasks[task].is_some();
        let runners = (0..tasks)
            .map(|task| Runner::new(scenario, task, takes_part(task), options))
            .collect();
        let restores = setup::restorers(scenario).map(|task| {
            let quota = scenario.tasks[task].app.map_or(0, |app| app.restore);
            Restore::new(task, quota)
        });
        let restores = restores.collect();
        Ok(Self {
            world,
            runners,
            recorder: Recorder::new(options.schedule, tasks),
            counts: None,
            cpus: Cpus::new(usize::try_from(scenario.cpus).unwrap_or(1), tasks),
            now: 0,
            end: scenario.duration.get(),
            counts_at: scenario.counts_at().get(),
            reschedule: true,
            turn: 0,
            spins: scenario.store.wait == StoreWait::Spin,
            ready: Vec::with_capacity(tasks),
            order: Vec::with_capacity(tasks),
            restores,
        })
    }

    /// From time 0 to the end.
    pub(crate) fn run(&mut self) -> Result<(), SimError> {
        loop {
            self.world.sample(self.now);
            self.end_jobs();
            self.end_requests();
            self.advance_devices();
            if self.counts.is_none() && self.now >= self.counts_at {
                self.take_counts();
            }
            if self.now >= self.end {
                break;
            }
            self.expire_timers();
            self.release_jobs();
            self.restore_pages()?;
            self.touch_pages()?;
            let next = self.next_event();
            self.advance_to(next);
        }
        Ok(())
    }

    /// After the end: the store is left to finish, without further faults and with room for all, and nobody may be left
    /// waiting.
    pub(crate) fn settle(&mut self) {
        self.world.check_liveness(self.now);
        self.world.store.heal();
        self.world.physical.enlarge_store();
        if let Some(devices) = &mut self.world.devices {
            devices.heal();
        }
        while let Some(due) = self.world.next_end() {
            self.now = self.now.max(due);
            self.world.advance_devices(self.now);
            while let Some(ended) = self.world.store.end_one(self.now) {
                let failed = ended.failed || self.world.fails_for_room(&ended.ticket);
                self.world.complete(self.now, ended.ticket, failed);
            }
        }
        self.world.check_liveness(self.now);
        self.world.check_books(self.now);
    }

    fn end_jobs(&mut self) {
        for cpu in 0..self.cpus.running().len() {
            let Some(task) = self.cpus.running()[cpu].filter(|task| self.runners[*task].is_finished()) else {
                continue;
            };
            let report = self.report_of_end(task);
            self.recorder.job_end(task);
            self.world.end_job(task);
            self.world.job_of_devices(self.now, task, false);
            self.note_devices();
            self.hear_wakes();
            if let Some(report) = report {
                self.tell_report(task, report);
            }
            if self.runners[task].end_job(self.now) {
                self.begin_job(task);
            } else {
                self.begin_restore(task);
                self.reschedule = true;
            }
        }
    }

    fn begin_job(&mut self, task: usize) {
        self.recorder.job_start(task);
        self.world.job_of_devices(self.now, task, true);
        self.note_devices();
        self.runners[task].begin_job();
        self.runners[task].account.note_begin(self.now);
    }

    fn end_requests(&mut self) {
        while let Some(ended) = self.world.store.end_one(self.now) {
            let failed = ended.failed || self.world.fails_for_room(&ended.ticket);
            self.recorder.event(complete(&ended.ticket, failed));
            self.world.complete(self.now, ended.ticket, failed);
            self.hear_wakes();
        }
    }

    fn advance_devices(&mut self) {
        self.world.run_devices(self.now);
        self.note_devices();
        while let Some(ended) = self.world.end_of_copy() {
            if let Ended::Done(ticket) = &ended {
                self.recorder.event(complete(ticket, false));
            }
            self.world.end_copy(self.now, ended);
            self.hear_wakes();
        }
    }

    /// Devices that were opened and closed are steps, in that order.
    fn note_devices(&mut self) {
        while let Some((device, change)) = self.world.change_of_device() {
            self.recorder.event(Step::Device { device, change });
        }
    }

    fn take_counts(&mut self) {
        self.recorder.event(Step::Snapshot);
        self.world.check_books(self.now);
        self.world.check_residency(self.now);
        self.counts = Some(Counts::take(&self.world));
    }

    fn expire_timers(&mut self) {
        for cpu in 0..self.cpus.running().len() {
            let Some(task) = self.cpus.running()[cpu] else { continue };
            let runner = &mut self.runners[task];
            if runner.job.is_some() && !runner.suspended && runner.policy.allowance() == 0 {
                self.turn += 1;
                self.reschedule |= runner.policy.exhaust(self.now, self.turn);
            }
        }
        for runner in &mut self.runners {
            if runner.policy.timer().is_some_and(|timer| timer <= self.now) {
                runner.policy.expire(self.now);
                self.reschedule = true;
            }
        }
    }

    fn release_jobs(&mut self) {
        for task in 0..self.runners.len() {
            if self.runners[task].next_release.is_none_or(|release| release > self.now) {
                continue;
            }
            if let Some(report) = self.report_of_period(task) {
                self.tell_report(task, report);
            }
            self.end_restore(task);
            if self.runners[task].release(self.now) {
                self.begin_job(task);
                self.make_ready(task);
            }
        }
    }

    fn make_ready(&mut self, task: usize) {
        self.turn += 1;
        self.runners[task].policy.wake(self.now, self.turn);
        self.reschedule = true;
    }

    /// Gives out the CPUs, and notes who does what from now on.
    fn schedule(&mut self) {
        self.reschedule = false;
        self.ready.clear();
        let claims = self.runners.iter().enumerate();
        self.ready
            .extend(claims.filter_map(|(task, runner)| Some((runner.rank()?, task))));
        self.ready.sort_unstable();
        self.order.clear();
        self.order.extend(self.ready.iter().map(|(_, task)| *task));
        let runners = &self.runners;
        self.cpus.assign(&self.order, |task, cpu| runners[task].may_use(cpu));
        for (task, runner) in self.runners.iter_mut().enumerate() {
            let activity = runner.activity(self.cpus.of(task));
            runner.account.ledger.change(self.now, activity);
            if runner.job.is_some() {
                runner.account.note_begin(self.now);
            }
        }
    }
}

fn complete(ticket: &Ticket, failed: bool) -> Step {
    Step::Complete {
        region: RegionIndex::new(u16::try_from(ticket.region).unwrap_or(u16::MAX)),
        page: PageIndex::new(ticket.page.page().get()),
        request: ticket.request,
        failed,
        cached: ticket.cached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Mix, random_scenario};

    /// A bug planted in the core is found: whoever watches is awake.
    #[test]
    fn a_planted_bug_is_found() {
        let found = |seed: &u64| {
            let scenario = random_scenario(*seed, Mix::default());
            let options = Options {
                check_every: Some(1),
                ..Options::default()
            };
            let mut engine = Engine::new(&scenario, &options).unwrap();
            engine.world.memory.plant_ownership_bug();
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.run()));
            // Debug builds of the core notice by themselves.
            ran.is_err() || !engine.world.laws.into_laws().violations.is_empty()
        };
        let seeds = (0..200).filter(found).count();
        assert!(seeds > 20, "found by {seeds} of 200 seeds");
    }
}
