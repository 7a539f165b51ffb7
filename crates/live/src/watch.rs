//! The thread that watches a run: it passes the caller's stop on, takes the counts in time, and samples.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_rt::stop::StopFlag;
use freehold_scenario::Scenario;

use crate::collect::Counts;
use crate::error::LiveError;
use crate::machine::Machine;
use crate::run::Finished;
use crate::sampler::Sampler;

/// How often the stop flag of the caller is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What a watcher watches.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) machine: &'a Machine,
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
        let early = self.scenario.counts_at().get() < self.scenario.duration.get();
        let counts_at = origin.saturating_add(Duration::from_nanos(self.scenario.counts_at().get()));
        let mut counts = None;
        while handles.iter().any(|handle| !handle.is_finished()) {
            let now = clock::now();
            if early && counts.is_none() && now >= counts_at {
                counts = Some(Counts::take(self.scenario, self.machine, false)?);
            }
            if self.stop.load(Ordering::Relaxed) {
                self.flag.raise();
            }
            let mut due = now.saturating_add(LOOK);
            if early && counts.is_none() {
                due = due.min(counts_at);
            }
            if let Some(sampler) = sampler.as_deref_mut() {
                sampler.look(self.machine, now);
                due = sampler.next().map_or(due, |next| due.min(next));
            }
            clock::sleep_until(due);
        }
        Ok(counts.filter(|_| !self.flag.is_raised()))
    }
}
