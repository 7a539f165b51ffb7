//! For programs that cooperate with the memory server (`freehold serve`): reservations, regions of memory, tasks,
//! locks.
//!
//! A [`Connection`] makes reservations and regions; a [`Task`] maps regions ([`Mapping`]); from then on every access to
//! a page that is absent waits until the server has brought it, in whatever thread it happens, and in system calls too
//! where the process may have that. What one task's mappings cost is the reservation's that the task is in, and is
//! counted for the task.
//!
//! ```no_run
//! use freehold_client::{Connection, Options, RegionSpec, Regime, ReservationKind, RegionKind};
//!
//! let connection = Connection::open(&Options::named("camera"))?;
//! let reservation = connection.reserve("camera", 256, ReservationKind::Hard)?;
//! let region = connection.open_region(&RegionSpec {
//!     name: "frames",
//!     pages: 200,
//!     kind: RegionKind::Private,
//!     regime: Regime::Conserve,
//! })?;
//! let task = connection.add_task(Some(&reservation), 0, "grab")?;
//! let mapping = task.map(&region)?;
//! mapping.write_word(0, 7);
//! assert_eq!(task.counts()?.zero_fills, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who does what
//! Only a process itself can remove pages from its address space. The *agent*, a thread that [`Connection::open`]
//! starts, does that when the server says so; it is never waited for by other programs. A second thread sleeps until
//! the server is gone: then the pages that are absent can never be brought, and the process is ended with a message. It
//! never reads zeros instead.
//!
//! # Absences
//! - Memory that was not made through a connection is not managed; that is for `freehold exec`.
//! - A child of a fork has none of the mappings, and its requests are refused; it opens a connection of its own.
//! - A page that the server cannot read back raises SIGBUS in the thread that touches it, as a file's would.
#![forbid(unsafe_code)]

mod agent;
mod connection;
pub mod device;
mod error;
mod link;
mod pool;
mod region;
mod reservation;
mod socket_path;
mod task;
mod watch;

pub use connection::{Connection, Observer, Options};
pub use error::{ConnectError, MapRegionError, RequestError};
pub use freehold_protocol::channel;
pub use freehold_protocol::message::{
    CapacityRule, JobReport, Judgement, PinningPolicy, PinningSettings, Question, Ratio, Refusal, Regime, RegionKind,
    ReservationKind, SwapBudgetRule, TaskCounts, UnpinnedGoTo,
};
pub use pool::{JudgedJob, PinnedPool};
pub use region::{Region, RegionSpec};
pub use reservation::{Reservation, Ticket};
pub use socket_path::default_socket;
pub use task::{Mapping, Task};

/// Bytes of a page.
pub const PAGE_SIZE: usize = freehold_linux::PAGE_SIZE;
