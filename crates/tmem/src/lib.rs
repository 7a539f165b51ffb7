//! Transient memory: buffers and stacks from small caches, whose exhaustion is a bounded wait.
//!
//! A [`Pool`] is a cache of buffers of one size, for threads of one process or of several. Where all are in use, a
//! thread waits for one of their users, which runs with the waiter's priority or deadline meanwhile; the wait ends with
//! the buffer or at the pool's bound. A user that dies returns what it held. The manager of a pool takes unused units
//! away and gives them back without its users' help.
//!
//! A buffer's content is as good as its user's word: who reads another's buffer maps it read-only, copies, and checks.

pub mod board;
mod cache;
pub mod capi;
pub mod channel;
mod id;
pub mod job;
mod layout;
pub mod object;
pub mod pool;
mod pool_jobs;
pub mod registry;
mod settings;
pub mod stack;
mod switch;
mod sync;
mod unit;
mod wait;

pub use cache::TakeError;
pub use id::BufferId;
pub use pool::{Buffer, Pool};
pub use pool_jobs::JobWaits;
pub use settings::{PoolError, PoolSettings};

use freehold_shm::pi_word;
