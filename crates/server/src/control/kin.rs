//! What processes are called in their namespaces, and whose children they are, by the kernel's word.

use std::fs::File;
use std::io::Read;

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
pub(super) fn parent_of(pid: u32) -> Option<u32> {
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
