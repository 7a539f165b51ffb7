//! The lines of a report of jobs.

use freehold_linux::clock::MonotonicTime;
use freehold_rt::job_detection::DetectedJob;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::pinned;
use super::polling::Used;
use crate::output::human_time;

/// An hour; longer responses count as that.
const LONGEST_RESPONSE: u64 = 3_600_000_000_000;

/// The first line: whose jobs, and how they are found.
#[derive(Debug, Serialize)]
pub(super) struct First {
    pub(super) thread: u32,
    pub(super) class: &'static str,
    pub(super) period_ns: u64,
    pub(super) budget_ns: u64,
    method: &'static str,
    pub(super) release: &'static str,
    missing: Option<String>,
    /// What the thread did before this is not known.
    records_from_ns: Option<u64>,
    pub(super) server_counts: bool,
}

impl First {
    /// Something that the kernel does not tell here.
    pub(super) fn lacks(&mut self, what: &str) {
        let before = self.missing.take().map(|text| text + "; ");
        self.missing = Some(before.unwrap_or_default() + what);
    }

    /// What is missing, for people.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// By records of context switches that begin at `time`.
    pub(super) fn recorded_from(time: MonotonicTime) -> Self {
        Self {
            records_from_ns: Some(time.as_nanos()),
            ..Self::RECORDS
        }
    }

    const RECORDS: Self = Self {
        thread: 0,
        class: "other",
        period_ns: 0,
        budget_ns: 0,
        method: "switch-records",
        release: "first-run",
        missing: None,
        records_from_ns: None,
        server_counts: false,
    };

    /// Without them, for this reason.
    pub(super) fn polled(reason: String) -> Self {
        Self {
            method: "polling",
            release: "poll",
            missing: Some(reason),
            ..Self::RECORDS
        }
    }
}

/// One job.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    job: u64,
    release_ns: Option<u64>,
    start_ns: Option<u64>,
    finish_ns: Option<u64>,
    cpu_ns: u64,
    late: bool,
    periods: Option<u64>,
    cpu_wait_ns: u64,
    fault_wait_ns: Option<u64>,
    fault_waits: Option<u64>,
    call_wait_ns: Option<u64>,
    cpu_after_ns: Option<u64>,
    swap_ins: Option<u64>,
    fault_service_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judgement: Option<pinned::Row>,
}

/// The last line.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    jobs: u64,
    late: u64,
    response_p50_ns: Option<u64>,
    response_p99_ns: Option<u64>,
    response_max_ns: Option<u64>,
    cpu_ns: u64,
    cpu_wait_ns: u64,
    fault_wait_ns: u64,
    call_wait_ns: u64,
    swap_ins: u64,
    lost_records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    judgements: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    judgements_failed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgets_not_given: Option<u64>,
}

/// Sums over jobs.
#[derive(Debug)]
pub(super) struct Totals {
    jobs: u64,
    late: u64,
    cpu: u64,
    cpu_wait: u64,
    fault_wait: u64,
    call_wait: u64,
    swap_ins: u64,
    responses: Option<Histogram<u64>>,
    pub(super) lost_records: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            jobs: 0,
            late: 0,
            cpu: 0,
            cpu_wait: 0,
            fault_wait: 0,
            call_wait: 0,
            swap_ins: 0,
            // Bounds and digits that can be had.
            responses: Histogram::new_with_bounds(1, LONGEST_RESPONSE, 3).ok(),
            lost_records: 0,
        }
    }
}

impl Totals {
    /// Adds a job, what the server counted for it (swap-ins and fault service), and what followed.
    pub(super) fn add(&mut self, job: &DetectedJob, counts: Option<(u64, u64)>, judgement: Option<pinned::Row>) -> Row {
        self.jobs += 1;
        self.late += u64::from(job.late);
        self.cpu += job.cpu;
        self.cpu_wait += job.cpu_wait;
        self.fault_wait += job.fault_wait;
        self.call_wait += job.call_wait;
        self.swap_ins += counts.map_or(0, |(pages, _)| pages);
        if let Some(responses) = self.responses.as_mut().filter(|_| job.finish.is_some()) {
            responses.saturating_record(job.response());
        }
        Row {
            job: self.jobs,
            release_ns: Some(job.release),
            start_ns: Some(job.start).filter(|start| *start > 0),
            finish_ns: job.finish,
            cpu_ns: job.cpu,
            late: job.late,
            periods: Some(job.periods),
            cpu_wait_ns: job.cpu_wait,
            fault_wait_ns: Some(job.fault_wait),
            fault_waits: Some(job.fault_waits),
            call_wait_ns: Some(job.call_wait),
            cpu_after_ns: Some(job.cpu_after),
            swap_ins: counts.map(|(pages, _)| pages),
            fault_service_ns: counts.map(|(_, service)| service),
            judgement,
        }
    }

    /// Adds a period that was polled.
    pub(super) fn polled(&mut self, used: &Used, counts: Option<(u64, u64)>) -> Row {
        self.jobs += 1;
        self.late += u64::from(used.never_blocked);
        self.cpu += used.cpu;
        self.cpu_wait += used.cpu_wait;
        self.swap_ins += counts.map_or(0, |(pages, _)| pages);
        Row {
            job: self.jobs,
            release_ns: None,
            start_ns: None,
            finish_ns: None,
            cpu_ns: used.cpu,
            late: used.never_blocked,
            periods: None,
            cpu_wait_ns: used.cpu_wait,
            fault_wait_ns: None,
            fault_waits: None,
            call_wait_ns: None,
            cpu_after_ns: None,
            swap_ins: counts.map(|(pages, _)| pages),
            fault_service_ns: counts.map(|(_, service)| service),
            judgement: None,
        }
    }

    fn quantile(&self, quantile: f64) -> Option<u64> {
        let responses = self.responses.as_ref().filter(|all| !all.is_empty())?;
        Some(responses.value_at_quantile(quantile))
    }

    /// The last line.
    pub(super) fn summary(&self, judged: Option<&pinned::Counts>) -> Summary {
        Summary {
            jobs: self.jobs,
            late: self.late,
            response_p50_ns: self.quantile(0.5),
            response_p99_ns: self.quantile(0.99),
            response_max_ns: self.quantile(1.0),
            cpu_ns: self.cpu,
            cpu_wait_ns: self.cpu_wait,
            fault_wait_ns: self.fault_wait,
            call_wait_ns: self.call_wait,
            swap_ins: self.swap_ins,
            lost_records: self.lost_records,
            judgements: judged.map(|counts| counts.judged),
            judgements_failed: judged.map(|counts| counts.failed),
            budgets_not_given: judged.map(|counts| counts.not_given),
        }
    }

    /// The same for people.
    pub(super) fn text(&self, thread: u32) -> String {
        let time = |quantile| self.quantile(quantile).map_or_else(|| "unknown".to_owned(), human_time);
        let lost = match self.lost_records {
            0 => String::new(),
            lost => format!("; {lost} records were lost, and jobs with them"),
        };
        format!(
            "freehold: thread {thread}: {} jobs, {} late; response p50 {}, p99 {}, max {}; of all jobs' time {} ran, \
             {} waited for a CPU, {} waited in page faults, {} waited in system calls; {} swap-ins{lost}",
            self.jobs,
            self.late,
            time(0.5),
            time(0.99),
            time(1.0),
            human_time(self.cpu),
            human_time(self.cpu_wait),
            human_time(self.fault_wait),
            human_time(self.call_wait),
            self.swap_ins
        )
    }
}

#[cfg(test)]
mod tests {
    use super::First;
    use freehold_linux::clock::MonotonicTime;

    #[test]
    fn all_that_is_missing_is_said() {
        let mut first = First::recorded_from(MonotonicTime::from_nanos(7));
        assert_eq!((first.missing(), first.records_from_ns), (None, Some(7)));
        first.lacks("one");
        first.lacks("another");
        assert_eq!(first.missing(), Some("one; another"));
    }
}
