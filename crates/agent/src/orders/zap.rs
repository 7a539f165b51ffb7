//! Removing mappings of shared objects.

use freehold_protocol::channel::{Order, Outcome};

use super::page_map::{self, Entry};
use crate::client::Client;
use crate::process::PAGE;
use crate::sys::{self, Errno};

const CHUNK: usize = 512;

/// Removes the mappings of an order's pages.
///
/// A program may have made its text writable and written to it: then it has pages of its own there, which are no
/// mappings of the object any more and must stay. The kernel's page map tells them apart.
pub(super) fn zap(client: &Client, order: &Order) -> Outcome {
    let Some((start, length)) = super::page_range(order) else {
        return Outcome::Refused;
    };
    let mut outcome = Outcome::Done;
    let mut at = start;
    while at < start + length {
        let pages = CHUNK.min((start + length - at) / PAGE);
        if zap_chunk(client, at, pages) == Outcome::Refused {
            outcome = Outcome::Refused;
        }
        at += pages * PAGE;
    }
    outcome
}

fn zap_chunk(client: &Client, start: usize, pages: usize) -> Outcome {
    let mut map = [Entry::default(); CHUNK];
    let known = map.get_mut(..pages).map(|map| page_map::read(client, start, map));
    if known != Some(Ok(())) {
        return Outcome::Refused;
    }
    let mut outcome = Outcome::Done;
    let mut from = 0;
    while from < pages {
        let own = |page: usize| map.get(page).is_some_and(|entry| entry.is_own());
        if own(from) {
            from += 1;
            continue;
        }
        let mut end = from + 1;
        while end < pages && !own(end) {
            end += 1;
        }
        if drop_pages(start + from * PAGE, (end - from) * PAGE).is_err() {
            outcome = Outcome::Refused;
        }
        from = end;
    }
    outcome
}

/// Drops what is mapped in a range, also where it is locked.
pub(super) fn drop_pages(start: usize, length: usize) -> Result<(), Errno> {
    const DONT_NEED: usize = 4;
    const DONT_NEED_LOCKED: usize = 24;
    // SAFETY: the pages are mappings of an object that keeps its content, or this library's own.
    let dropped = unsafe { sys::own::madvise(start, length, DONT_NEED_LOCKED) };
    match dropped {
        // Kernels before 5.18 know the plain one only.
        // SAFETY: as above.
        Err(Errno::INVAL) => unsafe { sys::own::madvise(start, length, DONT_NEED) }.map(|_| ()),
        other => other.map(|_| ()),
    }
}
