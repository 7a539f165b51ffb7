//! One run: a soft-real-time program, GraphChi beside it, and what became of both.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_linux::clock::now;

use crate::programs::Limited;
use crate::reproduce::live::hog::Hog;
use crate::reproduce::live::jobs::{self, Jobs};
use crate::reproduce::live::process::Process;
use crate::reproduce::live::workload::{Pace, Program};
use crate::reproduce::live::workload_files::{JAVA, Scratch, WorkloadFiles};
use freehold_command::exit_status::Failure;
use freehold_command::private_server::{PrivateServer, exec_words};
use freehold_command::process;

/// How often the programs are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long a program may take to begin: its start is in its budget too.
const BEGINNING: Duration = Duration::from_secs(180);
/// How long GraphChi is waited for until it has done its first iteration, in which it is compiled and fills its heap.
const WARMING: Duration = Duration::from_secs(45);

/// Joins a memory cgroup and has a library loaded, then becomes the program.
const WRAPPER: &str = r#"[ -z "$FREEHOLD_JOIN" ] || echo $$ >"$FREEHOLD_JOIN" || exit 1
[ -z "$FREEHOLD_PRELOAD" ] || export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$FREEHOLD_PRELOAD"
exec "$@""#;

/// Who manages the memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// A memory server.
    Server(&'a PrivateServer),
    /// The kernel, within a group or without.
    Kernel(Option<&'a Limited>),
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) place: Place<'a>,
    /// Options of `freehold exec` for the soft-real-time program.
    pub(super) policy: &'a [&'a str],
    /// The soft-real-time program locks all its memory.
    pub(super) lock_all: bool,
    /// Whether GraphChi runs.
    pub(super) hog: bool,
    pub(super) seed: u32,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Of the soft-real-time program; nothing where there was none.
    pub(super) jobs: Option<Jobs>,
    /// Whole lines that it wrote.
    pub(super) output: Vec<u8>,
    /// Seconds that GraphChi took for an iteration.
    pub(super) iteration: Option<f64>,
}

/// Runs `program`, measured for so long.
///
/// # Errors
/// A program that does not begin, or ends early, or a stop.
pub(super) fn run(
    files: &WorkloadFiles,
    program: Option<Program>,
    setting: &Setting<'_>,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<Trial, Failure> {
    let scratch = files.scratch()?;
    let playing = program.map(|program| Playing::start(files, &scratch, program, setting));
    let mut playing = playing.transpose()?;
    if let Some(playing) = &mut playing {
        playing.begin(stop)?;
    }
    let started = now().as_nanos();
    let hog = setting.hog.then(|| start_hog(files, &scratch, setting)).transpose()?;
    let mut both = Both { playing, hog };
    let warm = Instant::now() + WARMING;
    while both.hog.as_ref().is_some_and(|hog| hog.iterations() == 0) && Instant::now() < warm {
        both.go_on(LOOK, stop)?;
    }
    let begin = now().as_nanos();
    let until = Instant::now() + duration;
    while Instant::now() < until {
        both.go_on(LOOK.min(until.saturating_duration_since(Instant::now())), stop)?;
    }
    let end = now().as_nanos();
    let Both { playing, hog } = both;
    let iteration = hog.as_ref().and_then(|hog| {
        let measured = hog.iteration_time(begin, end);
        // Where it is very slow, its first iterations say more than none.
        measured.or_else(|| hog.iteration_time(started, end))
    });
    let (mut jobs, mut output) = (None, Vec::new());
    if let Some(mut playing) = playing {
        playing.process.end();
        let period = u64::from(playing.program.timing().0) * 1_000_000;
        jobs = Some(jobs::read(&playing.report, begin, end.saturating_sub(period))?);
        output = playing.lines();
    }
    Ok(Trial {
        jobs,
        output,
        iteration,
    })
}

/// What a program writes natively in so many jobs.
///
/// # Errors
/// A program that fails, or a stop.
pub(super) fn native(
    files: &WorkloadFiles,
    program: Program,
    jobs: usize,
    seed: u32,
    stop: &AtomicBool,
) -> Result<Vec<u8>, Failure> {
    let scratch = files.scratch()?;
    let words = program.words(files, Pace::Native(jobs), seed);
    let mut command = wrapped(Vec::new(), &words);
    let output = dress(&mut command, files, &scratch, program)?;
    Process::start(program.name(), &mut command)?.succeed(stop)?;
    Ok(whole_lines(&output))
}

/// What runs in a trial.
struct Both {
    playing: Option<Playing>,
    hog: Option<Hog>,
}

impl Both {
    /// Lets them run.
    fn go_on(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), Failure> {
        process::pause(time, stop)?;
        if let Some(playing) = &mut self.playing {
            playing.must_run()?;
        }
        self.hog.as_mut().map_or(Ok(()), Hog::must_run)
    }
}

/// The soft-real-time program.
struct Playing {
    program: Program,
    process: Process,
    output: PathBuf,
    report: PathBuf,
    errors: PathBuf,
}

impl Playing {
    fn start(
        files: &WorkloadFiles,
        scratch: &Scratch,
        program: Program,
        setting: &Setting<'_>,
    ) -> Result<Self, Failure> {
        let (period, budget) = program.timing();
        let report = scratch.path().join("jobs");
        let mut options: Vec<OsString> = vec!["--period".into(), format!("{period}ms").into()];
        options.extend(["--budget".into(), format!("{budget}ms").into()]);
        options.extend(["--report-jobs".into(), report.clone().into_os_string()]);
        options.extend(setting.policy.iter().map(OsString::from));
        let words = program.words(files, Pace::Periodic, setting.seed);
        let mut command = wrapped(exec(setting.place, &options)?, &words);
        let output = dress(&mut command, files, scratch, program)?;
        join(&mut command, setting.place);
        if setting.lock_all {
            command.env("FREEHOLD_LOCK_ALL", "1");
        }
        Ok(Self {
            program,
            process: Process::start(program.name(), &mut command)?,
            output,
            report,
            errors: scratch.path().join("errors"),
        })
    }

    /// Waits until its start-up is over.
    fn begin(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let patience = Instant::now() + BEGINNING;
        while count_lines(&self.lines()) < self.program.begun() {
            if Instant::now() > patience {
                return Err(Failure::Run(format!("{} does not begin", self.program.name())));
            }
            process::pause(LOOK, stop)?;
            self.must_run()?;
        }
        Ok(())
    }

    fn must_run(&mut self) -> Result<(), Failure> {
        let errors = &self.errors;
        self.process.must_run(|| {
            let said = std::fs::read_to_string(errors).unwrap_or_default();
            said.trim().lines().next_back().unwrap_or_default().to_owned()
        })
    }

    fn lines(&self) -> Vec<u8> {
        whole_lines(&self.output)
    }
}

/// What a file has up to its last end of a line; nothing where there is no file yet.
fn whole_lines(path: &Path) -> Vec<u8> {
    let mut text = std::fs::read(path).unwrap_or_default();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    text.truncate(whole);
    text
}

/// How many lines a text has.
pub(super) fn count_lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

fn start_hog(files: &WorkloadFiles, scratch: &Scratch, setting: &Setting<'_>) -> Result<Hog, Failure> {
    let graph = scratch.graph(files)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // On the last CPU: what it loses it loses to memory, and not to who is given CPUs.
    let options: Vec<OsString> = vec!["--cpu".into(), (cpus - 1).to_string().into()];
    let words = [
        "java",
        JAVA[0],
        JAVA[1],
        "-cp",
        &files.class_path,
        "Walk",
        "graph",
        "1000000",
    ];
    let words = words.map(OsString::from);
    let mut command = wrapped(exec(setting.place, &options)?, &words);
    command.current_dir(graph);
    join(&mut command, setting.place);
    Hog::start(&mut command)
}

/// `freehold exec` with these options.
fn exec(place: Place<'_>, options: &[OsString]) -> Result<Vec<OsString>, Failure> {
    match place {
        Place::Server(server) => server.exec_with(options),
        Place::Kernel(_) => {
            let unmanaged = [OsString::from("--unmanaged")];
            let options: Vec<OsString> = unmanaged.into_iter().chain(options.iter().cloned()).collect();
            exec_words(&options)
        }
    }
}

fn wrapped(before: Vec<OsString>, words: &[OsString]) -> Command {
    let shell = ["sh", "-c", WRAPPER, "sh"].map(OsString::from);
    let mut all = before.into_iter().chain(shell).chain(words.iter().cloned());
    let mut command = Command::new(all.next().unwrap_or_default());
    command.args(all);
    command
}

/// Where a program's output goes, and what it finds in its environment.
fn dress(
    command: &mut Command,
    files: &WorkloadFiles,
    scratch: &Scratch,
    program: Program,
) -> Result<PathBuf, Failure> {
    let create = |name: &str| {
        let path = scratch.path().join(name);
        File::create(&path).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
    };
    let output = create("output")?;
    command.stdout(if program.writes_file() {
        Stdio::null()
    } else {
        output.into()
    });
    command.stderr(create("errors")?).current_dir(scratch.path());
    command.env("FREEHOLD_PRELOAD", files.preload());
    command.env("OPENBLAS_NUM_THREADS", "1").env("OMP_NUM_THREADS", "1");
    if program.has_one_thread() {
        command.env("FREEHOLD_ONE_THREAD", "1");
    }
    Ok(scratch.path().join("output"))
}

fn join(command: &mut Command, place: Place<'_>) {
    if let Place::Kernel(Some(limited)) = place {
        command.env("FREEHOLD_JOIN", limited.members().as_os_str() as &OsStr);
    }
}
