//! The kernel's limit on what real-time threads may use together.

use std::time::Duration;

const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// How much of every period real-time threads may run; also the share that SCHED_DEADLINE admission may hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtThrottling {
    /// CPU time per period; `None` for no limit.
    pub runtime: Option<Duration>,
    /// The period.
    pub period: Duration,
}

/// The limit could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ThrottlingError {
    /// A file could not be read: is `/proc` mounted?
    #[error("{path} could not be read: {source}")]
    Unreadable {
        /// The file.
        path: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds no number of microseconds.
    #[error("{path} does not hold a number of microseconds: {text:?}")]
    Malformed {
        /// The file.
        path: &'static str,
        /// What it holds.
        text: String,
    },
}

/// Reads the limit (`kernel.sched_rt_runtime_us` and `kernel.sched_rt_period_us`).
///
/// # Errors
/// See [`ThrottlingError`].
pub fn rt_throttling() -> Result<RtThrottling, ThrottlingError> {
    let runtime = match read(RUNTIME)?.as_str() {
        "-1" => None,
        text => Some(micros(RUNTIME, text)?),
    };
    Ok(RtThrottling {
        runtime,
        period: micros(PERIOD, &read(PERIOD)?)?,
    })
}

fn read(path: &'static str) -> Result<String, ThrottlingError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(ThrottlingError::Unreadable { path, source }),
    }
}

fn micros(path: &'static str, text: &str) -> Result<Duration, ThrottlingError> {
    match text.parse() {
        Ok(micros) => Ok(Duration::from_micros(micros)),
        Err(_) => Err(ThrottlingError::Malformed {
            path,
            text: text.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD, micros, rt_throttling};

    #[test]
    fn this_machine_has_a_limit_within_its_period() {
        let limit = rt_throttling().unwrap();
        assert!(limit.runtime.is_none_or(|runtime| runtime <= limit.period), "{limit:?}");
        assert!(!limit.period.is_zero());
    }

    #[test]
    fn nonsense_is_refused_with_its_text() {
        let error = micros(PERIOD, "soon").unwrap_err();
        assert!(error.to_string().contains("soon"));
    }
}
