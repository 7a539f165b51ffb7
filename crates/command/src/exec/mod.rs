//! An ordinary program under a memory server: what `freehold exec` does.

pub mod agent;
pub mod deadline;
mod job_rows;
pub mod jobs;
pub mod own_server;
pub mod pinned;
mod polling;
pub mod program;
pub mod setting;
mod shortage;
mod strangers;
