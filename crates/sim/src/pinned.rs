//! What a task with a pinned page pool does in a job, for Algorithms 1 and 3 of paper 001, and what became of its pool.

use freehold_core::effect::Resolution;
use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView};
use freehold_core::units::Duration;
use freehold_scenario::Judgements;
use freehold_scenario::recording::PinningSpan;
use freehold_scenario::results::{Delays, TaskResult};

use crate::world::FaultEnd;

/// What became of a job by the time it is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobFacts {
    pub(crate) missed: bool,
    /// Since its release.
    pub(crate) delays: Delays,
    /// From its end to its deadline.
    pub(crate) slack: u64,
}

/// The books of one task.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    /// CPU time used when the last job was reported.
    cpu: u64,
    swap_ins: u32,
    swap_time: u64,
    swap_delay: u64,
    /// The access under way has waited since then, at this CPU time.
    waits_since: Option<(u64, u64)>,
    judgements: Judgements,
}

impl Pinned {
    /// `room`: judgements to record, if any are wanted.
    pub(crate) fn new(room: Option<usize>) -> Self {
        Self {
            judgements: Judgements::new(room),
            ..Self::default()
        }
    }

    /// An access begins to wait, or goes on waiting.
    pub(crate) fn begin_wait(&mut self, now: u64, cpu: u64) {
        self.waits_since.get_or_insert((now, cpu));
    }

    /// A fault ended, and its service costs so much. One that is tried again is still under way.
    pub(crate) fn end_fault(&mut self, now: u64, cpu: u64, end: FaultEnd, cost: u64) {
        if end == FaultEnd::Retry {
            return;
        }
        let since = self.waits_since.take().unwrap_or((now, cpu));
        if matches!(end, FaultEnd::Mapped(Resolution::SwapIn { .. })) {
            self.swap_ins = self.swap_ins.saturating_add(1);
            // On the CPU while it waited: spinning.
            self.swap_time += cost + (cpu - since.1);
            self.swap_delay += cost + (now - since.0);
        }
    }

    /// The report of a job; what follows counts for the next. `cpu`: the task's CPU time by now; `budget`: what was in
    /// force.
    pub(crate) fn report(&mut self, cpu: u64, budget: u64, job: JobFacts) -> JobReport {
        let running = cpu - std::mem::replace(&mut self.cpu, cpu);
        let memory = job.delays.store_wait_ns + job.delays.fault_service_ns;
        let all = memory + job.delays.cpu_wait_ns + job.delays.lock_wait_ns;
        let of_miss = |time: u64| Duration::new(if job.missed { time } else { 0 });
        JobReport {
            missed: job.missed,
            running: Duration::new(running),
            remaining: Duration::new(budget.saturating_sub(running)),
            swap_ins: std::mem::take(&mut self.swap_ins),
            swap_time: Duration::new(std::mem::take(&mut self.swap_time)),
            swap_delay: Duration::new(std::mem::take(&mut self.swap_delay)),
            delay: of_miss(all),
            memory_delay: of_miss(memory),
            slack: Duration::new(job.slack),
        }
    }

    /// What the core made of a report.
    pub(crate) fn judged(&mut self, now: u64, report: &JobReport, judgement: &Judgement, view: &PinnedPoolView) {
        self.judgements.note(now, report, judgement, view);
    }

    /// The judgements recorded, and how many found no room.
    pub(crate) fn recording(&self) -> (Vec<PinningSpan>, u64) {
        let (kept, lost) = self.judgements.kept();
        (kept.to_vec(), lost)
    }

    /// Fills in what is known over all jobs.
    pub(crate) fn set_result(&self, result: &mut TaskResult) {
        self.judgements.set_result(result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWAP_IN: FaultEnd = FaultEnd::Mapped(Resolution::SwapIn { shared: false });

    #[test]
    fn a_spun_wait_counts_as_cpu_time_and_a_slept_one_only_as_delay() {
        let mut pinned = Pinned::new(None);
        pinned.begin_wait(100, 50);
        pinned.end_fault(140, 90, SWAP_IN, 5);
        pinned.begin_wait(200, 95);
        // Tried again: it goes on.
        pinned.end_fault(230, 95, FaultEnd::Retry, 0);
        pinned.begin_wait(231, 95);
        pinned.end_fault(260, 95, SWAP_IN, 5);
        pinned.end_fault(300, 120, FaultEnd::Mapped(Resolution::ZeroFill), 7);
        let report = pinned.report(130, 200, JobFacts::default());
        assert_eq!(report.swap_ins, 2);
        assert_eq!(report.swap_time.get(), 40 + 5 + 5);
        assert_eq!(report.swap_delay.get(), 40 + 60 + 5 + 5);
        assert_eq!((report.running.get(), report.remaining.get()), (130, 70));
        // The next begins with nothing, and never has less than nothing left.
        let report = pinned.report(430, 200, JobFacts::default());
        assert_eq!(
            (report.swap_ins, report.running.get(), report.remaining.get()),
            (0, 300, 0)
        );
    }

    #[test]
    fn only_a_miss_has_a_delay() {
        let mut pinned = Pinned::new(None);
        let delays = Delays {
            cpu_wait_ns: 1,
            store_wait_ns: 2,
            fault_service_ns: 4,
            lock_wait_ns: 8,
        };
        let facts = |missed| JobFacts {
            missed,
            delays,
            slack: 0,
        };
        let report = pinned.report(1, 1, facts(true));
        assert_eq!((report.delay.get(), report.memory_delay.get()), (15, 6));
        let report = pinned.report(1, 1, facts(false));
        assert_eq!((report.delay.get(), report.memory_delay.get()), (0, 0));
    }
}
