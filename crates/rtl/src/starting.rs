//! Waiting for a process that starts, as long as it gets on: a machine that is busy takes its time.

use std::fs;
use std::io::Read;
use std::process::Child;
use std::time::{Duration, Instant};

/// A process that has not run for so long, and could have, does not start any more.
const IDLE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// Waits until `serves`, while `child` runs or waits for a CPU.
///
/// # Errors
/// It has ended, with what it said on standard error if that is read here; or it sleeps without serving.
pub fn wait_until(child: &mut Child, serves: impl Fn() -> bool) -> Result<(), String> {
    let mut last = (String::new(), Instant::now());
    while !serves() {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                // What cannot be read is not said.
                let _ = stderr.read_to_string(&mut said);
            }
            return Err(format!("{status}: {said}"));
        }
        match progress(child.id()) {
            Some(now) if now == last.0 => {}
            // It waits for a CPU, or for a disk: that is not its fault.
            None => last.1 = Instant::now(),
            Some(now) => last = (now, Instant::now()),
        }
        if last.1.elapsed() > IDLE {
            return Err(format!("it has slept for {IDLE:?} without serving"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// How much the process has run so far; None while it wants to run.
fn progress(process: u32) -> Option<String> {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let sleeps = state.rsplit(") ").next()?.starts_with('S');
    let run = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
    sleeps.then(|| run.split(' ').next().unwrap_or_default().to_owned())
}
