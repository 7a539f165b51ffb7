//! What pages get their content from, and by.

use crate::error::EngineError;
use freehold_linux::memory::{Filler, Zeros};

/// Pages of the memory of zeros, and so the most filled with one system call.
const ZEROS: usize = 64;

#[derive(Debug)]
pub(super) struct Sources {
    pub(super) zeros: Zeros,
    /// Brings pages of objects with their content. Without it that takes two steps.
    pub(super) filler: Option<Filler>,
    /// What could not be had, and why.
    pub(super) shortfall: Option<String>,
}

impl Sources {
    /// # Errors
    /// [`EngineError::Limit`].
    pub(super) fn new() -> Result<Self, EngineError> {
        let zeros = Zeros::create(ZEROS).map_err(|_| EngineError::Limit { what: "memory" })?;
        let filler = Filler::new();
        let shortfall = filler.as_ref().err();
        let shortfall = shortfall.map(|error| format!("pages of objects are cleared before they are filled: {error}"));
        Ok(Self {
            zeros,
            filler: filler.ok(),
            shortfall,
        })
    }
}
