//! The account of a program's jobs: rows in a file while it runs, a summary at its end.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use freehold_client::{Observer, TaskCounts};
use freehold_linux::ThreadId;
use freehold_linux::clock::now;
use freehold_linux::sched::{self, Policy};
use freehold_linux::sched_events::{SchedEvents, SchedEventsError};
use freehold_rt::job_detection::{DetectedJob, JobDetector};
use serde::Serialize;

use crate::exec::job_rows::{First, Row, Totals};
use crate::exec::pinned::{self, Pinned};
use crate::exec::polling::Poll;
use crate::exit_status::Failure;
use crate::output;

/// How often the kernel's records are looked at, at most and at least.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(5);

/// A periodic thread whose jobs are to be written down.
#[derive(Debug)]
pub struct Subject {
    /// The main thread of the process of the same number.
    pub thread: ThreadId,
    /// How often a job is released.
    pub period: Duration,
    /// CPU time of a job.
    pub budget: Duration,
    /// A connection to the server that manages the process.
    pub server: Option<Observer>,
    /// Its pinned page pool.
    pub pinned: Option<Pinned>,
}

/// The thread that writes jobs down.
#[derive(Debug)]
pub struct Accounting {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), std::io::Error>>,
}

/// Where rows go.
#[derive(Debug)]
pub struct Report {
    file: BufWriter<File>,
}

impl Report {
    /// Makes the file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path);
        let file = file.map_err(|error| Failure::Input(format!("--report-jobs {}: {error}", path.display())))?;
        Ok(Self {
            file: BufWriter::new(file),
        })
    }

    fn line(&mut self, row: &impl Serialize) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.file, row)?;
        self.file.write_all(b"\n")
    }
}

impl Accounting {
    /// Begins to write down the jobs of a thread that runs already.
    ///
    /// # Errors
    /// No thread can be made, or there is a pinned page pool and the kernel does not say when jobs end.
    pub fn start(subject: Subject, report: Option<Report>) -> Result<Self, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&over);
        let switches = SchedEvents::of(subject.thread);
        let from = now();
        // A thread that has ended leaves nothing to judge.
        if let Err(reason) = &switches
            && subject.pinned.is_some()
            && !matches!(reason, SchedEventsError::NoSuchThread(_))
        {
            return Err(Failure::Run(format!(
                "--adaptive must see when jobs end, and whether they waited for pages: {reason}"
            )));
        }
        let switches = switches.map_err(|error| error.to_string());
        if let Err(reason) = &switches {
            output::note(&format!(
                "freehold: jobs are polled once a period, without releases, finishes and response times: {reason}"
            ));
        }
        let thread = std::thread::Builder::new().name("freehold-jobs".to_owned());
        let thread = thread.spawn(move || match switches {
            Ok(switches) => Account::new(subject, report, First::recorded_from(from)).observe(switches, &heard),
            Err(reason) => Account::new(subject, report, First::polled(reason)).poll(&heard),
        });
        let thread = thread.map_err(|error| Failure::Run(format!("cannot write jobs down: {error}")))?;
        Ok(Self { over, thread })
    }

    /// The program has ended: writes what is left, and says the summary.
    pub fn end(self) {
        self.over.store(true, Ordering::Release);
        let failed = match self.thread.join() {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the thread that writes them ended by a mistake of its own".to_owned(),
        };
        output::note(&format!("freehold: the report of jobs is not complete: {failed}"));
    }
}

struct Account {
    subject: Subject,
    report: Option<Report>,
    first: First,
    totals: Totals,
    last: Option<TaskCounts>,
    /// Swap-ins and fault service since the last row.
    since: Option<(u64, u64)>,
    /// What followed from the job that has no row yet.
    judgement: Option<pinned::Row>,
}

impl Account {
    fn new(subject: Subject, report: Option<Report>, first: First) -> Self {
        Self {
            subject,
            report,
            first,
            totals: Totals::default(),
            last: None,
            since: None,
            judgement: None,
        }
    }

    fn begin(&mut self) -> std::io::Result<()> {
        self.count();
        self.since = None;
        self.first.thread = self.subject.thread.get();
        self.first.period_ns = nanos(self.subject.period);
        self.first.budget_ns = nanos(self.subject.budget);
        self.first.class = match sched::policy(self.subject.thread) {
            Ok(Policy::Deadline(_)) => "deadline",
            Ok(_) => "other",
            Err(_) => "ended",
        };
        self.first.server_counts = self.subject.server.is_some();
        line(&mut self.report, &self.first)
    }

    /// By the kernel's records.
    fn observe(mut self, mut switches: SchedEvents, over: &AtomicBool) -> std::io::Result<()> {
        self.first.release = if switches.has_wakeups() { "wake-up" } else { "first-run" };
        if !switches.has_deep_sleeps() {
            self.first
                .lacks("tracepoints: a wait that no signal ends, for a disk or in munmap, ends a job");
        }
        if !switches.has_asking() {
            self.first
                .lacks("tracepoints with registers: a wait for the memory server's agent, in mmap, ends a job");
        }
        if let Some(missing) = self.first.missing() {
            output::note(&format!(
                "freehold: jobs may be seen to end too early, for want of {missing}"
            ));
        }
        self.begin()?;
        let step = (self.subject.period / 4).clamp(SHORTEST, LONGEST);
        let mut jobs = JobDetector::new(self.subject.period);
        let mut records = Vec::new();
        let mut counted = 0;
        let mut last = false;
        while !last {
            last = over.load(Ordering::Acquire);
            if !last {
                std::thread::sleep(step);
            }
            switches.take(&mut records, last);
            for record in records.drain(..) {
                if let Some(job) = jobs.record(&record) {
                    self.row(&job)?;
                }
            }
            // Soon after the job's end, so that the counts are its own.
            if let Some(job) = jobs.finished().filter(|job| job.release != counted) {
                counted = job.release;
                let job = *job;
                self.count();
                self.judge(&job);
            }
        }
        if let Some(job) = jobs.end(now().as_nanos()) {
            self.row(&job)?;
        }
        self.totals.lost_records = switches.lost();
        self.finish()
    }

    /// Without them.
    fn poll(mut self, over: &AtomicBool) -> std::io::Result<()> {
        self.begin()?;
        let mut poll = Poll::new(self.subject.thread);
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(self.subject.period);
            self.count();
            let Some(used) = poll.period() else {
                break;
            };
            let row = self.totals.polled(&used, self.since.take());
            line(&mut self.report, &row)?;
        }
        self.finish()
    }

    fn row(&mut self, job: &DetectedJob) -> std::io::Result<()> {
        if self.since.is_none() {
            // It and its successor's release were seen at once.
            self.count();
            self.judge(job);
        }
        let row: Row = self.totals.add(job, self.since.take(), self.judgement.take());
        line(&mut self.report, &row)
    }

    /// A job has ended, and the server's counts are there: once for each. A job in which the thread ended is none.
    fn judge(&mut self, job: &DetectedJob) {
        let (Some(pinned), Some((swap_ins, _))) = (&mut self.subject.pinned, self.since) else {
            return;
        };
        if self.judgement.is_none() && job.finish.is_some() {
            self.judgement = pinned.judge(job, swap_ins);
        }
    }

    /// Asks the server. A process that it does not know any more has no further counts.
    fn count(&mut self) {
        let process = self.subject.thread.get();
        let Some(Ok(counts)) = self.subject.server.as_ref().map(|server| server.counts_of(process)) else {
            return;
        };
        let before = self.last.unwrap_or_default();
        let (swap_ins, waited) = self.since.unwrap_or_default();
        let more = counts.waited.saturating_sub(before.waited).get();
        // Pages that came along with others were away as well.
        let pages = |counts: &TaskCounts| counts.swap_ins + counts.read_ahead;
        let pages = pages(&counts).saturating_sub(pages(&before));
        self.since = Some((swap_ins + pages, waited + more));
        self.last = Some(counts);
    }

    fn finish(mut self) -> std::io::Result<()> {
        let judged = self.subject.pinned.as_ref().map(|pinned| pinned.counts);
        let summary = self.totals.summary(judged.as_ref());
        line(&mut self.report, &summary)?;
        if let Some(report) = &mut self.report {
            report.file.flush()?;
        }
        let judged = judged.map(|counts| counts.text()).unwrap_or_default();
        output::note(&format!("{}{judged}", self.totals.text(self.subject.thread.get())));
        Ok(())
    }
}

fn line(report: &mut Option<Report>, row: &impl Serialize) -> std::io::Result<()> {
    report.as_mut().map_or(Ok(()), |report| report.line(row))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
