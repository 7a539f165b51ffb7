//! What a program is given: a server, and what is held there for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use freehold_client::{Observer, PinnedPool, Reservation, Ticket};
use freehold_core::units::FrameCount;
use freehold_linux::folder::PrivateFolder;
use freehold_report::status::ReservationStatus;

use super::own_server::OwnServer;
use super::{shortage, strangers};
use crate::{ask, output};

/// How often it is looked whether anything is managed, and how long nothing is until its reservation is given up.
const LOOK: Duration = Duration::from_millis(500);
const UNUSED: Duration = Duration::from_secs(3);

/// What the program is given: a server, and what is held there for it.
#[derive(Debug)]
pub struct Setting {
    socket: PathBuf,
    /// What the reservation is called.
    name: String,
    /// Ends the reservation when dropped, before the server.
    reservation: Mutex<Option<Reservation>>,
    /// The same of a pinned page pool.
    pool: Option<Arc<PinnedPool>>,
    observer: Observer,
    own: Option<OwnServer>,
    /// Has a link to the agent, where that is needed.
    _link: Option<PrivateFolder>,
}

impl Setting {
    /// A server, what is held there, and the folder of a link to the agent. The reservation or pool is called `name`.
    #[must_use]
    pub fn new(
        name: String,
        (observer, socket, own): (Observer, PathBuf, Option<OwnServer>),
        (reservation, pool): (Option<Reservation>, Option<PinnedPool>),
        link: Option<PrivateFolder>,
    ) -> Self {
        Self {
            socket,
            name,
            reservation: Mutex::new(reservation),
            pool: pool.map(Arc::new),
            observer,
            own,
            _link: link,
        }
    }

    /// Where the server listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The program's pinned page pool.
    #[must_use]
    pub fn pool(&self) -> Option<&Arc<PinnedPool>> {
        self.pool.as_ref()
    }

    /// What lets the program have what is held for it.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        let reservation = self.reservation().as_ref().map(Reservation::ticket);
        reservation.or_else(|| self.pool.as_ref().map(|pool| pool.ticket()))
    }

    fn reservation(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.reservation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the reservation up when nothing has been managed in it for a while, and returns when `ended` says so.
    pub fn release_if_unused(&self, ended: &Receiver<()>) {
        let mut unused = Duration::ZERO;
        while self.reservation().is_some() && ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let status = ask::status(&self.observer);
            let used = |row: &ReservationStatus| row.name == *self.name && !row.members.is_empty();
            let used = status.map_or(true, |status| status.reservations.iter().any(used));
            unused = if used { Duration::ZERO } else { unused + LOOK };
            if unused >= UNUSED && self.reservation().take().is_some() {
                output::note("freehold: nothing of the program is managed: its reservation is given up");
            }
        }
    }

    /// The program has ended: says what ran unmanaged, and what it was short of. What it has left behind keeps
    /// reservation and server for as long as it goes on.
    pub fn end(mut self, reserve: Option<FrameCount>) {
        let reservation = reserve.map(|_| self.name.as_str());
        strangers::tell(&self.socket, reservation, self.own.is_some());
        let Some(own) = &mut self.own else { return };
        // A server that is ended closes its connections some time before it has ended.
        let status = ask::status(&self.observer);
        if let (Ok(status), Some(frames)) = (&status, reserve) {
            shortage::tell(&status.store, frames);
        }
        if let Some(how) = own.was_ended(status.is_ok()) {
            output::note(&format!(
                "freehold: the memory server of this command was ended ({how}): if the kernel did that for want of \
                 memory, its log says so"
            ));
        } else if !own.end_with_others() {
            // To end the reservation would be to take it from them.
            std::mem::forget(self);
        }
    }
}
