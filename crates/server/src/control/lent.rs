//! Connections that are made for others than who asked: a program that is about to fork has one for its child, where
//! the child cannot reach the server's socket by its path.
//!
//! Who is at the other end is known when it speaks: the kernel tells who sent a packet. Until then nothing is read.

use super::refused::Refused;
use freehold_linux::Errno;
use freehold_linux::socket::PacketSocket;
use freehold_protocol::message::Refusal;
use rustix::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections of which nobody has spoken yet, of all users.
const MOST: usize = 256;

/// The server's ends, from when they are made until the thread of the user who asked watches them; and how many there
/// are in all.
#[derive(Debug, Default)]
pub(super) struct Lent {
    state: Mutex<(Vec<PacketSocket>, usize)>,
}

impl Lent {
    fn state(&self) -> MutexGuard<'_, (Vec<PacketSocket>, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection: the client's end.
    pub(super) fn make(&self) -> Result<OwnedFd, Refused> {
        let mut state = self.state();
        if state.1 >= MOST {
            return Err(Refused::limit(
                "connections of children that are being forked",
                MOST as u64,
            ));
        }
        let failed = |errno: Errno| Refused::new(Refusal::Exhausted, format!("no connection can be made: {errno}"));
        let (own, other) = PacketSocket::pair().map_err(failed)?;
        own.set_blocking(false).map_err(failed)?;
        own.set_names_sender(true).map_err(failed)?;
        state.0.push(own);
        state.1 += 1;
        Ok(other.into())
    }

    /// Takes those that nobody watches yet.
    pub(super) fn take(&self) -> Vec<PacketSocket> {
        std::mem::take(&mut self.state().0)
    }

    /// One is somebody's now, or has ended.
    pub(super) fn end_one(&self) {
        let mut state = self.state();
        state.1 = state.1.saturating_sub(1);
    }
}
