//! Isolation between processes under a memory server: the sibling is another client, which takes frames of the pool,
//! and the task stays inside its reservation.

use std::sync::atomic::AtomicBool;
use std::thread;

use clap::ValueEnum;
use freehold_client::{Connection, Question};
use freehold_linux::clock;
use freehold_live::OwnServer;
use freehold_report::status::StatusDocument;

use super::child::{HOG_FRAMES, HOG_PAGES, PERIOD, Report, Setting, WORKING_SET};
use super::tails::compare_tails;
use super::{AT_WORK, JOBS, LOOK, LOOKS, RUNS, Running, Side, stalls, this_command, unstalled};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, refused};
use freehold_command::exit_status::Failure;
use freehold_command::run_server::RunServer;
use freehold_command::signals;
use freehold_scenario::results::Judged;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "isolation",
    about: "the response time of a reserved task of a memory server beside another process under it that faults \
            as fast as it can",
    floor: "the same task alone",
    unit: "ns",
    judged: Judged::RatioP999,
    goal: 1.2,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let stop = signals::catch()?;
    let jobs = effort.scaled(JOBS);
    let bench = Measured::start_server(jobs, &stop)?;
    let (mut alone, mut computing) = (Side::new()?, Side::new()?);
    let (mut beside, mut locked) = (Side::new()?, Side::new()?);
    for _ in 0..effort.scaled(RUNS) * effort.rounds {
        let measure = |setting| unstalled(|| bench.measure(setting));
        alone.add(&measure(Setting::Served)?)?;
        let busy = bench.start(Setting::Busy)?;
        computing.add(&measure(Setting::Served)?)?;
        drop(busy);
        let _hog = bench.hog()?;
        beside.add(&measure(Setting::Served)?)?;
        locked.add(&measure(Setting::Locked)?)?;
    }
    Ok(report(Found::new()?, &alone, &beside, [&computing, &locked]))
}

/// A server, and how it is measured. Fields are dropped in this order.
pub(super) struct Measured<'a> {
    connection: Connection,
    process: OwnServer,
    jobs: u32,
    stop: &'a AtomicBool,
}

impl<'a> Measured<'a> {
    /// Starts a server with frames for the task's reservation, and a quarter of what the sibling touches.
    pub(super) fn start_server(jobs: u32, stop: &'a AtomicBool) -> Result<Self, Failure> {
        let pages = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let frames = pages(WORKING_SET + 64 + HOG_FRAMES);
        let launch = RunServer::plain(frames, pages(WORKING_SET + HOG_PAGES)).launch()?;
        let (process, connection) = OwnServer::start(&launch).map_err(refused)?;
        Ok(Self {
            connection,
            process,
            jobs,
            stop,
        })
    }

    fn start(&self, setting: Setting) -> Result<Running, Failure> {
        let mut command = this_command()?;
        let name = setting.to_possible_value();
        command.arg(name.map_or_else(String::new, |value| value.get_name().to_owned()));
        command.arg("--jobs").arg(self.jobs.to_string());
        command.arg("--socket").arg(self.process.socket());
        Running::start(command)
    }

    /// Runs the task; what the server brings in meanwhile is the sibling's.
    pub(super) fn measure(&self, setting: Setting) -> Result<Report, Failure> {
        let (before, begun) = (self.brought()?, clock::now());
        let text = self.start(setting)?.wait(self.stop)?;
        let report = serde_json::from_str::<Report>(&text);
        let mut report = report.map_err(|error| refused(format!("a measuring process said {text:?}: {error}")))?;
        report.sibling_faults = self.brought()?.saturating_sub(before);
        report.seconds = clock::now().saturating_since(begun).as_secs_f64();
        Ok(report)
    }

    /// Pages that the server has brought in from its store.
    fn brought(&self) -> Result<u64, Failure> {
        let text = self.connection.ask(Question::Status, "").map_err(refused)?;
        let status: StatusDocument = freehold_report::read(&text).map_err(refused)?;
        Ok(status.store.reads)
    }

    /// The sibling, at work.
    pub(super) fn hog(&self) -> Result<Running, Failure> {
        let before = self.brought()?;
        let mut hog = self.start(Setting::ServedHog)?;
        for _ in 0..LOOKS {
            if self.brought()? >= before + AT_WORK {
                return Ok(hog);
            }
            hog.must_run()?;
            thread::sleep(LOOK);
        }
        Err(refused("the sibling does nothing"))
    }
}

fn report(mut found: Found, alone: &Side, beside: &Side, [computing, locked]: [&Side; 2]) -> Found {
    found.floor.merge(&alone.without_stalls);
    found.ours.merge(&beside.without_stalls);
    found.add_side("mlockall", &locked.without_stalls);
    found.add_side("beside one that only computes", &computing.without_stalls);
    found.add_side("alone, with stalls", &alone.samples);
    found.add_side("beside the sibling, with stalls", &beside.samples);
    found.add_side("mlockall, with stalls", &locked.samples);
    found.add_side("beside one that only computes, with stalls", &computing.samples);
    beside.task_faults(&mut found);
    found.row("the sibling's faults in a second: ours", beside.rate().round(), "");
    found.row("the sibling's faults in a second: mlockall", locked.rate().round(), "");
    compare_tails(&mut found, beside, "alone", alone, 1.2);
    let what = "beside one that only computes";
    compare_tails(&mut found, beside, what, computing, 1.2);
    compare_tails(&mut found, beside, "mlockall", locked, 1.0);
    found.notes.push(stalls());
    found.notes.push(format!(
        "a SCHED_FIFO task on a CPU of its own reads and writes {WORKING_SET} pages every {} ms, a word of each cache \
         line; response from its release; the sibling is another process on another CPU, a client of the same server \
         without a reservation; mlockall is the same task in plain memory beside the same sibling",
        PERIOD.as_millis()
    ));
    found
}
