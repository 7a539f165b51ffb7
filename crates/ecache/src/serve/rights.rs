//! Who may do what, and how often.

use freehold_linux::socket::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections at a time, and of one user other than root.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 32;

/// What a peer may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) peer: Peer,
    /// Root, or the user whom the memory belongs to.
    pub(crate) all: bool,
}

impl Rights {
    pub(crate) fn of(peer: Peer) -> Self {
        let owner = rustix::process::geteuid().as_raw();
        Self {
            peer,
            all: peer.uid == 0 || peer.uid == owner,
        }
    }

    /// Whether it may open a device whose users are these.
    pub(crate) fn may_open(&self, users: &[u32]) -> bool {
        self.all || users.contains(&self.peer.uid)
    }
}

/// Who is connected how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    users: Arc<Mutex<BTreeMap<u32, usize>>>,
}

/// A connection that counts.
#[derive(Debug)]
pub(crate) struct Seat {
    connections: Connections,
    user: u32,
}

impl Connections {
    pub(crate) fn enter(&self, user: u32) -> Option<Seat> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = users.values().sum();
        let own = users.entry(user).or_default();
        if all >= MOST || (user != 0 && *own >= MOST_OF_ONE) {
            return None;
        }
        *own += 1;
        Some(Seat {
            connections: self.clone(),
            user,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut users = self.connections.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = users.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, MOST, MOST_OF_ONE};

    #[test]
    fn one_user_cannot_take_all_connections() {
        let connections = Connections::default();
        let mut seats: Vec<_> = (0..MOST_OF_ONE).filter_map(|_| connections.enter(1000)).collect();
        assert!(connections.enter(1000).is_none() && seats.len() == MOST_OF_ONE);
        seats.pop();
        assert!(connections.enter(1000).is_some());
        seats.extend((0..2 * MOST).map_while(|_| connections.enter(0)));
        assert_eq!(seats.len(), MOST);
    }
}
