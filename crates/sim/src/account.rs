//! What becomes of a task's jobs.

use std::collections::VecDeque;

use freehold_core::units::Duration;
use freehold_scenario::recording::{Capacity, JobSpan, TaskRecording, keep};
use freehold_scenario::results::{Delays, LateJob, LateJobs, ResponseRecorder, TaskResult};

use crate::ledger::{Ledger, between};
use crate::pinned::JobFacts;

/// A job that was released and has not ended.
#[derive(Clone, Copy, Debug)]
struct Release {
    at: u64,
    /// The task's delays by then.
    delays: Delays,
}

/// The jobs of one task.
#[derive(Debug)]
pub(crate) struct Account {
    deadline: Option<u64>,
    open: VecDeque<Release>,
    /// Jobs that count: ended, or past their deadline.
    jobs: u64,
    misses: u64,
    max_tardiness: u64,
    late: LateJobs,
    responses: ResponseRecorder,
    /// Accesses that ended with an error.
    pub(crate) errors: u64,
    pub(crate) ledger: Ledger,
    record: Option<JobRecord>,
}

/// The jobs, for a recording.
#[derive(Debug)]
struct JobRecord {
    list: Vec<JobSpan>,
    room: usize,
    lost: u64,
    /// When the job under way first had a CPU.
    began: Option<u64>,
    /// It has done something since.
    touched: bool,
}

impl Account {
    pub(crate) fn new(deadline: Option<u64>, with_history: bool, recording: Option<Capacity>) -> Self {
        Self {
            deadline,
            open: VecDeque::new(),
            jobs: 0,
            misses: 0,
            max_tardiness: 0,
            late: LateJobs::new(),
            responses: ResponseRecorder::new(),
            errors: 0,
            ledger: Ledger::new(with_history, recording.map(|room| room.per_task_spans)),
            record: recording.map(|room| JobRecord {
                list: Vec::new(),
                room: room.per_task_jobs,
                lost: 0,
                began: None,
                touched: false,
            }),
        }
    }

    /// A job is released. It begins once all before it have ended.
    pub(crate) fn release(&mut self, now: u64) {
        self.ledger.catch_up(now);
        self.open.push_back(Release {
            at: now,
            delays: self.ledger.delays(),
        });
    }

    /// Jobs released and not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// The only open job ends now: what became of it. `None` where another has been released since: its period is over.
    pub(crate) fn facts_at_end(&mut self, now: u64) -> Option<JobFacts> {
        self.ledger.catch_up(now);
        let release = self.open.front().filter(|_| self.open.len() == 1)?;
        let deadline = release.at.saturating_add(self.deadline?);
        Some(JobFacts {
            missed: now > deadline,
            delays: between(&release.delays, &self.ledger.delays()),
            slack: deadline.saturating_sub(now),
        })
    }

    /// The period of the job released last is over: what became of it if it has not ended.
    pub(crate) fn facts_unfinished(&mut self, now: u64) -> Option<JobFacts> {
        self.ledger.catch_up(now);
        let release = self.open.back()?;
        Some(JobFacts {
            missed: true,
            delays: between(&release.delays, &self.ledger.delays()),
            slack: 0,
        })
    }

    /// The oldest open job has ended.
    pub(crate) fn end_job(&mut self, now: u64) {
        self.ledger.catch_up(now);
        let Some(release) = self.open.pop_front() else { return };
        self.responses.record(Duration::new(now - release.at));
        let missed = self
            .deadline
            .is_some_and(|deadline| now > release.at.saturating_add(deadline));
        self.note_job(self.jobs, now, release, missed, true);
        if missed {
            self.miss(now, release);
        }
        self.jobs += 1;
    }

    /// The run is over. Open jobs whose deadline has come can only be late.
    pub(crate) fn close(&mut self, end: u64) {
        self.ledger.catch_up(end);
        let mut number = self.jobs;
        while let Some(release) = self.open.pop_front() {
            let missed = self
                .deadline
                .is_some_and(|deadline| end >= release.at.saturating_add(deadline));
            self.note_job(number, end, release, missed, false);
            number += 1;
            if missed {
                self.miss(end, release);
                self.jobs += 1;
            }
        }
    }

    /// The oldest open job may have got a CPU: whether it has is known by the ledger.
    pub(crate) fn note_begin(&mut self, now: u64) {
        let Some(record) = &mut self.record else { return };
        match record.began {
            None if self.ledger.has_cpu() => record.began = Some(now),
            // Another one took the CPU before anything was done.
            Some(began) if began == now && !record.touched && self.ledger.is_ready() => record.began = None,
            _ => {}
        }
    }

    /// The oldest open job touches a page that it may not touch yet.
    pub(crate) fn note_touch(&mut self, now: u64) {
        if let Some(record) = &mut self.record {
            record.began.get_or_insert(now);
            record.touched = true;
        }
    }

    fn note_job(&mut self, number: u64, now: u64, release: Release, missed: bool, finished: bool) {
        let Some(record) = &mut self.record else { return };
        record.touched = false;
        let job = JobSpan {
            number,
            release_ns: release.at,
            begin_ns: record.began.take().unwrap_or(now),
            end_ns: now,
            deadline_ns: self.deadline.map(|deadline| release.at.saturating_add(deadline)),
            missed,
            finished,
            delays: between(&release.delays, &self.ledger.delays()),
        };
        keep(&mut record.list, record.room, &mut record.lost, job);
    }

    /// Jobs and spans recorded, and how many found no room; after the run.
    pub(crate) fn take_recording(&mut self) -> (TaskRecording, u64) {
        let (spans, lost) = self.ledger.take_spans();
        let (jobs, lost_jobs) = self
            .record
            .take()
            .map_or_else(Default::default, |record| (record.list, record.lost));
        let faults = Vec::new();
        let recording = TaskRecording {
            jobs,
            spans,
            faults,
            pinning: Vec::new(),
            pinning_lost: 0,
        };
        (recording, lost + lost_jobs)
    }

    fn miss(&mut self, now: u64, release: Release) {
        let response = now - release.at;
        let tardiness = response.saturating_sub(self.deadline.unwrap_or(u64::MAX));
        self.misses += 1;
        self.max_tardiness = self.max_tardiness.max(tardiness);
        let delays = between(&release.delays, &self.ledger.delays());
        let (response, tardiness) = (Duration::new(response), Duration::new(tardiness));
        self.late
            .record(LateJob::new(self.jobs, release.at, response, tardiness, delays));
    }

    /// Fills in what this account knows.
    pub(crate) fn report(self, result: &mut TaskResult) {
        let delays = self.ledger.delays();
        result.jobs = self.jobs;
        result.misses = self.misses;
        result.max_tardiness_ns = self.max_tardiness;
        result.response_ns = self.responses.response();
        result.times.cpu_ns = self.ledger.cpu();
        result.waits.cpu_wait_ns = delays.cpu_wait_ns;
        result.times.store_wait_ns = delays.store_wait_ns;
        result.times.fault_service_ns = delays.fault_service_ns;
        result.waits.lock_wait_ns = delays.lock_wait_ns;
        result.failed_accesses = self.errors;
        result.set_late_jobs(self.late);
    }

    /// Jobs ended so far; to be asked before [`close`](Self::close).
    pub(crate) fn ended(&self) -> u64 {
        self.jobs
    }
}
