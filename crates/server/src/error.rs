//! What can be wrong with what a client, or the control thread for it, asks of the engine.

use freehold_core::error::{
    AdmitError, CreateError, JobError, LockError, PinningError, RemoveError, SealError, UnlockError,
};
use freehold_core::units::FrameCount;
use freehold_linux::Errno;
use freehold_linux::sched::SetPolicyError;
use freehold_store::SetupError;

/// Why the engine refuses. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The client is gone.
    #[error("the client is gone")]
    NoSuchClient,
    /// The client's user has held up the server.
    #[error("this user has kept the server from serving others: ask again in a minute")]
    Barred,
    /// No such task, or another client's.
    #[error("no such task of this client")]
    NoSuchTask,
    /// No such reservation.
    #[error("no such reservation: it has ended")]
    NoSuchReservation,
    /// No such pinned page pool.
    #[error("no such pinned page pool: it was closed")]
    NoSuchPool,
    /// The core does not open the pool.
    #[error(transparent)]
    Pinning(#[from] PinningError),
    /// The core does not take the job.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No such object.
    #[error("no such object: it was closed")]
    NoSuchObject,
    /// No such mapping.
    #[error("no such mapping of this client")]
    NoSuchMapping,
    /// The frames are in use and are being taken back: ask again soon.
    #[error("the frames are in use and are being taken back: ask again")]
    WouldWait,
    /// A descriptor is not what it must be.
    #[error("{what} is not what it must be: {why}")]
    Descriptor {
        /// Which.
        what: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// A range is empty, not aligned, or leaves what it is in.
    #[error("the range of the {what} is empty, not aligned to pages, or leaves it")]
    Range {
        /// Of what.
        what: &'static str,
    },
    /// A range is in use.
    #[error("another mapping of this client is there already")]
    Overlap,
    /// A limit is reached.
    #[error("the limit on {what} is reached: raise it, or use fewer")]
    Limit {
        /// On what.
        what: &'static str,
    },
    /// The region exists with another size or regime.
    #[error("the region exists already with another size or kind of sharing")]
    Differs,
    /// The core does not admit the reservation.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Tasks without a reservation would have no frames.
    #[error(
        "{wanted} wanted, but of {admissible} that are not reserved {left} stay for programs without a reservation: \
         shrink this or another reservation, end those programs, or enlarge the pool"
    )]
    LeavesNone {
        /// Frames wanted.
        wanted: FrameCount,
        /// Frames that could be reserved.
        admissible: FrameCount,
        /// Of these, those that stay.
        left: FrameCount,
    },
    /// A task without a reservation would have no frames.
    #[error(
        "all of the pool is reserved, and this program has no reservation: reserve for it (--reserve), end or shrink \
         another reservation, or enlarge the pool"
    )]
    AllReserved,
    /// The core cannot make it.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The core cannot remove it.
    #[error(transparent)]
    Remove(#[from] RemoveError),
    /// The core cannot lock it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A page could not be brought in for a lock; what was locked before it is unlocked.
    #[error("a page that was to be locked could not be brought in")]
    LockFailed,
    /// The core cannot unlock it.
    #[error(transparent)]
    Unlock(#[from] UnlockError),
    /// The tables cannot be made.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The store cannot be made.
    #[error(transparent)]
    Store(#[from] SetupError),
    /// The scheduler refuses; reported, not fatal.
    #[error(transparent)]
    Policy(#[from] SetPolicyError),
    /// The kernel refuses.
    #[error("{what}: {errno}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
    /// This server cannot do it yet.
    #[error("{what} is not implemented in this server yet")]
    NotYet {
        /// What.
        what: &'static str,
    },
}

impl EngineError {
    /// For `map_err`: the kernel refused what was tried.
    #[allow(dead_code, reason = "the first user comes with clients")]
    pub(crate) fn system(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { what, errno }
    }
}
