//! Copying pages that the kernel does not move, and dropping them.
//!
//! The kernel moves pages between areas that may be written, of one protection. What a program has made read-only,
//! execute-only or inaccessible, or given a protection key, is read through `/proc/self/mem`, which looks at no
//! protection, and dropped. Between the two nobody can change the page: writes to it are told to the server from before
//! the copy on, whatever the program makes of its protection meanwhile, and whoever writes waits for the server.
//!
//! The kernel tells the server that a page is dropped, and not by whom. The answer to the order says whether it was
//! dropped by that: of two such events before it one is the program's.

use freehold_protocol::channel::{Action, Order, Outcome};

use crate::client::Client;
use crate::client::userfault;
use crate::orders::{copy, page_map};
use crate::process::PAGE;
use crate::sys::{self, Errno};

/// Carries out an order about the page at `from`, with a page of the staging area to copy to. Nothing has changed where
/// the kernel says to try again.
pub(super) fn copy_and_drop(client: &Client, order: &Order, from: usize, staging: usize) -> Result<Outcome, Errno> {
    let private = client.descriptors.private;
    userfault::is_registered(private, from, PAGE)?;
    if !page_map::entry(client, from)?.is_own() {
        return Err(Errno::NOENT);
    }
    if order.action == Action::Drop {
        return Ok(drop_page(from));
    }
    userfault::write_protect(private, from, PAGE, true)?;
    let copied = read_page(client, from, staging) && copy::copy_out(client, staging, order.slot);
    let outcome = if copied { drop_page(from) } else { Outcome::Refused };
    if outcome == Outcome::Refused {
        // It stays, and may be written unseen from now on: the server takes it for written.
        let _ = userfault::write_protect(private, from, PAGE, false);
    }
    Ok(outcome)
}

/// Copies a page to one of the staging area, whatever its protection.
fn read_page(client: &Client, from: usize, to: usize) -> bool {
    let memory = sys::arg(client.descriptors.memory);
    // SAFETY: writes one page of this library's own area.
    let read = unsafe { sys::own::call(sys::PREAD, memory, to, PAGE, from, 0) };
    read == Ok(PAGE)
}

/// Drops a page whose content is elsewhere; not one that is locked, which the kernel refuses.
fn drop_page(page: usize) -> Outcome {
    const DONT_NEED: usize = 4;
    // SAFETY: whoever touches the page gets it back from the server.
    let dropped = unsafe { sys::own::madvise(page, PAGE, DONT_NEED) };
    if dropped.is_ok() {
        Outcome::Dropped
    } else {
        Outcome::Refused
    }
}
