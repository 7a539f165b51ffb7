//! Scenarios on real pages, threads and deadlines: the glue between a scenario, the pager and the periodic tasks.
//!
//! [`run()`] does what `freehold run --engine live` does. Each task of the scenario is a thread of its class; each
//! region is a memory object of the pager, which every task maps for itself; each access is a real touch. Every
//! access also checks that the page holds what the task left there (law 5).
//!
//! [`run_with`] can record what happens meanwhile, for pictures and traces.
//!
//! A task with a pinned page pool reports each of its jobs to the core once, in its own thread: at the job's end, or as
//! missed when the thread finds that the job's period is over. A changed budget of the deadline class is given to the
//! kernel there and then. Where pages are to be restored, a thread of no real-time class does it between jobs.
//!
//! [`profile`] measures how much of each region every reservation uses when it has room for all.
//!
//! [`run_in_lockstep`] replays the order in which the simulator did everything, so that every count is equal.
#![deny(unsafe_code)]

mod component_run;
mod compute;
mod device_memory;
mod error;
mod lockstep;
mod placement;
mod recording;
mod reporter;
mod restorer;
mod result;
mod run;
mod sampler;
mod spans;
mod start_delay;
mod steal_time;
mod store;
mod usage;
mod watch;
mod worker;

pub use error::LiveError;
pub use lockstep::{components, run_in_lockstep, run_in_lockstep_on_server};
pub use placement::server::{Launch, OwnServer, Server, ServerError, device_name, run_on_server};
pub use run::{Options, Outcome, profile, run, run_with};
