//! The live driver of the core, embedded in the program: every thread pages for itself.
//!
//! A program makes a [`Pager`], reservations, objects and tasks; each task is one thread, which maps objects and enters
//! ([`TaskHandle::enter`]). From then on a touch of an absent page raises SIGBUS in that very thread, and the handler
//! asks the core what to do, does it, and maps the page. There is no pager thread, and nothing is allocated on the way.
//!
//! # Rules that hold everywhere here
//! - A page is written and read by the pager only through its object's locked alias. Unmap everybody, then copy out,
//!   then drop; never another order (law 5).
//! - Decisions are made under the core's lock and carried out outside it. Why a late mapping does no harm is in the
//!   module `epoch`; who waits for what, and who drives it, in `wait`.
//! - A reservation's unused frames are backed by locked frames of the pager's own (`locked_backing`).
//! - An access that cannot be served ends with an error if it was made through [`Bound`], else with the previous SIGBUS
//!   handler; it never faults for ever.
//!
//! # Absences
//! - Copy-on-write views are not offered: there is no call to make one.
//! - Objects are not removed before their pager.
//! - `mlockall` fills what it locks: use it with `MCL_ONFAULT`, or with `MCL_CURRENT` before the pager is made. Under
//!   `MCL_FUTURE` without `MCL_ONFAULT` objects are neither made nor mapped but refused by name; `MCL_CURRENT` without
//!   it, later, fills objects and backing behind the books' back, which [`Pager::report`] shows. `munlockall` takes the
//!   lock from the pager's frames.
//! - A system call that touches an absent page fails with EFAULT: touch before the call.

mod backing;
#[cfg(feature = "canary")]
mod canary;
mod completion_queue;
mod config;
mod context;
mod counters;
mod effects;
mod epoch;
mod error;
mod file_cache;
mod handler;
mod install;
mod locked_backing;
mod mailbox;
mod measure;
mod object;
mod pager;
mod pinned;
mod recorder;
mod report;
mod shared;
mod sync;
mod task;
mod transfer;
mod transfer_table;
mod wait;
mod watch;

pub use config::{Config, Pace, StoreMedium, StoreShape};
pub use error::{
    AccessError, CreateObjectError, EndError, EnterError, Failure, LockPagesError, MapObjectError, MeasureError,
    ReserveError, StartError, UnlockPagesError,
};
pub use file_cache::FileCache;
pub use freehold_driver::{
    EventCapacity, EvictionEvent, FaultEnd, FaultEvent, LockHoldEvent, TransferEvent, WaitEvent,
};
pub use install::share_handler;
pub use pager::{Locking, Pager};
pub use pinned::Verdict;
pub use recorder::{Events, TaskEvents};
pub use report::{BackingReport, Broken, CallsReport, LockReport, ObjectReport, Report, TaskTimes};
pub use task::{Bound, MappedRegion, TaskHandle};
pub use watch::Watch;

pub use freehold_core as core;
pub use freehold_store as store;
