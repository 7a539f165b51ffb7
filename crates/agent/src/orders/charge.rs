//! Makes room below the limit of the process's memory cgroup.

use crate::client::Client;
use crate::process::PAGE;
use crate::sys;
use freehold_protocol::channel::{CHARGED, Outcome};

/// Takes pages and gives them back. Where nothing else can give way, the kernel ends a process of the group now.
pub(super) fn charge(client: &Client) -> Outcome {
    // Also where the program has locked all its memory.
    const DONT_NEED_LOCKED: usize = 24;
    let start = client.charged();
    for page in 0..CHARGED {
        // SAFETY: these pages are the client's for nothing else, and only the agent thread writes them.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<u8>(start + page * PAGE).write_volatile(1);
        }
    }
    // SAFETY: nothing is in the pages.
    match unsafe { sys::own::madvise(start, CHARGED * PAGE, DONT_NEED_LOCKED) } {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Refused,
    }
}
