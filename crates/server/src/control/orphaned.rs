//! A server that is for one process, its owner: it ends with its last client when the owner is gone.

use crate::control::registry::Registry;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use std::io;
use std::time::{Duration, Instant};

/// How often clients are looked for at first, for how long, and how often later.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const SOON: Duration = Duration::from_secs(1);
const LATER_LOOK: Duration = Duration::from_millis(100);
/// How long there must be no clients where the owner was killed: what it had started may be about to become one.
const CALM: Duration = Duration::from_millis(1_500);

/// The process that a server is for. What it reserves stays for the server's clients when it is gone.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its number.
    pub process: u32,
    /// A pipe whose other end it has. A byte in it says that what it has started has ended.
    pub pipe: &'a OwnedFd,
}

/// Whether the owner is gone, and whether the last client is.
#[derive(Debug)]
pub(super) struct Orphaned<'a> {
    owner: Option<Owner<'a>>,
    /// Since when it is gone.
    begun: Option<Instant>,
    look: Instant,
    /// Since when there are no clients.
    none_since: Option<Instant>,
    /// How long there must be none.
    calm: Duration,
}

impl<'a> Orphaned<'a> {
    /// The owner is there, if there is one at all.
    pub(super) fn new(owner: Option<Owner<'a>>) -> Self {
        Self {
            owner,
            begun: None,
            look: Instant::now(),
            none_since: None,
            calm: CALM,
        }
    }

    /// The owner says that it is done, or is gone.
    ///
    /// # Errors
    /// The system's refusal, which nothing is known to cause.
    pub(super) fn begin(&mut self, epoll: &OwnedFd) -> io::Result<()> {
        let Some(owner) = self.owner.take() else { return Ok(()) };
        epoll::delete(epoll, owner.pipe)?;
        if rustix::io::read(owner.pipe, &mut [0_u8]).is_ok_and(|count| count > 0) {
            self.calm = Duration::ZERO;
        }
        self.begun = Some(Instant::now());
        self.look = Instant::now();
        Ok(())
    }

    /// How long until clients are looked for.
    pub(super) fn timeout(&self) -> Option<Timespec> {
        self.begun?;
        let wait = self.look.saturating_duration_since(Instant::now());
        Timespec::try_from(wait).ok()
    }

    /// Looks for clients, when it is time to; whether there were none for long enough.
    pub(super) fn is_over(&mut self, registry: &Registry) -> bool {
        let now = Instant::now();
        let Some(begun) = self.begun.filter(|_| now >= self.look) else {
            return false;
        };
        let soon = now.saturating_duration_since(begun) < SOON;
        self.look = now + if soon { FIRST_LOOK } else { LATER_LOOK };
        if registry.has_clients() {
            self.none_since = None;
            return false;
        }
        let since = *self.none_since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.calm
    }
}
