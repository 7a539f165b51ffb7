//! The task under the pager in its own process and under the memory server, with a reservation and without one, beside
//! a sibling that faults as fast as it can: its page faults.

use super::child::{Report, Setting, WORKING_SET};
use super::measure;
use super::server::Measured;
use freehold_command::exit_status::Failure;
use freehold_command::signals;

/// What one placement gave.
#[derive(Debug)]
pub(crate) struct Placed {
    /// `embedded` or `server`.
    pub(crate) placement: &'static str,
    /// Whether the task had a reservation.
    pub(crate) reserved: bool,
    /// Page faults in its jobs, by its own account.
    pub(crate) faults: u64,
    /// The kernel's events of its page faults.
    pub(crate) events: Option<u64>,
    /// Those of the first touches, which the kernel must have seen.
    pub(crate) first_touches: Option<u64>,
    /// Pages that were brought in for the sibling, or touched by it, meanwhile.
    pub(crate) sibling: u64,
}

/// Pages that the task touches for the first time.
pub(crate) const TOUCHED: u64 = WORKING_SET as u64;

/// Measures so many jobs in each placement.
///
/// # Errors
/// No rights, or no memory.
pub(crate) fn measure_all(jobs: u32) -> Result<Vec<Placed>, Failure> {
    let stop = signals::catch()?;
    let mut all = Vec::new();
    for (setting, reserved) in [(Setting::Beside, true), (Setting::Unreserved, false)] {
        all.push(placed("embedded", reserved, &measure(setting, jobs, &stop)?));
    }
    let server = Measured::start_server(jobs, &stop)?;
    for (setting, reserved) in [(Setting::Served, true), (Setting::ServedUnreserved, false)] {
        let _hog = server.hog()?;
        all.push(placed("server", reserved, &server.measure(setting)?));
    }
    Ok(all)
}

fn placed(placement: &'static str, reserved: bool, report: &Report) -> Placed {
    Placed {
        placement,
        reserved,
        faults: report.faults,
        events: report.events,
        first_touches: report.events_before,
        sibling: report.sibling_faults,
    }
}
