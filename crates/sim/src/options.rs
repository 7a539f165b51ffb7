//! What a run is to do beside running.

use freehold_scenario::ReservationIndex;
use freehold_scenario::recording::Capacity;

/// What to check and what to record. The default records nothing and, in debug builds, checks all laws all the time.
///
/// None of these changes what happens in the run, save [`only`](Self::only) and
/// [`copies_at_once`](Self::copies_at_once).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Check the core's books after every so many facts; 0 only where counts are taken and at the end. `None`: after
    /// every fact in debug builds (less often where the scenario is large), as 0 in release builds. The independent
    /// oracles always watch.
    pub check_every: Option<u32>,
    /// Record when each task ran, waited and slept.
    pub history: bool,
    /// Record the order of everything that happened, for lockstep.
    pub schedule: bool,
    /// Record the pages that each reservation faulted on and evicted.
    pub sequences: bool,
    /// Record what happened when, for pictures and traces; so much of it.
    pub recording: Option<Capacity>,
    /// Pages are in device memory, and out of it, as soon as they leave and are asked for, and closed devices are back
    /// at once: as lockstep has it on real pages. What was asked for arrives as late as ever, and no fault reaches
    /// devices.
    pub copies_at_once: bool,
    /// Run only the tasks of this reservation, as if other tasks and reservations did not exist.
    pub only: Option<ReservationIndex>,
}
