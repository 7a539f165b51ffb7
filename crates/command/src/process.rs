//! Programs that a command starts: waiting beside them, and ending them.

use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::exit_status::Failure;

/// How long a program may take to end when asked.
const GRACE: Duration = Duration::from_secs(3);

/// This command's own file: helpers, servers and `exec` are the same program.
///
/// # Errors
/// The system does not say which it is.
pub fn own_executable() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe();
    own.map_err(|error| Failure::Run(format!("this program's own file is not known: {error}")))
}

/// Ends a program of ours: politely, so that it ends what it started itself, and at once where that does not help.
pub fn end(child: &mut Child) {
    let asked = Instant::now();
    if let Ok(None) = child.try_wait() {
        // Not waited for yet, so the number is still its own. A refusal means that it has just ended.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
    while let Ok(None) = child.try_wait() {
        if asked.elapsed() > GRACE {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits, unless stopped.
///
/// # Errors
/// [`Failure::Stopped`].
pub fn pause(time: Duration, stop: &AtomicBool) -> Result<(), Failure> {
    let end = Instant::now() + time;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
