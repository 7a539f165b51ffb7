//! Errors of commands and facts: one enum for each operation. An operation that returns an error has changed nothing.

use core::fmt;

use crate::units::{FrameCount, PageCount};

macro_rules! errors {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$vdoc:meta])* $variant:ident
            $({ $($(#[$fdoc:meta])* $field:ident : $ty:ty),* $(,)? })? => $text:literal),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant $({ $($(#[$fdoc])* $field: $ty),* })?,)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),* })? => write!(f, $text),)*
                }
            }
        }

        impl core::error::Error for $name {}
    };
}

pub(crate) use errors;

errors! {
    /// Why tables of the wanted size cannot be made.
    SealError {
        /// A limit is zero, or past the range of its index.
        BadLimit { /** Which limit. */ limit: &'static str } => "the limit `{limit}` is zero or too large",
        /// Memory for the tables is not to be had.
        OutOfMemory => "no memory for the core's tables: lower the limits",
    }
}
errors! {
    /// Why a reservation is not admitted.
    AdmitError {
        /// Every reservation slot is in use.
        TableFull => "every reservation slot is in use: raise the limit `reservations`",
        /// A reservation needs at least one frame.
        ZeroCapacity => "a reservation needs at least one frame",
        /// The pool cannot promise so many frames.
        Overcommitted {
            /// Frames asked for.
            wanted: FrameCount,
            /// Frames not promised to anybody.
            available: FrameCount,
        } => "{wanted} wanted, but only {available} are not reserved yet: \
            shrink this or another reservation, or enlarge the pool",
        /// The frames are promised to nobody but lent or in use now; they are being taken back. Try again.
        InUse {
            /// Frames still missing.
            missing: FrameCount,
        } => "{missing} are lent or used without a reservation and are being taken back: try again",
        /// The table of list entries cannot hold this reservation.
        EntriesFull => "the table of list entries is too small: raise the limit `frames` or `tasks`",
    }
}
errors! {
    /// Why frames cannot leave the page lists.
    TakeOutsideError {
        /// The reservation is gone.
        Stale => "the id names something that no longer exists",
        /// Its pages and locks keep the rest, and it may not borrow.
        Kept {
            /// Frames that may still leave.
            available: FrameCount,
        } => "only {available} more of this reservation can leave its pages: take fewer, or make it larger",
        /// It may borrow, but nobody can lend so many now.
        NotLent {
            /// Frames missing.
            missing: FrameCount,
        } => "the pool has {missing} too few to lend now: take fewer, or try again later",
        /// Pages of the reservation itself use the frames and are leaving. Try again.
        InUse {
            /// Frames still missing.
            missing: FrameCount,
        } => "{missing} are under pages of this reservation, which are leaving: try again",
    }
}
errors! {
    /// Why frames cannot come back from outside.
    ReturnOutsideError {
        /// The reservation is gone.
        Stale => "the id names something that no longer exists",
        /// So many are not outside.
        NotOutside {
            /// Frames of this reservation that are.
            outside: FrameCount,
        } => "only {outside} of this reservation are outside",
    }
}
errors! {
    /// Why an object, task or mapping cannot be made.
    CreateError {
        /// Every slot is in use.
        TableFull => "every slot is in use: raise the limit",
        /// The object has no pages.
        Empty => "an object needs at least one page",
        /// Not enough contiguous room in the page table.
        PagesFull {
            /// Pages wanted.
            wanted: PageCount,
        } => "no room for {wanted} in the page table: raise the limit `pages`",
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// The frames that its pages would need are outside.
        FramesOutside => "too many frames of this reservation are outside for a task of its own: return some first",
        /// The task maps this object already.
        AlreadyMapped => "this task maps this object already",
        /// A copy-on-write view needs a base of kind file that is not a view itself.
        BadBase => "a copy-on-write view needs a base object of kind file that is not itself a view",
        /// More reservations than a region under `none` can tell apart (32).
        TooManySharers => "a region under `none` can be mapped by the first 32 reservation slots only",
    }
}
errors! {
    /// Why something cannot be removed.
    RemoveError {
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// It is still used: by mappings, tasks, locks, or input and output under way.
        Busy => "still in use: remove its users first, and let input and output end",
        /// Effects of earlier steps wait to be polled.
        Undrained => "effects of earlier steps are not drained: poll them first",
    }
}
errors! {
    /// Why pages cannot be locked.
    LockError {
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// The range is empty or not inside the object.
        BadRange => "the range is empty or not inside the object",
        /// No task of the reservation maps the object.
        NotMapped => "no task of this reservation maps the object: map it first",
        /// A copy-on-write view can be written, so it cannot be locked.
        CopyOnWrite => "a writable copy-on-write range cannot be locked",
        /// The region is under `none`.
        NotManaged => "a region under `none` cannot be locked",
        /// The locks would leave fewer than 8 frames of the capacity unlocked.
        TooLarge {
            /// Smallest capacity that could hold all locks.
            needed: FrameCount,
        } => "the reservation needs at least {needed} to hold its locks: 8 must stay unlocked",
        /// A page of the range is locked by this reservation already.
        Overlap => "a page of the range is locked by this reservation already",
        /// More pages locked by several reservations than the tables hold.
        TableFull => "more pages are locked by several reservations than the limit `shared_locks` allows: raise it",
        /// Programs without a reservation would lock more than an eighth of the pool, or what is promised.
        PoolShare {
            /// What they may still lock.
            available: FrameCount,
        } => "programs without a reservation may lock an eighth of the pool in all, of which {available} are left",
        /// An earlier lock of this reservation is still bringing pages in.
        InProgress => "an earlier lock of this reservation is still bringing its pages in: wait for it",
    }
}
errors! {
    /// Why pages cannot be unlocked.
    UnlockError {
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// The range is empty or not inside the object.
        BadRange => "the range is empty or not inside the object",
        /// A page of the range is not locked by this reservation, or still on its way in.
        NotLocked => "a page of the range is not locked by this reservation, or still on its way in",
        /// Sharing again needs frames that the pool does not have, or has promised to others.
        PoolLacksFrames {
            /// Frames missing.
            missing: FrameCount,
        } => "the pool lacks {missing} to conserve for the pages that others keep locked",
    }
}
errors! {
    /// Why a fault is refused.
    FaultError {
        /// A write to an object that copy-on-write views read through to.
        Frozen => "the object cannot be written while copy-on-write views read through to it",
        /// The mapping is gone: the fault came too late, or the engine is wrong.
        Stale => "the mapping no longer exists",
        /// The page lies outside the object.
        OutOfRange => "the page lies outside the object",
        /// The task waits for a page already; one thread cannot fault twice at once.
        AlreadyWaiting => "the task waits for a page already",
        /// Effects of earlier steps wait to be polled.
        Undrained => "effects of earlier steps are not drained: poll them first",
    }
}
errors! {
    /// Why pages cannot be forgotten.
    ForgetError {
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// Only what is private to its mapper can lose its content.
        NotPrivate => "only the pages of a private object can be forgotten",
        /// The range is empty or not inside the object.
        BadRange => "the range is empty or not inside the object",
        /// A page of the range is locked, or a lock of the object is bringing pages in.
        Locked => "a page of the range is locked: unlock it first",
        /// Effects of earlier steps wait to be polled.
        Undrained => "effects of earlier steps are not drained: poll them first",
    }
}
errors! {
    /// Why a completion is refused.
    CompletionError {
        /// No such request is outstanding: late, doubled, or never made.
        NotOutstanding => "no such request is outstanding",
        /// Effects of earlier steps wait to be polled; the request is still outstanding.
        Undrained => "effects of earlier steps are not drained: poll them first",
    }
}
errors! {
    /// Why a pinned page pool cannot be opened.
    PinningError {
        /// Every slot is in use.
        TableFull => "as many tasks have pinned page pools as there can be (32, and no more than the limit `tasks`)",
        /// The budget is zero or over the period.
        BadBudget => "the budget must be positive and not over the period",
        /// The swap budget could grow over what the budget leaves of the period.
        BadSwapBudget => "the highest swap budget must not be over what the budget leaves of the period",
        /// γ is zero.
        BadGamma => "gamma must be at least 1: the active list of a pinned page pool is not to be empty",
    }
}
errors! {
    /// Why the end of a job is refused.
    JobError {
        /// The id names something that is gone.
        Stale => "the id names something that no longer exists",
        /// Effects of earlier steps wait to be polled.
        Undrained => "effects of earlier steps are not drained: poll them first",
    }
}
