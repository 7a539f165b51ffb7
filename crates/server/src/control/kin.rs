//! What processes are called in their namespaces, and whose children they are, by the kernel's word.

use crate::control::registry::Registry;
use crate::control::session::Peer;
use std::fs::File;
use std::io::Read;

impl Registry {
    /// The process, in the server's numbering, that `peer` calls `claimed` in its own: a client where there is one.
    pub(crate) fn called(&self, peer: &Peer, claimed: u32) -> u32 {
        let depth = numbers(peer.pid).len();
        if depth <= 1 {
            return claimed;
        }
        // Another namespace: whoever is called so there, on the same level.
        let clients = self.processes();
        let found = clients.into_iter().find(|pid| {
            let numbers = numbers(*pid);
            numbers.len() == depth && numbers.last() == Some(&claimed)
        });
        found.unwrap_or(claimed)
    }

    /// What a forked child is called and who its parent is. `claimed` is the parent in the numbering that the parent
    /// itself has: a claim only, which the engine compares with what the kernel said of the fork.
    pub(crate) fn kin(&self, peer: &Peer, claimed: u32) -> Kin {
        let numbers = numbers(peer.pid);
        let own = numbers.last().copied().unwrap_or(peer.pid);
        let parent = if numbers.len() <= 1 {
            claimed
        } else {
            self.parent_elsewhere(peer, claimed, numbers.len())
        };
        Kin { own, parent }
    }

    /// The parent of a process in another namespace, in the server's numbering: whose child the kernel says it is, or
    /// whoever is called so in a namespace that is no deeper.
    fn parent_elsewhere(&self, peer: &Peer, claimed: u32, depth: usize) -> u32 {
        let clients = self.processes();
        let said = parent_of(peer.pid).filter(|parent| clients.contains(parent));
        let found = || {
            clients.iter().copied().find(|pid| {
                let numbers = numbers(*pid);
                numbers.len() <= depth && numbers.last() == Some(&claimed)
            })
        };
        said.or_else(found).unwrap_or(claimed)
    }
}

/// What the kernel and a forked child say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kin {
    /// The child in its own numbering, in which the kernel tells of its faults.
    pub(crate) own: u32,
    /// Its parent, in the server's numbering.
    pub(crate) parent: u32,
}

/// What a process is called in each namespace that it is in, from the server's inwards.
pub(super) fn numbers(pid: u32) -> Vec<u32> {
    let words = status(pid, "NSpid:");
    words.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The parent of a process, in the server's numbering.
fn parent_of(pid: u32) -> Option<u32> {
    status(pid, "PPid:").trim().parse().ok()
}

/// What the kernel's status of a process says behind a word; empty where that is not to be had.
fn status(pid: u32, word: &str) -> String {
    // Room for all of it: this is on the path of a fork, and a string that grows is read in small pieces.
    let mut text = Vec::with_capacity(4096);
    let file = File::open(format!("/proc/{pid}/status"));
    let _ = file.and_then(|mut file| file.read_to_end(&mut text));
    let status = String::from_utf8_lossy(&text);
    let line = status.lines().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_default().to_owned()
}
