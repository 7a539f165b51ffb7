//! `freehold cache record`: which file pages a command uses, as a trace for `replay`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freehold_ecache::record::{Recorded, Recorder};
use freehold_linux::{sched, tracefs};
use serde_json::json;

use freehold_command::exit_status::{Failure, Status};
use freehold_command::{output, process, signals};

/// How long samples wait in the kernel's rings.
const PAUSE: Duration = Duration::from_millis(10);
/// Compression that keeps up with what is recorded.
const LEVEL: i32 = 3;
/// What a shell ends with where a command does not exist, and where it cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Options of `freehold cache record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; compressed where its name ends with .zst
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON document; what the command prints goes to standard error
    #[arg(long)]
    json: bool,
    /// The command: its children are recorded too
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Runs the subcommand; it ends as the command does.
pub(super) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let (ended, recorded) = record(arguments).map_err(Failure::of_exec)?;
    if arguments.json {
        output::print_json(&json!({ "events": recorded.events, "lost": recorded.lost }))?;
    } else {
        let Recorded { events, lost } = recorded;
        output::note(&format!("freehold: {events} rows, {lost} samples lost"));
    }
    let signal = ended.signal().map(|signal| 128 + signal);
    std::process::exit(signal.or(ended.code()).unwrap_or(1))
}

fn record(arguments: &Arguments) -> Result<(ExitStatus, Recorded), Failure> {
    let (program, rest) = arguments
        .command
        .split_first()
        .ok_or_else(|| Failure::Input("a command is missing".to_owned()))?;
    let stop = signals::catch()?;
    // Refused below, with its name, where the tracepoints cannot be read.
    let _ = tracefs::mount_for_this_thread();
    let file = &arguments.output;
    let wrong = |error: &dyn std::fmt::Display| Failure::Run(format!("{}: {error}", file.display()));
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let cpus = sched::online_cpus();
    let mut recorder = Recorder::start(&cpus, &format!("{name}#1")).map_err(|error| Failure::Run(error.to_string()))?;
    let mut out = Out::create(file).map_err(|error| wrong(&error))?;
    let mut child = start(program, rest, arguments.json)?;
    recorder.follow(child.id());
    let followed = follow(&mut recorder, &mut child, &mut out, &stop);
    if followed.is_err() {
        process::end(&mut child);
    }
    let ended = followed?;
    out.finish().map_err(|error| wrong(&error))?;
    Ok((ended, recorder.recorded()))
}

/// Records until the command has ended; asked to stop, it asks the command.
fn follow(recorder: &mut Recorder, child: &mut Child, out: &mut Out, stop: &AtomicBool) -> Result<ExitStatus, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(error.to_string());
    loop {
        let ended = child.try_wait().map_err(|error| failed(&error))?;
        recorder.take(out, ended.is_some()).map_err(|error| failed(&error))?;
        if let Some(ended) = ended {
            return Ok(ended);
        }
        if stop.load(Ordering::Relaxed) {
            process::end(child);
        }
        std::thread::sleep(PAUSE);
    }
}

fn start(program: &OsString, arguments: &[OsString], json: bool) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    command.args(arguments);
    if json {
        command.stdout(Stdio::from(io::stderr()));
    }
    command.spawn().map_err(|error| Failure::Exec {
        status: if error.kind() == io::ErrorKind::NotFound {
            NOT_FOUND
        } else {
            NOT_RUN
        },
        text: format!("{}: {error}", program.to_string_lossy()),
    })
}

/// The trace's file.
enum Out {
    Plain(BufWriter<File>),
    Compressed(zstd::Encoder<'static, BufWriter<File>>),
}

impl Out {
    fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        if path.extension().is_some_and(|extension| extension == "zst") {
            zstd::Encoder::new(file, LEVEL).map(Self::Compressed)
        } else {
            Ok(Self::Plain(file))
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Compressed(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Compressed(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Compressed(encoder) => encoder.flush(),
        }
    }
}
