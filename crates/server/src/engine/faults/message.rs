//! A thread of a client waits for a page: what the kernel's message says of it.

use crate::engine::keys::ClientId;
use freehold_core::units::Instant;

/// Which userfaultfd of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Shared,
    Private,
}

/// A thread of a client waits for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultMessage {
    pub(crate) client: ClientId,
    pub(crate) which: Which,
    pub(crate) address: u64,
    pub(crate) write: bool,
    /// The page was there, write-protected.
    pub(crate) protected: bool,
    pub(crate) thread: u32,
    /// When the message was read.
    pub(crate) since: Instant,
}
