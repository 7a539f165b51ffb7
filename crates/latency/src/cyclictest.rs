//! The peer: `cyclictest` of rt-tests, with the same interval, priority and CPU.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::settings::Settings;
use crate::tally::Tally;

/// The peer has measured nothing.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It is not installed, or does not run.
    #[error("cyclictest does not run ({0}): install the package rt-tests, or leave --peer out")]
    Start(std::io::Error),
    /// It refused, or failed.
    #[error("cyclictest failed: {0}")]
    Failed(String),
    /// It says something else than its histogram.
    #[error("cyclictest printed no histogram: {0:?}")]
    Nonsense(String),
}

/// Measures one slice with it.
pub(crate) fn measure(settings: &Settings, span: Duration, tally: &mut Tally) -> Result<(), PeerError> {
    let interval = settings.interval.shortest();
    let loops = (span.as_nanos() / interval.as_nanos().max(1)).max(1);
    // Its histogram has to hold every wake-up, or what lies beyond is lost.
    const BOUND: &str = "1000000";
    let mut command = Command::new("cyclictest");
    command.args(["--quiet", "--mlockall", "--histogram", BOUND]);
    command.args(["--threads", "1", "--policy", "fifo"]);
    command.args(["--priority", &settings.priority.to_string()]);
    command.args(["--affinity", &settings.cpu.to_string()]);
    command.args(["--interval", &interval.as_micros().to_string()]);
    command.args(["--loops", &loops.to_string()]);
    let output = command.stdin(Stdio::null()).output().map_err(PeerError::Start)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(PeerError::Failed(said.trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if count(&text, tally) == 0 {
        return Err(PeerError::Nonsense(text.lines().take(3).collect()));
    }
    Ok(())
}

/// Counts the lines of a histogram, `microseconds count`; how many wake-ups it holds.
fn count(text: &str, tally: &mut Tally) -> u64 {
    let mut all = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (Some(Ok(micros)), Some(Ok(count)), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // It cuts microseconds off; half of one is what that takes away on average.
        (0..count).for_each(|_| tally.count(micros * 1000 + 500));
        all += count;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Tally, count};

    #[test]
    fn its_histogram_is_read_and_its_remarks_are_not() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000007 000003\n000008 000001\n000009 000000\n\
                    # Total: 000000004\n# Min Latencies: 00007\n";
        let mut tally = Tally::new(20);
        assert_eq!(count(text, &mut tally), 4);
        assert_eq!(tally.histogram()[7..10], [3, 1, 0]);
        assert_eq!(count("Usage: cyclictest", &mut tally), 0);
    }
}
