//! Ways of the kernel that serve no fault, or show what is the agent's: memory is brought in, or given back, before.

pub(super) mod core_file;
pub mod memory_files;
pub mod needed;
pub(super) mod own_stat;
pub mod own_tasks;
