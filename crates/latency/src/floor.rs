//! What the machine itself takes away: the longest gaps of a thread that does nothing but read the clock.

use std::time::Duration;

use freehold_linux::clock;
use freehold_rt::class::Class;

use crate::report::Percentiles;
use crate::slice::SliceError;
use crate::tally::Tally;

/// How long it reads: less than the kernel lets a real-time thread have of a second.
const SPAN: Duration = Duration::from_millis(300);
/// Gaps below this are the reading itself, in nanoseconds.
const SHORTEST: u64 = 1000;

/// Gaps longer than a microsecond, and how many of them there are in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    pub(crate) gaps: Percentiles,
    pub(crate) in_a_second: u64,
}

/// Reads the clock on `cpu` at a priority.
pub(crate) fn measure(priority: u32, cpu: usize) -> Result<Floor, SliceError> {
    let thread = std::thread::Builder::new().name("floor".to_owned()).spawn(move || {
        Class::Fifo { priority }.apply(&[cpu])?;
        let mut tally = Tally::new(0);
        let end = clock::now().saturating_add(SPAN);
        let mut before = clock::now();
        while before < end {
            let now = clock::now();
            let gap = now.as_nanos().saturating_sub(before.as_nanos());
            if gap >= SHORTEST {
                tally.count(gap);
            }
            before = now;
        }
        Ok::<_, SliceError>(tally)
    })?;
    let tally = thread.join().map_err(|_| SliceError::Ended)??;
    let spans = u64::try_from(Duration::from_secs(1).as_millis() / SPAN.as_millis()).unwrap_or(1);
    Ok(Floor {
        gaps: tally.percentiles(),
        in_a_second: tally.wakeups() * spans,
    })
}
