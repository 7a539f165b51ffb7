//! Having the memory server sample what living processes reference.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use freehold_client::{Observer, Question};
use freehold_report::advice::AdviceDocument;

use crate::exit_status::Failure;
use crate::process;

/// Has the references of processes sampled for a while; the server's advice.
///
/// # Errors
/// A process that is not under the server, a server that refuses, or a stop. Sampling has ended in any case.
pub fn sampled(
    observer: &Observer,
    pids: &[u64],
    period: Duration,
    during: Duration,
    stop: &AtomicBool,
) -> Result<AdviceDocument, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(error.to_string());
    let every = |period: Option<Duration>| {
        let number = |pid: &u64| u32::try_from(*pid).unwrap_or(0);
        let set = |pid: &u64| observer.sample(number(pid), period).map_err(|error| failed(&error));
        pids.iter().try_for_each(set)
    };
    let waited = every(Some(period)).and_then(|()| process::pause(during, stop));
    let names: Vec<String> = pids.iter().map(u64::to_string).collect();
    let answer = waited.and_then(|()| {
        observer
            .ask(Question::Advise, &names.join(" "))
            .map_err(|error| failed(&error))
    });
    // A process that has ended needs no end of its sampling.
    let ended = every(None);
    let text = answer?;
    ended?;
    freehold_report::read(&text).map_err(|error| failed(&error))
}
