//! What pages get their content from, and by.

use crate::closing::Closing;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::user_threads::UserThreads;
use freehold_linux::Errno;
use freehold_linux::memory::{Filler, Zeros};

/// Pages of the memory of zeros, and so the most filled with one system call.
const ZEROS: usize = 64;

#[derive(Debug)]
pub(super) struct Sources {
    pub(super) zeros: Zeros,
    /// Brings pages of objects with their content. Without it that takes two steps.
    pub(super) filler: Option<Filler>,
    /// Closes the files that pages were read from, and what else clients have lent.
    pub(super) closing: Closing,
    /// Do what may wait for a user.
    pub(super) threads: UserThreads,
    /// What could not be had, and why.
    pub(super) shortfall: Option<String>,
}

impl Sources {
    /// # Errors
    /// [`EngineError::Limit`], [`EngineError::System`].
    pub(super) fn new(priority: u32) -> Result<Self, EngineError> {
        let zeros = Zeros::create(ZEROS).map_err(|_| EngineError::Limit { what: "memory" })?;
        let refused = |error: std::io::Error| EngineError::System {
            what: "a thread that starts others could not be started",
            errno: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
        };
        let threads = UserThreads::start(priority).map_err(refused)?;
        let filler = Filler::new();
        let shortfall = filler.as_ref().err();
        let shortfall = shortfall.map(|error| format!("pages of objects are cleared before they are filled: {error}"));
        Ok(Self {
            zeros,
            filler: filler.ok(),
            closing: Closing::by(threads.clone()),
            threads,
            shortfall,
        })
    }
}

impl Engine {
    /// What closes for clients, for whoever takes something from them.
    pub(crate) fn closing(&self) -> Closing {
        self.sources.closing.clone()
    }
}
