//! A mount of the command, in folders of its own.
#![allow(dead_code, reason = "not every test file uses everything")]

use crate::common;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// 20 MiB of memory of two devices.
const DEVICES: &str = "[region]\nbacking = \"small\"\n[[device]]\nname = \"mfc\"\nsize = \"12MiB\"\ntrusted = true\n\
                       [[device]]\nname = \"jpeg\"\nsize = \"8MiB\"\n";

/// Whether this process may mount; where not, that is said.
pub(crate) fn may_mount() -> bool {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !able {
        eprintln!("not run: mounting takes root and /dev/fuse");
    }
    able
}

/// A mount, taken off at the end of the test.
#[derive(Debug)]
pub(crate) struct Mounted {
    server: Child,
    pub(crate) source: PathBuf,
    pub(crate) at: PathBuf,
    /// The command that begins the server's, and its options.
    before: Vec<String>,
    options: Vec<String>,
}

/// Empty folders for a test, by name.
pub(crate) fn folders(name: &str) -> (PathBuf, PathBuf) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("mount-{name}-{}", std::process::id()));
    let (source, at) = (folder.join("source"), folder.join("at"));
    for path in [&source, &at] {
        std::fs::create_dir_all(path).expect("a folder for the test");
    }
    std::fs::write(folder.join("devices.toml"), DEVICES).expect("a device file");
    (source, at)
}

impl Mounted {
    /// Mounts a folder of its own with a page cache of this size.
    pub(crate) fn new(name: &str, cache: &str, options: &[&str]) -> Self {
        let (source, at) = folders(name);
        Self::of(&source, &at, cache, options)
    }

    /// Mounts these.
    pub(crate) fn of(source: &Path, at: &Path, cache: &str, options: &[&str]) -> Self {
        Self::begun_by(&[], (source, at), cache, options)
    }

    /// Mounts a folder of its own, in a process that may have so many descriptors and no right to more.
    pub(crate) fn with_descriptors(most: u32, name: &str, cache: &str, options: &[&str]) -> Self {
        let (source, at) = folders(name);
        let limited = common::with_descriptors(most);
        Self::begun_by(&limited, (&source, &at), cache, options)
    }

    fn begun_by(before: &[String], (source, at): (&Path, &Path), cache: &str, options: &[&str]) -> Self {
        let devices = at.with_file_name("devices.toml");
        let mut words = vec!["--cache".to_owned(), cache.to_owned(), "--devices".to_owned()];
        words.push(devices.display().to_string());
        words.extend(options.iter().map(|word| (*word).to_owned()));
        Self {
            server: serve(before, source, at, &words),
            before: before.to_vec(),
            source: source.to_path_buf(),
            at: at.to_path_buf(),
            options: words,
        }
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Whether the server's process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.try_wait().expect("its status").is_some()
    }

    /// Goes on with another mount at the same place; this one's server has ended.
    pub(crate) fn replace(&mut self, mut next: Self) {
        std::mem::swap(&mut self.server, &mut next.server);
        // Dropped, it would take the other off and remove the folders.
        std::mem::forget(next);
    }

    /// Kills the server, without a word to the kernel.
    pub(crate) fn kill(&mut self) {
        self.server.kill().expect("the server lives");
        self.server.wait().expect("its end");
    }

    /// Mounts again where it was.
    pub(crate) fn again(&mut self) {
        self.server = serve(&self.before, &self.source, &self.at, &self.options);
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.server);
        // It may have ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        until("the mount ends", || self.server.try_wait().expect("its status"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let limit = Instant::now() + Duration::from_secs(5);
        while Instant::now() < limit && matches!(self.server.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = Command::new("umount")
            .args(["-l", "-q"])
            .arg(&self.at)
            .stderr(Stdio::null())
            .status();
        if let Some(folder) = self.at.parent()
            && !std::thread::panicking()
        {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn serve(before: &[String], source: &Path, at: &Path, options: &[String]) -> Child {
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let mut command = common::freehold_under(&before, &["mount"]);
    command.args([source, at]).args(options).stdout(Stdio::piped());
    let mut server = command.spawn().expect("the command starts");
    let mut line = String::new();
    let output = server.stdout.take().expect("standard output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(line.contains(" at "), "it says when it is mounted: {line:?}");
    server
}

/// Waits for something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a program to its end, at most a minute, and wants it to succeed; its standard output.
pub(crate) fn succeed(program: impl AsRef<OsStr>, words: &[&str], folder: &Path) -> Vec<u8> {
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "60"])
        .arg(program.as_ref())
        .args(words)
        .current_dir(folder);
    let output = command.output().expect("timeout starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{:?} {words:?}: {} {said}",
        program.as_ref(),
        output.status
    );
    output.stdout
}
