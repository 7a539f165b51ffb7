//! Freehold in virtual time.
//!
//! [`simulate`] runs a scenario: the policy core decides about memory exactly as it does in the live engine, and
//! everything else (CPUs, tasks, the store, its faults) is simulated. The same scenario gives the same outcome, always.
#![forbid(unsafe_code)]

mod account;
mod counts;
mod cpu;
mod differential;
mod engine;
mod error;
mod history;
mod job;
mod laws;
mod ledger;
mod lockstep;
mod options;
mod outcome;
mod page_table;
mod physical;
mod random;
mod rng;
mod runner;
mod schedule;
mod sequence;
mod store;
mod tape;
mod world;

pub use differential::{Agreement, Difference, compare_alone, differential, not_comparable};
pub use error::SimError;
pub use history::{Activity, Interval};
pub use lockstep::{Schedule, Step};
pub use options::Options;
pub use outcome::{Outcome, TaskExtras, simulate};
pub use random::{Mix, random_scenario};
pub use schedule::best_effort::QUANTUM;
pub use sequence::{Change, PageEvent};
pub use store::SPIN_BELOW;
