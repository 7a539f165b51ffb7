//! Compositions: which components there are, what memory they have, who calls whom, and which threads do jobs.
//!
//! [`Composition`] is the file. [`manager::run`] makes the components' pools and channels, starts their processes with
//! [`host::run`] in them, moves units by a policy, restarts what dies, and says in the end what happened.

mod composition;
pub mod host;
pub mod manager;
mod registry;

pub use composition::places::Misplaced;
pub use composition::{Composition, CompositionError, PolicyName};
pub use manager::{CacheSpec, Kind, RunError, UnitManager, Window};
pub use registry::{Registered, Running, UnitState, Wait, find, running};
