//! Where the programs run: folders, a server, and one run after the other.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::workload::Workload;
use super::{cannot, inputs};
use freehold_linux::child::{die_with_parent, end_with_parent};
use rustix::process::Signal;

use crate::programs::cgroup::Limited;
use freehold_command::exit_status::Failure;
use freehold_command::leftovers::Workplace;
use freehold_command::process::own_executable;
use freehold_command::signals;

/// How long a server may take to listen.
const STARTING: Duration = Duration::from_secs(20);
/// The server's pool.
const POOL: &str = "2GiB";
/// No reservation is smaller, in KiB: what a shell needs to start anything.
const LEAST: u64 = 2_048;

/// Pages that the kernel may swap, at most: 1 GiB.
const SWAP_PAGES: usize = 1 << 18;

/// How much of its memory a program gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// All it uses, and half as much again.
    Ample,
    /// Half of what it uses.
    Half,
    /// A quarter.
    Quarter,
}

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ample => "ample",
            Self::Half => "half",
            Self::Quarter => "a quarter",
        })
    }
}

/// One run of one program.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: String,
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
    /// Every file it left, by name.
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(super) wall: Duration,
    /// The largest resident size of one of its processes, in KiB.
    peak: u64,
}

/// Folders and a server, all gone when dropped.
#[derive(Debug)]
pub(super) struct Place {
    place: Workplace,
    /// Seconds of film.
    film: u32,
    /// Python itself.
    python: String,
    /// A signal has asked for the end.
    stop: Arc<AtomicBool>,
    server: Child,
}

impl Place {
    /// Makes inputs and starts a server.
    pub(super) fn new(quick: bool) -> Result<Self, Failure> {
        // Before there is anything that a signal could leave behind.
        let stop = signals::catch()?;
        let place = Workplace::new()?;
        let inputs = place.path().join("inputs");
        fs::create_dir_all(&inputs).map_err(|error| cannot(&inputs.display().to_string(), error))?;
        let server = server(place.path())?;
        let place = Self {
            place,
            film: inputs::seconds(quick),
            python: python(),
            stop,
            server,
        };
        inputs::make(&inputs, quick).map_err(|error| cannot("making inputs", error))?;
        place.wait_for_server()?;
        Ok(place)
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("socket")
    }

    fn wait_for_server(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while !self.socket().exists() {
            if begun.elapsed() > STARTING {
                return Err(cannot("freehold serve", "it does not listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Runs a program as it is.
    pub(super) fn native(&self, workload: &Workload) -> Result<Outcome, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", workload.script]);
        self.run(command)
    }

    /// Runs a program under `freehold exec`.
    pub(super) fn managed(&self, workload: &Workload, native: &Outcome, size: Size) -> Result<Outcome, Failure> {
        let own = own_executable()?;
        let mut command = Command::new(own);
        command.arg("exec").arg("--socket").arg(self.socket());
        command.args([
            "--reserve",
            &self.reservation(native, size),
            "--",
            "sh",
            "-c",
            workload.script,
        ]);
        self.run(command)
    }

    /// Runs a program in a memory cgroup of the same size, whose pages the kernel swaps to memory.
    pub(super) fn kernel(&self, workload: &Workload, native: &Outcome, size: Size) -> Result<Outcome, Failure> {
        let kibibytes = usize::try_from(Self::kibibytes(native, size)).unwrap_or(usize::MAX);
        let limited = Limited::in_memory(kibibytes.saturating_mul(1024), SWAP_PAGES)?;
        let mut command = Command::new("sh");
        command.args(["-c", "echo 0 > \"$0\" && exec sh -c \"$1\""]);
        command.arg(limited.members()).arg(workload.script);
        self.run(command)
    }

    /// The reservation of a program that takes so much natively.
    #[allow(clippy::unused_self, reason = "the place decides what is ample")]
    pub(super) fn reservation(&self, native: &Outcome, size: Size) -> String {
        format!("{}KiB", Self::kibibytes(native, size))
    }

    fn kibibytes(native: &Outcome, size: Size) -> u64 {
        let kibibytes = match size {
            Size::Ample => native.peak * 3 + 65_536,
            Size::Half => native.peak / 2,
            Size::Quarter => native.peak / 4,
        };
        kibibytes.max(LEAST) / 4 * 4
    }

    fn run(&self, mut command: Command) -> Result<Outcome, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let folder = self.place.path().join("run");
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| cannot(&folder.display().to_string(), error))?;
        command
            .current_dir(&folder)
            .env("I", self.place.path().join("inputs"))
            .env("T", self.film.to_string())
            .env("PYTHON", &self.python)
            .env("LC_ALL", "C");
        die_with_parent(command.stdin(Stdio::null()), Signal::TERM);
        let begun = Instant::now();
        let measured = freehold_linux::child::measured_output(&mut command);
        let (output, peak) = measured.map_err(|error| cannot("starting a program", error))?;
        let wall = begun.elapsed();
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let mut files = BTreeMap::new();
        let read = collect(&folder, &folder, &mut files).and_then(|()| fs::remove_dir_all(&folder));
        read.map_err(|error| cannot("reading what a program wrote", error))?;
        Ok(Outcome {
            status: output.status.to_string(),
            output: output.stdout,
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            files,
            wall,
            peak,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing can be done where one of these fails.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// What `python3` runs in the end: the name may be a version manager's script, which starts dozens of shells first, and
/// the time would be theirs.
fn python() -> String {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.ok()
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| "python3".to_owned())
}

fn server(folder: &Path) -> Result<Child, Failure> {
    let own = own_executable()?;
    let mut command = Command::new(own);
    command.arg("serve").arg("--socket").arg(folder.join("socket"));
    command
        .args(["--pool", POOL, "--log-level", "error"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    end_with_parent(&mut command, Signal::TERM);
    command.spawn().map_err(|error| cannot("freehold serve", error))
}

/// Every file below `folder`, by its path from `root`.
fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.insert(name.to_owned(), fs::read(&path)?);
        }
    }
    Ok(())
}
