//! Why a scenario cannot be simulated.

use freehold_core::error::{AdmitError, CreateError, LockError, PinningError, SealError};
use freehold_core::transient::ScheduleError;
use freehold_core::units::PageIndex;
use freehold_core::victim_cache::error::SpecError;

/// Why a scenario cannot be simulated. Nothing was run, save for [`SimError::Fault`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The core's tables cannot be made.
    #[error("the core cannot be set up: {0}")]
    Seal(SealError),
    /// The core does not admit a reservation.
    #[error("reservation {reservation}: not admitted: {reason}")]
    Admission {
        /// Its name.
        reservation: String,
        /// The core's reason.
        reason: AdmitError,
    },
    /// The core does not set memory for devices aside.
    #[error("devices: their memory is not set aside: {reason}")]
    Devices {
        /// The core's reason.
        reason: AdmitError,
    },
    /// The victim cache cannot be made.
    #[error("devices: {reason}")]
    VictimCache {
        /// The core's reason.
        reason: SpecError,
    },
    /// The policy of transient memory cannot be made.
    #[error("components: {reason}")]
    Components {
        /// The core's reason.
        reason: ScheduleError,
    },
    /// The core refuses a memory object.
    #[error("region {region}: {reason}")]
    Region {
        /// Its name.
        region: String,
        /// The core's reason.
        reason: CreateError,
    },
    /// The core refuses a task or its mapping.
    #[error("task {task}: {reason}")]
    Task {
        /// Its name.
        task: String,
        /// The core's reason.
        reason: CreateError,
    },
    /// The core refuses a pinned page pool.
    #[error("task {task}: no pinned page pool: {reason}")]
    Pinning {
        /// The task's name.
        task: String,
        /// The core's reason.
        reason: PinningError,
    },
    /// The core refuses to lock pages.
    #[error("reservation {reservation}, region {region}: not locked: {reason}")]
    Lock {
        /// The reservation's name.
        reservation: String,
        /// The region's name.
        region: String,
        /// The core's reason.
        reason: LockError,
    },
    /// A lock was begun and could not be completed: a page has no frame or could not be read.
    #[error("reservation {reservation}, region {region}: a page to be locked could not be brought in")]
    LockFailed {
        /// The reservation's name.
        reservation: String,
        /// The region's name.
        region: String,
    },
    /// The core refuses a fault: the scenario touches what cannot be touched so.
    #[error("task {task}, region {region}, {page}: {reason}")]
    Fault {
        /// The task's name.
        task: String,
        /// The region's name.
        region: String,
        /// The page.
        page: PageIndex,
        /// The core's reason.
        reason: String,
    },
    /// A scenario made from another, whose rules it does not keep: a bug in Freehold.
    #[error("the scenario as decided breaks its own rules: {0}")]
    Changed(freehold_scenario::Error),
    /// No profile can be taken: room for everything that every reservation touches is more than any pool may have.
    #[error("room for all that every reservation touches takes {frames} frames, more than a pool may have")]
    TooLargeToProfile {
        /// Frames.
        frames: u64,
    },
    /// Law 0 is not compared for this reservation.
    #[error("reservation {reservation}: {reason}")]
    NotComparable {
        /// Its name.
        reservation: String,
        /// Why not.
        reason: &'static str,
    },
}
