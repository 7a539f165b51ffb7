//! A device's row: whose it is, and what has happened.

use freehold_core::victim_cache::FrameRange;
use freehold_scenario::Device;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Who opens a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    /// Memory objects that are not back.
    pub(crate) held: usize,
    /// Of how many.
    pub(crate) chunks: usize,
    /// Whether they have been looked at: what is not back now somebody has.
    pub(crate) looked: bool,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) device: Device,
    /// Who has it, or had it until it was closed.
    pub(crate) client: Option<Client>,
    /// What the core has handed over since it was last asked for.
    pub(crate) handed: Option<FrameRange>,
    pub(crate) returning: Option<Return>,
    pub(crate) opens: u64,
    pub(crate) refused: u64,
    /// Memory objects that came back with holes in them.
    pub(crate) punched: u64,
    pub(crate) open_times: Histogram<u64>,
    pub(crate) return_times: Histogram<u64>,
}

impl Row {
    pub(crate) fn new(device: Device) -> Self {
        Self {
            device,
            client: None,
            handed: None,
            returning: None,
            opens: 0,
            refused: 0,
            punched: 0,
            open_times: times(),
            return_times: times(),
        }
    }
}

/// Nanoseconds up to a minute, three digits.
fn times() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, 60_000_000_000, 3);
    made.unwrap_or_else(|_| unreachable!("these bounds are good"))
}

pub(crate) fn record(times: &mut Histogram<u64>, span: Duration) {
    times.saturating_record(nanoseconds(span));
}

pub(crate) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
