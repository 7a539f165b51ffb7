//! What is known of the pages that a client will want.

use crate::engine::prefetch::{Brought, Streams};
use freehold_core::id::ObjectId;

/// What is known of the pages that a client will want.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// The object of the first file that it announced: the program that it runs.
    pub(crate) program: Option<ObjectId>,
    /// Pieces of files that came along with its faults.
    pub(crate) brought: Brought,
    /// The address from which its files have not been looked through for such pieces.
    pub(crate) beyond: u64,
    /// What it faults on in order of private memory.
    pub(crate) streams: Streams,
    /// The same of files.
    pub(crate) text: Streams,
}
