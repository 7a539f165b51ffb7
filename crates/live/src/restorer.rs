//! Brings pages back for a task between the end of a job and its next release, in a thread of its own.
//!
//! The thread is of no real-time class and its reads are the last in the store's queue, so that it takes from nobody
//! but from tasks of its own kind. As in the simulator it begins as late as its quota allows where each page takes the
//! store twice its latency: sooner, most would not have gone yet. Whatever it is at when the job is released it ends
//! alone; the job may touch that very page, and then waits for it as for any other, which hurries.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::futex;
use freehold_pager::{EnterError, TaskHandle};
use freehold_scenario::{Scenario, setup};

/// The rounds are over.
const OVER: u32 = u32::MAX;

/// Where the task tells its restorer of the time between two jobs.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Odd while there is such a time.
    round: AtomicU32,
    release: AtomicU64,
}

impl Gate {
    fn round(&self) -> u32 {
        self.round.load(Ordering::Acquire)
    }

    /// No job is to be run before `release`. One system call.
    fn open(&self, release: MonotonicTime) {
        self.release.store(release.as_nanos(), Ordering::Relaxed);
        let round = self.round();
        self.round
            .store((round + 1 + round % 2) % (OVER - 1), Ordering::Release);
        futex::wake(&self.round, 1);
    }

    /// A job begins.
    fn close(&self) {
        let round = self.round();
        if round % 2 == 1 {
            self.round.store((round + 1) % (OVER - 1), Ordering::Release);
        }
    }

    /// Sleeps until the round is another one, or until then.
    fn wait(&self, round: u32, until: Option<MonotonicTime>) {
        while self.round() == round && until.is_none_or(|until| clock::now() < until) {
            if futex::wait(&self.round, round, until).is_err() {
                clock::sleep_until(clock::now().saturating_add(Duration::from_millis(1)));
            }
        }
    }
}

/// The task's side. When it is dropped, the restorer goes home.
#[derive(Debug)]
pub(crate) struct Opener<'a>(&'a Gate);

impl<'a> Opener<'a> {
    pub(crate) fn new(gate: &'a Gate) -> Self {
        Self(gate)
    }

    /// A job has ended, and the next is released then.
    pub(crate) fn job_ended(&self, next: Option<MonotonicTime>) {
        if let Some(next) = next.filter(|&next| next > clock::now()) {
            self.0.open(next);
        }
    }

    /// A job begins: no further page is brought back.
    pub(crate) fn job_begins(&self) {
        self.0.close();
    }
}

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.round.store(OVER, Ordering::Release);
        futex::wake(&self.0.round, u32::MAX);
    }
}

/// The restorer's side.
#[derive(Debug)]
pub(crate) struct Restorer<'a> {
    handle: &'a TaskHandle,
    gate: &'a Gate,
    quota: u32,
    /// How long before the release it begins.
    lead: Duration,
    /// How long it waits for more pages to leave.
    pause: Duration,
}

impl<'a> Restorer<'a> {
    /// For the task at `position`.
    pub(crate) fn new(scenario: &Scenario, position: usize, handle: &'a TaskHandle, gate: &'a Gate) -> Self {
        let quota = scenario.tasks[position].app.map_or(0, |app| app.restore);
        let (lead, pause) = setup::restore_times(scenario, quota);
        Self {
            handle,
            gate,
            quota,
            lead: Duration::from_nanos(lead.get()),
            pause: Duration::from_nanos(pause.get()),
        }
    }

    /// Until the task's thread has gone.
    pub(crate) fn main(&self) -> Result<(), EnterError> {
        let bound = self.handle.enter()?;
        loop {
            let round = self.gate.round();
            if round == OVER {
                return Ok(());
            }
            if round % 2 == 1 {
                let release = MonotonicTime::from_nanos(self.gate.release.load(Ordering::Relaxed));
                let lead = u64::try_from(self.lead.as_nanos()).unwrap_or(u64::MAX);
                let begin = MonotonicTime::from_nanos(release.as_nanos().saturating_sub(lead));
                self.gate.wait(round, Some(begin));
                let may_go_on = || self.gate.round() == round && clock::now() < release;
                let mut left = self.quota;
                while left > 0 && may_go_on() {
                    if bound.restore_next() {
                        left -= 1;
                    } else {
                        self.gate
                            .wait(round, Some(clock::now().saturating_add(self.pause).min(release)));
                    }
                }
            }
            self.gate.wait(round, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_open_close_and_end() {
        let gate = Gate::default();
        let opener = Opener::new(&gate);
        let soon = || Some(clock::now().saturating_add(Duration::from_secs(1)));
        opener.job_ended(soon());
        assert_eq!(gate.round(), 1);
        // The end of another job without a release between.
        opener.job_ended(soon());
        assert_eq!(gate.round(), 3);
        opener.job_begins();
        opener.job_begins();
        assert_eq!(gate.round(), 4);
        // A job that is late leaves no time.
        opener.job_ended(Some(MonotonicTime::from_nanos(1)));
        opener.job_ended(None);
        assert_eq!(gate.round(), 4);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.wait(4, None));
            drop(opener);
            waiting.join().expect("it is woken");
        });
        assert_eq!(gate.round(), OVER);
    }
}
