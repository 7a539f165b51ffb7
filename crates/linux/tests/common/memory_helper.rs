//! The helper `freehold-memory` of a process, which holds that process's memory until it has ended.
//!
//! The tests of every crate whose processes have one include this file.
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process's helper.
pub(crate) struct Helper(u32);

impl Helper {
    /// The one whose parent is this process. It gives itself its name: that may be a moment after it began.
    pub(crate) fn of(process: u32) -> Self {
        eventually("the process has a helper", || Self::find(process).is_some());
        Self::find(process).expect("it stays")
    }

    fn find(process: u32) -> Option<Self> {
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let mut numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
        let own = numbers.find(|number| {
            let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
            field(&status, "Name:") == Some("freehold-memory")
                && field(&status, "PPid:") == Some(process.to_string().as_str())
        });
        own.map(Self)
    }

    fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        field(&status, name).unwrap_or_default().to_owned()
    }

    /// What it holds of memory, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let text = self.status("VmRSS:");
        text.trim_end_matches(" kB").parse().unwrap_or(0)
    }

    /// Descriptors that are open in it.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.0);
        fs::read_dir(folder).expect("its descriptors").count()
    }

    /// Its scheduling policy, as sched(7) numbers them: 0 is `SCHED_OTHER`.
    pub(crate) fn policy(&self) -> u32 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).expect("it lives");
        let (_, fields) = stat.rsplit_once(')').expect("its name");
        // The 41st field of proc_pid_stat(5), of which two lie before the name's end.
        let policy = fields.split_ascii_whitespace().nth(38);
        policy.and_then(|policy| policy.parse().ok()).expect("a number")
    }

    pub(crate) fn send(&self, signal: Signal) {
        let process = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        kill_process(process.expect("a process"), signal).expect("it is there");
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status("State:").chars().next(), None | Some('Z' | 'X'))
    }

    /// Whether nothing at all is left of it.
    pub(crate) fn has_been_waited_for(&self) -> bool {
        !fs::exists(format!("/proc/{}", self.0)).expect("processes")
    }

    /// Stops it, and waits until it is.
    pub(crate) fn stop(&self) {
        self.send(Signal::STOP);
        eventually("the helper stops", || self.status("State:").starts_with('T'));
    }

    /// Has it go on, and waits until it has ended.
    pub(crate) fn let_end(&self) {
        self.send(Signal::CONT);
        self.wait_for_end();
    }

    pub(crate) fn wait_for_end(&self) {
        eventually("the helper ends with its process", || self.has_ended());
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
