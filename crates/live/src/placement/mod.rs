//! Where the pager is: in this process, or in a server.

pub(crate) mod embedded;
pub(crate) mod server;
pub(crate) mod task_memory;
