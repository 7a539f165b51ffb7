//! What can be wrong with the pager's set-up, commands and accesses.

use freehold_core::effect::FaultFailure;
use freehold_core::error::{AdmitError, CreateError, LockError, RemoveError, SealError, UnlockError};
use freehold_core::units::FrameCount;
use freehold_linux::Errno;
use freehold_linux::fault::{InstallError, StackError};
use freehold_linux::memory::{LockedError, LockedFramesError, MapError, ResidencyError};
use freehold_linux::userfault::{OpenError, RegisterError};
use freehold_store::{SetupError, StoreError};

/// A pager could not be made. Nothing is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The core's tables.
    #[error("the core: {0}")]
    Core(SealError),
    /// userfaultfd.
    #[error(transparent)]
    Userfault(#[from] OpenError),
    /// The SIGBUS handler.
    #[error(transparent)]
    Handler(#[from] InstallError),
    /// The store.
    #[error("the store: {0}")]
    Store(#[from] SetupError),
    /// The memory of the backing.
    #[error("the backing: {0}")]
    Reserve(#[from] LockedFramesError),
    /// There are no frames for the headroom.
    #[error("the headroom of {frames}: {errno}")]
    Headroom {
        /// Its size.
        frames: FrameCount,
        /// What the kernel said.
        errno: Errno,
    },
}

/// A reservation could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The core refuses it.
    #[error(transparent)]
    Refused(#[from] AdmitError),
    /// The machine has not got the frames; nothing is reserved.
    #[error("the machine cannot back the reservation's frames: {0}")]
    NoFrames(Errno),
}

/// A memory object could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateObjectError {
    /// The core refuses it.
    #[error(transparent)]
    Refused(#[from] CreateError),
    /// Its memory, or the locked alias.
    #[error("the object's memory: {0}")]
    Memory(#[from] LockedError),
    /// Its content could not be given.
    #[error("the object's content: {0}")]
    Content(#[from] StoreError),
    /// The process locks every new mapping, which fills it at once.
    #[error("mlockall(MCL_FUTURE) fills every new mapping at once: add MCL_ONFAULT to it")]
    LockedAtOnce,
    /// It could not be found out whether new mappings are filled at once.
    #[error("the object's memory: {0}")]
    Measure(#[from] ResidencyError),
}

/// A task could not be given an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapObjectError {
    /// The core refuses it.
    #[error(transparent)]
    Refused(#[from] CreateError),
    /// The object is unknown to this pager.
    #[error("the object is unknown to this pager")]
    UnknownObject,
    /// As many tasks as there may be map the object.
    #[error("as many tasks as the limit `tasks` allows map the object")]
    TooManyTasks,
    /// The mapping.
    #[error("the task's mapping: {0}")]
    Map(#[from] MapError),
    /// Its registration.
    #[error("the task's mapping: {0}")]
    Register(#[from] RegisterError),
    /// The process locks every new mapping, which fills it at once.
    #[error("mlockall(MCL_FUTURE) fills every new mapping at once: add MCL_ONFAULT to it")]
    LockedAtOnce,
    /// Some other refusal.
    #[error("the task's mapping: {0}")]
    System(Errno),
}

/// A thread cannot act as a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// The caller's mistake: a thread acts as one task at a time.
    #[error("this thread acts as a task already")]
    ThreadIsBound,
    /// The caller's mistake: a task is one thread at a time.
    #[error("another thread acts as this task")]
    TaskIsBound,
    /// The thread's signal stack.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// SIGBUS could not be unblocked.
    #[error("SIGBUS could not be unblocked: {0}")]
    Mask(Errno),
}

/// Pages could not be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockPagesError {
    /// The core refuses it.
    #[error(transparent)]
    Refused(#[from] LockError),
    /// A page could not be brought in; nothing stays locked.
    #[error("a page to be locked could not be brought in: the lock is withdrawn")]
    NotFilled,
}

/// Pages could not be unlocked.
pub type UnlockPagesError = UnlockError;

/// Something could not be removed.
pub type EndError = RemoveError;

/// An access to managed memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The caller's mistake: outside the region, or a word that is not aligned.
    #[error("the access leaves the region")]
    OutOfBounds,
    /// The page cannot be had; what was accessed before it in the same call was accessed.
    #[error("the page cannot be had: {0}")]
    Failed(Failure),
}

/// Why a page cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It could not be read back.
    Read,
    /// The frame for it could only have come from a page that could not be written back; that page is kept.
    WriteBack,
    /// There is no frame that could be made free for it.
    NoFrame,
    /// The kernel's state and the core's books disagree: a law is broken and counted in the report.
    Integrity,
}

impl From<FaultFailure> for Failure {
    fn from(failure: FaultFailure) -> Self {
        match failure {
            FaultFailure::Read => Self::Read,
            FaultFailure::WriteBack => Self::WriteBack,
            FaultFailure::NoFrame => Self::NoFrame,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "it could not be read back",
            Self::WriteBack => "a page that should have made room could not be written back",
            Self::NoFrame => "no frame can be made free for it",
            Self::Integrity => "the kernel's state and the pager's books disagree",
        })
    }
}

/// The pages that are resident could not be counted.
pub type MeasureError = ResidencyError;
