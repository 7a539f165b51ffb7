//! The RTLinux API in user space: programs written for RTLinux run after recompilation, in the time-sharing side's
//! process (*shared space*, [`process`]'s host) or each in a process of its own (*separate space*).
//!
//! [`api`] has the functions that modules call, `include` the headers under the original names. What passes between
//! modules and processes lies in memory that both map ([`fifo`], [`memory`], [`status`]), found by name in a
//! [`directory`]. Every word that the other side can write is a claim: it is checked, counted, and never waited for.

pub mod api;
pub mod area;
pub mod campaign;
pub mod compile;
pub mod control;
pub mod directory;
pub mod fifo;
mod headers;
pub mod inject;
pub mod list;
pub mod load;
pub mod memory;
mod module;
mod mount;
pub mod process;
mod program;
mod reference;
pub mod rtf;
mod runtime;
pub mod starting;
pub mod status;
pub mod walk;
