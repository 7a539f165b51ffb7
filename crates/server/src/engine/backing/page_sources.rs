//! What pages get their content from, and by.

use crate::closing::{Closing, Lent};
use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::objects::victim_pages::Offers;
use crate::error::EngineError;
use crate::stalls::Stalls;
use crate::user_threads::UserThreads;
use crate::victims::Victims;
use freehold_linux::Errno;
use freehold_linux::memory::{Filler, Zeros};
use freehold_linux::userfault::Userfault;
use std::sync::Arc;

/// Pages of the memory of zeros, and so the most filled with one system call.
const ZEROS: usize = 64;

#[derive(Debug)]
pub(in crate::engine) struct PageSources {
    pub(in crate::engine) zeros: Zeros,
    /// Brings pages of objects with their content. Without it that takes two steps.
    pub(in crate::engine) filler: Option<Filler>,
    /// Closes the files that pages were read from, and what else clients have lent.
    pub(super) closing: Closing,
    /// Do what may wait for a user.
    pub(in crate::engine) threads: UserThreads,
    /// Who may hold up the engine.
    pub(in crate::engine) stalls: Stalls,
    /// Where clean pages of files go when they leave.
    pub(in crate::engine) victims: Option<Arc<Victims>>,
    pub(in crate::engine) offers: Offers,
    /// What could not be had, and why.
    pub(in crate::engine) shortfall: Option<String>,
}

impl PageSources {
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
            stalls: Stalls::default(),
            victims: None,
            offers: Offers::default(),
            shortfall,
        })
    }

    /// Takes a userfaultfd of a user.
    pub(in crate::engine) fn lend_userfault(&self, user: u32, userfault: Userfault) -> Lent<Userfault> {
        if let Some(calls) = userfault.calls() {
            self.stalls.note(user, calls);
        }
        self.closing.lend(user, userfault)
    }
}

impl Engine {
    /// Who may hold up the engine.
    pub(crate) fn stalls(&self) -> Stalls {
        self.backing.sources.stalls.clone()
    }

    /// Ends all clients of a user who has held up the engine.
    pub(crate) fn expel_user(&mut self, user: u32) {
        self.step(|engine| {
            let its = engine.clients.iter().filter(|(_, client)| client.process.uid == user);
            let its: Vec<ClientId> = its.map(|(_, client)| client.id).collect();
            for id in its {
                engine.expel(id, "its user has kept the server from serving others");
            }
        });
    }

    /// What closes for clients, for whoever takes something from them.
    pub(crate) fn closing(&self) -> Closing {
        self.backing.sources.closing.clone()
    }
}
