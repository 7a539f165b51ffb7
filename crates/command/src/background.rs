//! Simulations that a signal can end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use freehold_sim::SimError;

use crate::exit_status::Failure;

/// How long a stop may go unnoticed.
const STOP_LATENCY: Duration = Duration::from_millis(20);

/// Does simulator's work in a thread of its own: a stop abandons it, and what it had not finished is no result. `name`
/// is the scenario's.
///
/// # Errors
/// A scenario the simulator cannot run, or a stop.
pub fn simulator<T: Send + 'static>(
    name: &str,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<T, SimError> + Send + 'static,
) -> Result<T, Failure> {
    let (done, ended) = channel();
    let run = move || {
        // Nobody listens after a stop.
        let _ = done.send(work());
    };
    let worker = std::thread::Builder::new().name("simulator".to_owned()).spawn(run);
    let worker = worker.map_err(|error| Failure::Run(format!("cannot start a thread: {error}")))?;
    loop {
        match ended.recv_timeout(STOP_LATENCY) {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error @ SimError::Fault { .. })) => return Err(Failure::Run(error.to_string())),
            Ok(Err(error)) => return Err(Failure::Input(format!("{name}: {error}"))),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Err(Failure::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let _ = worker.join();
                return Err(Failure::Run(format!("{name}: the simulator panicked, see above")));
            }
        }
    }
}
