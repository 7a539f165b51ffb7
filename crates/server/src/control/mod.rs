//! The half of the server that talks: sockets, sessions, rights.
//!
//! One thread accepts; each user has a thread of its own for all its connections (see [`users`]). A session has small
//! tables of handles; what is read is parsed strictly, every request has one answer, and nobody waits for a peer: not
//! for its reading, not for its file system, not for its death.

mod accounts;
mod bucket;
mod connection;
mod descriptors;
mod grants;
mod handles;
mod kin;
mod lent;
mod objects;
mod orphaned;
mod pools;
mod private;
mod refused;
mod registry;
mod reply;
mod reservations;
mod session;
mod strangers;
mod tickets;
pub(crate) mod tracers;
mod users;
mod wait;

pub(crate) use accounts::Charge;
pub(crate) use bucket::Bucket;
use orphaned::Orphaned;
pub use orphaned::Owner;
pub(crate) use refused::{Refused, clean};
pub use registry::Limits;
pub(crate) use registry::Registry;
pub(crate) use session::Peer;
pub(crate) use strangers::Unmanaged;

use crate::stalls;
use freehold_linux::socket::{Listener, PacketSocket};
use freehold_linux::{Errno, user_namespace};
use freehold_protocol::message::Refusal;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;
use users::Users;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const OWNER: u64 = 2;
/// How long nothing is accepted when there is no descriptor left.
const BREATH: Duration = Duration::from_millis(100);
/// How long clients have to go when the server ends.
const FAREWELL: Duration = Duration::from_secs(2);
/// What ends a server.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The server ends at once when this can be read.
    pub stop: &'a OwnedFd,
    /// The server is for one process, its owner: it ends with its last client when that has ended.
    pub owner: Option<Owner<'a>>,
}

/// Serves connections until `ends` says so; then calls `ending`, refuses new ones, tells the others and waits a moment
/// for them.
///
/// # Errors
/// The system's refusal of a thread or an epoll instance, at the beginning.
pub(crate) fn run(
    registry: &Arc<Registry>,
    listener: Listener,
    ends: Ends<'_>,
    ending: impl FnOnce(),
) -> io::Result<()> {
    let users = Users::new(Arc::clone(registry))?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let watch = |data, fd: rustix::fd::BorrowedFd<'_>| {
        epoll::add(&epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
    };
    watch(LISTENER, listener.as_fd())?;
    watch(STOP, ends.stop.as_fd())?;
    ends.owner.map_or(Ok(()), |owner| watch(OWNER, owner.pipe.as_fd()))?;
    let mut events = Vec::with_capacity(3);
    let mut stopping = false;
    let mut orphaned = Orphaned::new(ends.owner);
    while !stopping && !orphaned.is_over(registry) {
        events.clear();
        let timeout = orphaned.timeout();
        let waited = epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        if let Err(errno) = waited
            && errno != Errno::INTR
        {
            return Err(errno.into());
        }
        for event in &events {
            match event.data.u64() {
                STOP => stopping = true,
                OWNER => orphaned.begin(&epoll)?,
                _ => accept(registry, &users, &listener),
            }
        }
    }
    ending();
    registry.end();
    drop(listener);
    users.wake();
    let mut late = users.wait_until_gone(FAREWELL);
    late.append(&mut registry.shared.users_with_unclosed());
    release(&late);
    Ok(())
}

/// Ends file systems that threads of these users wait for: the process could not end before those threads.
fn release(users: &BTreeSet<u32>) {
    if !users.is_empty() {
        stalls::end_unanswered(&mut None, |owner| users.contains(&owner));
    }
}

/// Accepts whoever waits, some at a time.
fn accept(registry: &Arc<Registry>, users: &Arc<Users>, listener: &Listener) {
    for _ in 0..64 {
        match listener.accept() {
            Ok(Some(socket)) => {
                match look_at(registry, &socket) {
                    Ok(peer) => users.give(socket, peer),
                    // A peer that has ended already is nobody; closing its socket may take time all the same.
                    Err(_) => users.refuse(socket, Refused::new(Refusal::State, "the process has ended")),
                }
            }
            Ok(None) => return,
            Err(errno) => {
                if let Some(unsaid) = registry.rate_limited_log.allows() {
                    warn!(%errno, unsaid, "connections cannot be accepted");
                }
                std::thread::sleep(BREATH);
                return;
            }
        }
    }
}

fn look_at(registry: &Registry, socket: &PacketSocket) -> Result<Peer, Errno> {
    let (peer, pidfd) = (socket.peer()?, socket.peer_pidfd()?);
    let owner = user_namespace::owner_of(pidfd.as_fd(), peer.pid)?;
    let user = registry.counted_as(peer.uid, owner);
    Ok(Peer {
        pid: peer.pid,
        user,
        pidfd,
        rights: registry.rights(user),
    })
}
