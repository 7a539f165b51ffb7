//! Isolation: the response time of a periodic task that touches all its memory in every job, alone and beside a
//! sibling that faults as fast as it can.
//!
//! Each way of giving the task its memory runs in a process of its own, because `mlockall` concerns a whole process;
//! all are this very command. The sibling is a thread of the same process where nothing else is said: that is the
//! harder case, since whatever it unmaps interrupts the CPU that the task runs on.

pub(crate) mod child;
mod job;
pub(crate) mod placements;
mod served;
pub(super) mod server;
mod tails;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use freehold_linux::PAGE_SIZE;
use freehold_linux::child::end_with_parent;
use rustix::process::Signal;

use super::Bench;
use super::rounds::{Effort, Found, Samples, refused};
use crate::programs::Limited;
use freehold_command::exit_status::Failure;
use freehold_command::process::own_executable;
use freehold_command::signals;
use freehold_scenario::results::Judged;

use child::{Report, Setting};
use tails::compare_tails;

/// Jobs of the task in one run of a setting: a second's worth, which most stalls of a machine leave whole.
const JOBS: u32 = 1000;
/// Runs of each setting in a round.
const RUNS: u32 = 3;
/// Runs of a setting that may be nothing but stalls.
const RUNS_TO_STALL: u32 = 10;
/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Pages that a sibling must have brought in before it counts as being at work.
const AT_WORK: u64 = 1000;
/// Looks at a sibling before it is given up.
const LOOKS: u32 = 500;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "isolation",
    about: "the response time of a reserved task beside a sibling that faults as fast as it can",
    floor: "the same task alone",
    unit: "ns",
    judged: Judged::RatioP999,
    goal: 1.2,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let stop = signals::catch()?;
    let mut found = Found::new()?;
    let jobs = effort.scaled(JOBS);
    let mut others = [
        (Setting::Mlockall, Side::new()?),
        (Setting::Computing, Side::new()?),
        (Setting::MlockallApart, Side::new()?),
        (Setting::Cgroup, Side::new()?),
        (Setting::AloneLarge, Side::new()?),
        (Setting::BesideLarge, Side::new()?),
    ];
    let (mut alone, mut ours) = (Side::new()?, Side::new()?);
    let mut missing = None;
    for _ in 0..effort.scaled(RUNS) * effort.rounds {
        alone.add(&measure(Setting::Alone, jobs, &stop)?)?;
        ours.add(&measure(Setting::Beside, jobs, &stop)?)?;
        for (setting, side) in &mut others {
            if *setting == Setting::Cgroup && missing.is_some() {
                continue;
            }
            match measure(*setting, jobs, &stop) {
                Ok(report) => side.add(&report)?,
                Err(Failure::Run(reason)) if *setting == Setting::Cgroup => missing = Some(reason),
                Err(failure) => return Err(failure),
            }
        }
    }
    report(&mut found, &alone, &ours, &others);
    if let Some(reason) = missing {
        found.notes.push(format!(
            "the kernel's memory cgroup with swap was not measured: {reason}"
        ));
    }
    Ok(found)
}

/// What one setting gave in all rounds.
#[derive(Debug)]
struct Side {
    samples: Samples,
    /// Less the stalls of the machine.
    without_stalls: Samples,
    /// The 99.9th percentile of each run, less those.
    tails: Vec<f64>,
    /// The same with them.
    stalled: Vec<f64>,
    /// Page faults of the task.
    task_faults: u64,
    /// Those of the sibling.
    faults: f64,
    seconds: f64,
}

impl Side {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            samples: Samples::new()?,
            without_stalls: Samples::new()?,
            tails: Vec::new(),
            stalled: Vec::new(),
            task_faults: 0,
            faults: 0.0,
            seconds: 0.0,
        })
    }

    #[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
    fn add(&mut self, report: &Report) -> Result<(), Failure> {
        let samples = report.samples()?;
        self.stalled.push(samples.quantiles().p999);
        self.samples.merge(&samples);
        let without_stalls = report.samples_without_stalls()?;
        self.tails.push(without_stalls.quantiles().p999);
        self.without_stalls.merge(&without_stalls);
        self.task_faults += report.faults;
        self.faults += report.sibling_faults as f64;
        self.seconds += report.seconds;
        Ok(())
    }

    /// Page faults of the task, which has all its memory.
    #[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
    fn task_faults(&self, found: &mut Found) {
        let what = "page faults of the task beside the sibling";
        found.goal_row(what, self.task_faults as f64, "", 0.0);
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 {
            self.faults / self.seconds
        } else {
            0.0
        }
    }
}

fn report(found: &mut Found, alone: &Side, ours: &Side, others: &[(Setting, Side)]) {
    let measured = || others.iter().filter(|(_, side)| side.seconds > 0.0);
    found.floor.merge(&alone.without_stalls);
    found.ours.merge(&ours.without_stalls);
    // There a page that is absent is what stops the task.
    let is_stopped_by_faults = |setting: Setting| setting == Setting::Cgroup;
    for (setting, side) in measured().filter(|(setting, _)| !is_stopped_by_faults(*setting)) {
        found.add_side(setting.name(), &side.without_stalls);
    }
    let own = [(Setting::Alone, alone), (Setting::Beside, ours)];
    for (setting, side) in own
        .into_iter()
        .chain(measured().map(|(setting, side)| (*setting, side)))
    {
        found.add_side(&format!("{}, with stalls", setting.name()), &side.samples);
    }
    ours.task_faults(found);
    found.row("the sibling's faults in a second: ours", ours.rate().round(), "");
    for (setting, side) in others.iter().filter(|(_, side)| side.faults > 0.0) {
        let what = format!("the sibling's faults in a second: {}", setting.name());
        found.row(&what, side.rate().round(), "");
    }
    let [(_, mlockall), (_, computing), ..] = others else {
        return;
    };
    compare_tails(found, ours, "alone", alone, 1.2);
    compare_tails(found, ours, "beside one that only computes", computing, 1.2);
    compare_tails(found, ours, "mlockall", mlockall, 1.0);
    found.notes.push(format!(
        "a SCHED_FIFO task on a CPU of its own reads and writes {} pages, each several times, every {} ms; response \
         from its release; the sibling is on another CPU",
        child::WORKING_SET,
        child::PERIOD.as_millis()
    ));
    let note = "each batch that the sibling evicts makes all CPUs of the process forget translations, which the task \
                has to find again: that costs by the size of its working set";
    found.notes.push(note.to_owned());
    found.notes.push(stalls());
}

/// What the numbers without stalls are.
fn stalls() -> String {
    format!(
        "without stalls where nothing else is said: a stall is a wake-up that comes more than {} us late, or so long a \
         gap between two touches: no page of the task is ever absent, so the pager does not stop it, and what it does \
         to the task's CPU takes microseconds; a virtual machine is stopped so, and more often when all its CPUs are \
         busy. Runs of {JOBS} jobs, one after the other, are compared pair by pair; the interval has the median of \
         such ratios in it in 95 of 100 cases",
        child::STALL.as_micros()
    )
}

/// Runs one setting until its task was not stopped in every job.
///
/// # Errors
/// It is stopped in all of several runs, or a run fails.
fn unstalled(mut run: impl FnMut() -> Result<Report, Failure>) -> Result<Report, Failure> {
    for _ in 0..RUNS_TO_STALL {
        let report = run()?;
        if report.has_figure() {
            return Ok(report);
        }
    }
    Err(refused(
        "this machine stops the task in every job, so nothing can be said of it: leave the machine idle",
    ))
}

fn measure(setting: Setting, jobs: u32, stop: &AtomicBool) -> Result<Report, Failure> {
    match setting {
        // There a page that is absent is what stops the task.
        Setting::Cgroup => measure_once(setting, jobs, stop),
        _ => unstalled(|| measure_once(setting, jobs, stop)),
    }
}

/// Runs one setting in a process of its own.
fn measure_once(setting: Setting, jobs: u32, stop: &AtomicBool) -> Result<Report, Failure> {
    // Dropped last, and so undone after the process has ended.
    let limited = (setting == Setting::Cgroup).then(limited).transpose()?;
    let mut command = this_command()?;
    command.arg(
        setting
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned()),
    );
    command.arg("--jobs").arg(jobs.to_string());
    if let Some(limited) = &limited {
        command.arg("--join").arg(limited.members());
    }
    let _hog = (setting == Setting::MlockallApart).then(hog).transpose()?;
    let mut child = Running::start(command)?;
    let text = child.wait(stop)?;
    serde_json::from_str(&text).map_err(|error| refused(format!("a measuring process said {text:?}: {error}")))
}

/// A memory cgroup with a little less memory than its process wants, and room in swap for all that does not fit.
fn limited() -> Result<Limited, Failure> {
    /// What a process of this command needs besides.
    const PROCESS: usize = 1024;
    let pages = child::WORKING_SET + child::HOG_FRAMES + PROCESS;
    Limited::new(pages * PAGE_SIZE, 2 * child::HOG_PAGES + child::WORKING_SET + 4096)
}

/// The sibling alone, as a process that ends when this is dropped.
fn hog() -> Result<Running, Failure> {
    let mut command = this_command()?;
    command.arg(
        Setting::Hog
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned()),
    );
    Running::start(command)
}

/// A process of a memory cgroup that touches more memory than the cgroup has, again and again, until it is dropped. It
/// has brought pages back already.
///
/// # Errors
/// It ends, or the kernel takes nothing from it.
pub(crate) fn hog_of(group: &Limited) -> Result<Running, Failure> {
    let mut command = this_command()?;
    let name = Setting::KeptHog.to_possible_value();
    command.arg(name.map_or_else(String::new, |value| value.get_name().to_owned()));
    command.arg("--join").arg(group.members());
    let mut hog = Running::start(command)?;
    for _ in 0..LOOKS {
        if hog.brought_back() > AT_WORK {
            return Ok(hog);
        }
        hog.must_run()?;
        thread::sleep(LOOK);
    }
    Err(refused(
        "the kernel takes no page from a process that has more than its memory cgroup",
    ))
}

/// A memory cgroup with less than that process touches, though with room for `bytes` of others beside a part of it; and
/// room in swap for all.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn group_beside_hog(bytes: usize) -> Result<Limited, Failure> {
    let limit = bytes + child::HOG_PAGES * PAGE_SIZE;
    Limited::in_memory(limit, child::KEPT_PAGES + bytes / PAGE_SIZE)
}

fn this_command() -> Result<Command, Failure> {
    let mut command = Command::new(own_executable()?);
    command.arg("bench-isolation");
    Ok(command)
}

/// A child process, ended when dropped.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// Pages that it has had read back so far.
    pub(crate) fn brought_back(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        fields
            .split(' ')
            .nth(9)
            .and_then(|major| major.parse().ok())
            .unwrap_or(0)
    }

    fn start(mut command: Command) -> Result<Self, Failure> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        end_with_parent(&mut command, Signal::KILL);
        command.spawn().map(Self).map_err(refused)
    }

    /// # Errors
    /// It has ended.
    fn must_run(&mut self) -> Result<(), Failure> {
        match self.0.try_wait().map_err(refused)? {
            Some(status) => Err(refused(format!("a process ended early: {status}"))),
            None => Ok(()),
        }
    }

    /// Waits for the end, and returns what it printed: little enough for a pipe.
    fn wait(&mut self, stop: &AtomicBool) -> Result<String, Failure> {
        let status = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            if let Some(status) = self.0.try_wait().map_err(refused)? {
                break status;
            }
            thread::sleep(LOOK);
        };
        let (mut said, mut complained) = (String::new(), String::new());
        if let (Some(stdout), Some(stderr)) = (&mut self.0.stdout, &mut self.0.stderr) {
            stdout.read_to_string(&mut said).map_err(refused)?;
            stderr.read_to_string(&mut complained).map_err(refused)?;
        }
        if status.success() {
            return Ok(said);
        }
        let reason = complained.trim().trim_start_matches("freehold: ");
        Err(Failure::Run(if reason.is_empty() {
            status.to_string()
        } else {
            reason.to_owned()
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for a process that has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
