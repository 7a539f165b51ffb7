//! `wrk` as a client of one front: a connection and a request each, one after the other, with a pause between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use freehold_linux::child::end_with_parent;
use rustix::process::Signal;
use serde::Deserialize;

use super::failed;
use crate::programs;
use freehold_command::exit_status::Failure;

const INSTALL: &str = "apt-get install -y --no-install-recommends wrk";
/// `wrk` asks `delay` for milliseconds before each request, and calls `done` with microseconds in the end.
const SCRIPT: &str = r#"
function delay() return 1 end
function done(summary, latency)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  local json = '{"mean_us": %d, "answers": %d, "refused": %d, "lost": %d}'
  print(string.format(json, latency.mean, summary.requests, errors.status, lost))
end
"#;

/// What a client found.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Report {
    /// Mean of all answers, from the request to its last byte.
    pub(super) mean_us: u64,
    pub(super) answers: u64,
    /// Answers that are errors of the service.
    pub(super) refused: u64,
    /// Requests without an answer.
    pub(super) lost: u64,
}

/// The script, as a file.
#[derive(Debug)]
pub(super) struct Script(PathBuf);

impl Script {
    /// Writes it into that folder.
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        programs::require(&["wrk"], INSTALL)?;
        let path = folder.join("wrk.lua");
        std::fs::write(&path, SCRIPT).map_err(failed)?;
        Ok(Self(path))
    }

    /// A client of that port for so long, in whole seconds.
    pub(super) fn start(&self, port: u16, duration: Duration) -> Result<Client, Failure> {
        let mut command = Command::new("wrk");
        command
            .args(["--threads", "1", "--connections", "1", "--duration"])
            .arg(format!("{}s", duration.as_secs()))
            .arg("--script")
            .arg(&self.0)
            .arg(format!("http://127.0.0.1:{port}/"))
            .stdout(Stdio::piped());
        end_with_parent(&mut command, Signal::KILL);
        command.spawn().map(|child| Client(Some(child))).map_err(failed)
    }
}

/// A client that runs; dropping this ends it.
#[derive(Debug)]
pub(super) struct Client(Option<Child>);

impl Client {
    /// Waits for its end.
    pub(super) fn report(mut self) -> Result<Report, Failure> {
        let child = self.0.take().ok_or_else(|| failed("no client"))?;
        let output = child.wait_with_output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| failed(format!("wrk ended with {:?}", text.trim_end())))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
