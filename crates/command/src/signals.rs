//! A clean stop: the first SIGINT, SIGTERM or SIGHUP asks the engine to end, the second ends the command at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit_status::Failure;

/// The status of a command ended by the second signal: the run failed.
const ENDED_AT_ONCE: i32 = 1;

/// Catches all three signals; the flag is set by the first. A file that would grow past the limit on files is an error
/// of the write from then on, which is reported and cleaned up after, and not the end of the command.
///
/// # Errors
/// Signals that cannot be caught.
pub fn catch() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the second signal finds the flag set and ends the command.
        flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Run(format!("cannot catch signal {signal}: {error}")))?;
    }
    // Only that it is caught matters: the write then fails with EFBIG.
    flag::register(SIGXFSZ, Arc::default())
        .map_err(|error| Failure::Run(format!("cannot catch signal {SIGXFSZ}: {error}")))?;
    Ok(stop)
}
