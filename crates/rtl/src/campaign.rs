//! A campaign of faults: the time-sharing side is broken again and again, and restarted, while the same program runs in
//! both spaces.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::control::{self, Insert, Request};
use crate::directory::{self, Directory, Kind};
use crate::fifo::peer::ProcessSide;
use crate::fifo::reader::Reader;
use crate::inject::Fault;
use crate::list;
use crate::load::{self, RtlError, Space};
use crate::process::HOST;
use crate::program;
use crate::reference::Reference;
use crate::starting;

/// How long a host may take to answer before it is called dead.
const ALIVE_WITHIN: Duration = Duration::from_millis(300);
/// From one fault to the next.
const STEP: Duration = Duration::from_millis(5);

const SEPARATE: &str = "steady_separate";
const SHARED: &str = "steady_shared";
const SEPARATE_FIFO: &str = "2";
const SHARED_FIFO: &str = "1";

/// What one kind of fault did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Toll {
    /// How often it was injected.
    pub injected: u64,
    /// How often the program of shared space ended with it.
    pub shared_ended: u64,
    /// How often the separate one did.
    pub separate_ended: u64,
}

/// What a campaign found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// By fault.
    pub faults: BTreeMap<Fault, Toll>,
    /// How often the time-sharing side was started again.
    pub restarts: u64,
    /// Periods of the separate program.
    pub periods: u64,
    /// Periods that it missed while the reference thread on its CPU was on time.
    pub missed: u64,
    /// Periods that it missed when the reference thread was late as well.
    pub missed_with_reference: u64,
    /// Looks at the task, one after each fault.
    pub looks: u64,
    /// Those before which the reference thread had been late.
    pub late_looks: u64,
    /// Looks whose misses are the task's own fault: the reference had been late before neither this nor the last one.
    pub judged_looks: u64,
    /// Page faults of its thread, of any kind.
    pub page_faults: u64,
    /// Messages of the separate program that were read.
    pub messages: u64,
    /// Messages whose check was wrong.
    pub torn: u64,
    /// Messages that did not come after the one before.
    pub disordered: u64,
    /// Impossible claims that its side of the FIFO has refused.
    pub corrupt_claims: u64,
    /// Whether each was said in its log.
    pub corruption_said: bool,
}

/// Runs `injections` faults, in an order that `seed` gives. `directory` is to be empty, and is the campaign's own.
///
/// # Errors
/// The program does not compile or load, or the host does not start: without rights, for example.
pub fn run(directory: &Directory, injections: u32, seed: u64) -> Result<Report, RtlError> {
    run_late(directory, injections, seed, 0)
}

/// The same with a separate task that is at fault itself: it computes for longer than a period in each period whose
/// number `late` divides, if that is not 0. For a look at the judging.
///
/// # Errors
/// As [`run`].
pub fn run_late(directory: &Directory, injections: u32, seed: u64, late: u32) -> Result<Report, RtlError> {
    let mut campaign = Campaign::begin(directory, late)?;
    for index in 0..injections {
        campaign.step(index, seed)?;
    }
    campaign.finish()
}

struct Campaign<'a> {
    directory: &'a Directory,
    object: PathBuf,
    host: Option<Child>,
    reference: Reference,
    reader: Reader,
    last: u64,
    missed: u64,
    was_late: bool,
    faults_before: u64,
    report: Report,
}

fn failed(error: impl ToString) -> RtlError {
    RtlError::Failed(error.to_string())
}

impl<'a> Campaign<'a> {
    fn begin(directory: &'a Directory, late: u32) -> Result<Self, RtlError> {
        let object = program::build(directory, SHARED, include_str!("../programs/steady.c"))?;
        let mut insert = Insert {
            parameters: parameters(SEPARATE_FIFO, "separate"),
            ..Insert::default()
        };
        insert.parameters.push(("late".to_owned(), late.to_string()));
        let own = object.with_file_name(format!("{SEPARATE}.so"));
        std::fs::copy(&object, &own).map_err(failed)?;
        load::insert(directory, &own, &Space::Separate.into(), insert)?;
        let side = directory
            .find(Kind::Fifo, SEPARATE_FIFO)
            .and_then(ProcessSide::of)
            .map_err(failed)?;
        let cpu = view(directory).map_or(0, |module| module.threads.first().map_or(0, |thread| thread.cpu));
        let mut campaign = Self {
            directory,
            object,
            host: None,
            reference: Reference::start(usize::try_from(cpu).unwrap_or(0)).map_err(failed)?,
            reader: Reader::new(side),
            last: 0,
            missed: 0,
            was_late: false,
            faults_before: 0,
            report: Report::default(),
        };
        campaign.restart_host()?;
        campaign.report.restarts = 0;
        campaign.faults_before = view(directory).map_or(0, |module| page_faults(&module));
        Ok(campaign)
    }

    fn step(&mut self, index: u32, seed: u64) -> Result<(), RtlError> {
        let mixed = seed.wrapping_add(u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fault = Fault::ALL[usize::try_from(index).unwrap_or(0) % Fault::ALL.len()];
        let request = Request::Inject { fault, seed: mixed };
        // A host that is killed by it does not answer.
        let _ = control::ask_within(&self.directory.socket(HOST), &request, ALIVE_WITHIN);
        std::thread::sleep(STEP);
        let toll = self.report.faults.entry(fault).or_default();
        toll.injected += 1;
        let serves = control::ask_within(&self.directory.socket(HOST), &Request::Ping, ALIVE_WITHIN).is_ok();
        if !serves || !self.directory.has(Kind::Module, SHARED) {
            toll.shared_ended += 1;
            self.restart_host()?;
        }
        if view(self.directory).is_none() {
            self.report.faults.entry(fault).or_default().separate_ended += 1;
            return Err(failed(format!("{fault:?} ended the separate task")));
        }
        self.read();
        self.judge();
        Ok(())
    }

    /// Starts the time-sharing side anew, with the program of shared space.
    fn restart_host(&mut self) -> Result<(), RtlError> {
        if let Some(mut host) = self.host.take() {
            // It may have ended by itself.
            let _ = host.kill();
            host.wait().map_err(failed)?;
        }
        self.report.restarts += 1;
        let mut command = Command::new(load::runner()?);
        command.arg("host").env(directory::VARIABLE, self.directory.path());
        let host = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let host = self.host.insert(host);
        let socket = self.directory.socket(HOST);
        let serves = || control::ask_within(&socket, &Request::Ping, ALIVE_WITHIN).is_ok();
        starting::wait_until(host, serves).map_err(|error| failed(format!("the host does not start: {error}")))?;
        let insert = Insert {
            name: SHARED.to_owned(),
            object: self.object.clone(),
            parameters: parameters(SHARED_FIFO, "shared"),
            ..Insert::default()
        };
        let answer = control::ask(&socket, &Request::Insert(insert)).map_err(failed)?;
        if answer.status == 0 {
            Ok(())
        } else {
            Err(RtlError::Failed(answer.error))
        }
    }

    /// Reads what the separate program wrote: in order, whole, and each once.
    fn read(&mut self) {
        let mut message = [0; 16];
        while self.reader.read(&mut message) == message.len() {
            let [number, check] = [0, 8].map(|at| {
                message[at..at + 8]
                    .iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            });
            self.report.messages += 1;
            self.report.torn += u64::from(check != !number);
            self.report.disordered += u64::from(number <= self.last);
            self.last = number;
        }
    }

    /// Counts what was missed since the last time, by whether the machine itself was late.
    ///
    /// What holds up the task holds up the reference, which is the more urgent of the two and says so first. So the
    /// misses are read before the reference is, and one that is read only now may go with what the reference said the
    /// last time.
    fn judge(&mut self) {
        let missed = view(self.directory).map_or(0, |module| module.threads.iter().map(|thread| thread.missed).sum());
        let late = self.reference.was_late();
        let new = missed - self.missed;
        self.missed = missed;
        self.report.looks += 1;
        self.report.late_looks += u64::from(late);
        if late || self.was_late {
            self.report.missed_with_reference += new;
        } else {
            self.report.judged_looks += 1;
            self.report.missed += new;
        }
        self.was_late = late;
    }

    fn finish(mut self) -> Result<Report, RtlError> {
        let module = view(self.directory).ok_or_else(|| failed("the separate task has ended"))?;
        self.report.periods = module.threads.iter().map(|thread| thread.periods).sum();
        self.report.page_faults = page_faults(&module).saturating_sub(self.faults_before);
        self.report.corrupt_claims = module.fifos.iter().map(|fifo| fifo.corrupt_claims).sum();
        load::remove(self.directory, SEPARATE, false)?;
        let log = std::fs::read_to_string(self.directory.log(SEPARATE)).unwrap_or_default();
        let said = log.lines().filter(|line| line.contains("index is impossible")).count();
        self.report.corruption_said = u64::try_from(said).is_ok_and(|said| said == self.report.corrupt_claims);
        Ok(std::mem::take(&mut self.report))
    }
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        if let Some(mut host) = self.host.take() {
            // It may have ended by itself.
            let _ = host.kill();
            let _ = host.wait();
        }
        // After an orderly end it is gone already.
        let _ = load::remove(self.directory, SEPARATE, true);
    }
}

fn parameters(fifo: &str, memory: &str) -> Vec<(String, String)> {
    vec![
        ("fifo".to_owned(), fifo.to_owned()),
        ("memory".to_owned(), memory.to_owned()),
    ]
}

fn view(directory: &Directory) -> Option<list::ModuleView> {
    list::modules(directory)
        .into_iter()
        .find(|module| module.name == SEPARATE)
}

/// Page faults of a module's threads so far, minor and major.
fn page_faults(module: &list::ModuleView) -> u64 {
    let of = |thread: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{}/task/{thread}/stat", module.pid)).ok()?;
        let fields: Vec<&str> = stat.rsplit(") ").next()?.split(' ').collect();
        Some(fields.get(7)?.parse::<u64>().ok()? + fields.get(9)?.parse::<u64>().ok()?)
    };
    module.threads.iter().filter_map(|thread| of(thread.thread)).sum()
}

/// A folder for a campaign, in memory.
///
/// # Errors
/// It cannot be made.
pub fn folder() -> io::Result<Directory> {
    Directory::at(Path::new("/dev/shm").join(format!("freehold-rtl-campaign-{}", std::process::id())))
}
