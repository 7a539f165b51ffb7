//! What `insmod`, `rmmod` and `mount` do: from outside the processes that modules run in.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::compile::{self, CompileError};
use crate::control::{self, Answer, Insert, Request};
use crate::directory::{self, Directory, Kind};
use crate::process::HOST;
use crate::status::Status;

/// Where a module runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// In the host's process.
    Shared,
    /// In a process of its own.
    Separate,
}

/// Where a module is to run, and what its process is started by.
#[derive(Clone, Debug)]
pub struct Place {
    /// In which space.
    pub space: Space,
    /// A command, with its arguments, that starts the process of a separate task; empty where none is needed.
    pub launcher: Vec<OsString>,
}

impl From<Space> for Place {
    fn from(space: Space) -> Self {
        Self {
            space,
            launcher: Vec::new(),
        }
    }
}

/// Why it is not done, and how the command ends.
#[derive(Debug, thiserror::Error)]
pub enum RtlError {
    /// The input is wrong.
    #[error("{0}")]
    Input(String),
    /// The object is.
    #[error("{0}")]
    Object(#[from] CompileError),
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

impl RtlError {
    /// Whether the user's input is at fault.
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Object(_))
    }
}

/// A module's name: its file's, without the ending.
fn name_of(object: &Path) -> Result<String, RtlError> {
    let name = object
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if name.is_empty() || name.len() > 60 || !name.bytes().all(fits) || name == HOST {
        return Err(RtlError::Input(format!(
            "{}: a module's name consists of letters, digits, _ and -, and is not {HOST}",
            object.display()
        )));
    }
    Ok(name)
}

/// The program that modules run in: beside this one, or in `../lib/freehold`.
///
/// # Errors
/// It is nowhere.
pub fn runner() -> Result<PathBuf, RtlError> {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new(""));
    let places = ["freehold-rtl", "../freehold-rtl", "../lib/freehold/freehold-rtl"].map(|place| folder.join(place));
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        RtlError::Failed(format!(
            "freehold-rtl is not in {}: cargo build -p freehold-rtl",
            folder.display()
        ))
    })
}

/// Where the API's library is: in cargo's folder for libraries, or beside the program that loads it.
pub(crate) fn library_folder(runner: &Path) -> PathBuf {
    let folder = runner.parent().unwrap_or(Path::new(""));
    let places = [folder.join("deps"), folder.to_owned()];
    let found = places.iter().find(|place| place.join("libfreehold_rtl.so").is_file());
    found.unwrap_or(&places[1]).clone()
}

/// Loads `object` and calls its `init_module`.
///
/// # Errors
/// See [`RtlError`]; nothing is loaded then.
pub fn insert(directory: &Directory, object: &Path, place: &Place, mut insert: Insert) -> Result<(), RtlError> {
    insert.name = name_of(object)?;
    let failed = |error: io::Error| RtlError::Failed(error.to_string());
    let found = object.canonicalize();
    let object = found.map_err(|error| RtlError::Input(format!("{}: {error}", object.display())))?;
    let runner = runner()?;
    let linked = directory
        .path()
        .join(format!("{}-{}.so", insert.name, std::process::id()));
    insert.object = if object.extension().is_some_and(|ending| ending == "so") {
        object
    } else {
        compile::link(&object, &linked, &library_folder(&runner))?;
        linked.clone()
    };
    let answer = match place.space {
        Space::Shared => control::ask(&directory.socket(HOST), &Request::Insert(insert)).map_err(no_host),
        Space::Separate => start(directory, &place.launcher, &runner, &insert).map_err(failed),
    };
    // The dynamic linker has it mapped; where it was not made there is nothing to remove.
    let _ = fs::remove_file(linked);
    done(&answer?)
}

fn no_host(error: io::Error) -> RtlError {
    RtlError::Failed(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "no host runs: start freehold rtl host".to_owned()
        }
        _ => format!("the host did not answer: {error}"),
    })
}

fn done(answer: &Answer) -> Result<(), RtlError> {
    match answer.status {
        0 => Ok(()),
        2 => Err(RtlError::Input(answer.error.clone())),
        _ => Err(RtlError::Failed(answer.error.clone())),
    }
}

/// Starts a separate task; its answer.
fn start(directory: &Directory, launcher: &[OsString], runner: &Path, insert: &Insert) -> io::Result<Answer> {
    let mut words = launcher.iter().cloned().chain([runner.as_os_str().to_owned()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg("task").arg(serde_json::to_string(insert)?);
    command.env(directory::VARIABLE, directory.path());
    // What it says goes to a file: it may live longer than who reads this command's own output.
    let said = directory.path().join(format!("{}.err", insert.name));
    command.stderr(fs::File::create(&said)?);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let text = fs::read_to_string(&said).unwrap_or_default();
    // What comes later nobody reads.
    let _ = fs::remove_file(&said);
    if line.is_empty() {
        let status = child.wait()?;
        return Ok(Answer::failed(format!(
            "the task ended before its module was loaded: {status}\n{text}"
        )));
    }
    let answer: Answer = serde_json::from_str(&line)?;
    if answer.status != 0 {
        child.wait()?;
    }
    Ok(answer)
}

/// Calls a module's `cleanup_module` and takes it out. With `force`, a separate task that is busy is killed.
///
/// # Errors
/// No such module, or it is busy.
pub fn remove(directory: &Directory, name: &str, force: bool) -> Result<(), RtlError> {
    let status = directory.find(Kind::Module, name).ok().and_then(Status::of);
    let Some(status) = status else {
        return Err(RtlError::Input(format!("no module {name} is loaded")));
    };
    let owner = if status.is_separate() { name } else { HOST };
    let request = Request::Remove { name: name.to_owned() };
    let answer = control::ask(&directory.socket(owner), &request);
    match answer {
        Ok(answer) if answer.status == 0 => wait_gone(directory, name),
        _ if force && status.is_separate() => {
            kill(status.process());
            wait_gone(directory, name)
        }
        Ok(answer) => done(&answer),
        Err(error) => Err(no_host(error)),
    }
}

fn kill(process: u32) {
    if let Ok(process) = i32::try_from(process) {
        // SAFETY: touches no memory. The process is the one that publishes the module under /proc, so it lives.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }
}

fn wait_gone(directory: &Directory, name: &str) -> Result<(), RtlError> {
    let until = Instant::now() + Duration::from_secs(5);
    while directory.has(Kind::Module, name) {
        if Instant::now() >= until {
            return Err(RtlError::Failed(format!("{name} does not end")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Has the host serve FIFOs in `path`.
///
/// # Errors
/// No host runs, or it cannot.
pub fn mount(directory: &Directory, path: &Path, dev: bool) -> Result<(), RtlError> {
    let absolute = std::path::absolute(path).map_err(|error| RtlError::Failed(error.to_string()))?;
    let request = Request::Mount {
        directory: absolute,
        dev,
    };
    done(&control::ask(&directory.socket(HOST), &request).map_err(no_host)?)
}
