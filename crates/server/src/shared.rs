//! The engine behind its lock, and the pager threads.

use crate::engine::Engine;
use crate::error::EngineError;
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use std::sync::Arc;

/// What all threads of the server hold.
#[derive(Debug)]
pub struct Shared {
    engine: PiMutex<Engine>,
}

impl Shared {
    /// Puts the engine behind its lock.
    #[must_use]
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine: PiMutex::new(engine),
        })
    }

    /// The engine. Hold it for a short step only: faults wait meanwhile. Whoever waits lends its priority.
    pub fn engine(&self) -> PiGuard<'_, Engine> {
        self.engine.lock()
    }

    /// Starts a pager thread on each CPU that the settings name.
    ///
    /// # Errors
    /// [`EngineError::System`] where threads cannot be started. A refused priority is no error: see the view.
    pub fn spawn_pagers(self: &Arc<Self>) -> Result<Pagers, EngineError> {
        Err(EngineError::NotYet { what: "paging" })
    }
}

/// The pager threads; dropping this ends them, and with it all paging.
#[derive(Debug)]
pub struct Pagers {
    _private: (),
}
