//! The thread that watches a run: it passes the caller's stop on, takes the counts in time, and samples.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::TaskHandle;
use freehold_rt::stop::StopFlag;
use freehold_scenario::{Scenario, setup};

use crate::error::LiveError;
use crate::placement::embedded::Machine;
use crate::placement::task_memory::PlacedTask;
use crate::result::Counts;
use crate::run::Finished;
use crate::sampler::Sampler;

/// How often the stop flag of the caller is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What pages for the tasks of a run.
pub(crate) trait Paging: Sync {
    /// The tasks, in the scenario's order.
    fn seats(&self) -> Vec<PlacedTask<'_>>;

    /// Who brings pages back, and for which tasks.
    fn restorers(&self, scenario: &Scenario) -> Vec<(usize, &TaskHandle)>;

    /// The counts of now; `settled` where nothing is under way.
    fn counts(&self, scenario: &Scenario, settled: bool) -> Result<Counts, LiveError>;

    /// The pager, where it is in this process, to take samples of.
    fn embedded(&self) -> Option<&Machine>;

    /// The run has begun: time 0 is known.
    fn begun(&self, _origin: MonotonicTime) {}
}

impl Paging for Machine {
    fn seats(&self) -> Vec<PlacedTask<'_>> {
        self.tasks.iter().map(PlacedTask::Embedded).collect()
    }

    fn restorers(&self, scenario: &Scenario) -> Vec<(usize, &TaskHandle)> {
        setup::restorers(scenario).zip(&self.restorers).collect()
    }

    fn counts(&self, scenario: &Scenario, settled: bool) -> Result<Counts, LiveError> {
        Counts::take(scenario, self, settled)
    }

    fn embedded(&self) -> Option<&Machine> {
        Some(self)
    }

    fn begun(&self, origin: MonotonicTime) {
        self.clients.begin(origin);
    }
}

/// What a watcher watches.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) paging: &'a dyn Paging,
    pub(crate) flag: &'a StopFlag,
    pub(crate) stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// Watches until the threads have ended. The counts are those of where the last full hyperperiod ends, if that is
    /// before the run does.
    pub(crate) fn watch(
        self,
        origin: MonotonicTime,
        handles: &[ScopedJoinHandle<'_, Option<Finished>>],
        mut sampler: Option<&mut Sampler>,
    ) -> Result<Option<Counts>, LiveError> {
        self.paging.begun(origin);
        let early = self.scenario.counts_at().get() < self.scenario.duration.get();
        let counts_at = origin.saturating_add(Duration::from_nanos(self.scenario.counts_at().get()));
        let mut counts = None;
        while handles.iter().any(|handle| !handle.is_finished()) {
            let now = clock::now();
            if early && counts.is_none() && now >= counts_at {
                counts = Some(self.paging.counts(self.scenario, false)?);
            }
            if self.stop.load(Ordering::Relaxed) {
                self.flag.raise();
            }
            let mut due = now.saturating_add(LOOK);
            if early && counts.is_none() {
                due = due.min(counts_at);
            }
            if let (Some(sampler), Some(machine)) = (sampler.as_deref_mut(), self.paging.embedded()) {
                sampler.look(machine, now);
                due = sampler.next().map_or(due, |next| due.min(next));
            }
            clock::sleep_until(due);
        }
        Ok(counts.filter(|_| !self.flag.is_raised()))
    }
}
