//! What children of forks are to have of the program's memory.
//!
//! The kernel keeps such advice with the mapping, and tells nobody of it. The server, which gives children what is not
//! in the page table, is told by the agent: of memory that it manages, as it hears of no other memory's end.

use core::sync::atomic::{AtomicBool, Ordering};

use freehold_protocol::message::{Inheritance, Request};

use crate::client::Client;
use crate::client::connection::Connection;
use crate::client::told;
use crate::hooks;
use crate::sys::maps;
use crate::threads::mailbox;

/// Whether this process, or one that it descends from, has ever withheld anything.
static WITHHOLDS: AtomicBool = AtomicBool::new(false);

/// Memory, and other memory of which children are to have alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    /// Where it begins.
    pub(crate) start: usize,
    /// Its length in bytes.
    pub(crate) length: usize,
    /// An address in the other memory.
    pub(crate) other: usize,
}

/// Whether anything may be withheld.
pub(crate) fn withholds() -> bool {
    WITHHOLDS.load(Ordering::Relaxed)
}

/// Has the server withhold a range from children; false where it cannot. True as well where nothing is managed.
pub(crate) fn withhold(range: [usize; 2], request: u32) -> bool {
    WITHHOLDS.store(true, Ordering::Relaxed);
    tell(range, request)
}

/// Has the server give children a range again.
pub(crate) fn give(range: [usize; 2], request: u32) {
    if withholds() {
        tell(range, request);
    }
}

/// Memory has become longer, or a mapping two (`MREMAP_DONTUNMAP`): the kernel's advice holds for all of it.
pub(crate) fn spread(alike: Alike) {
    if withholds() && alike.length > 0 {
        tell([core::ptr::from_ref(&alike) as usize, 0], mailbox::INHERIT_ALIKE);
    }
}

fn tell(arguments: [usize; 2], request: u32) -> bool {
    hooks::client_process().is_none_or(|process| mailbox::ask(process, request, arguments, || ()))
}

/// The agent thread's side of [`withhold`] and [`give`].
pub(crate) fn admit(
    client: &Client,
    session: &mut Connection,
    [start, length]: [usize; 2],
    how: Inheritance,
    meanwhile: &mut dyn FnMut(),
) -> bool {
    let end = start.saturating_add(length);
    let mut admitted = true;
    let whole = maps::for_each(
        |_| false,
        |line| {
            let (from, to) = (line.start.max(start), line.end.min(end));
            if from >= to || !line.private || !told::is_registered(client, from..to, session, meanwhile) {
                return;
            }
            let request = Request::Inherit {
                address: from as u64,
                length: (to - from) as u64,
                how,
            };
            admitted &= session.order(&request, meanwhile).is_ok();
        },
    );
    whole && admitted
}

/// The agent thread's side of [`spread`].
pub(crate) fn admit_alike(session: &mut Connection, place: usize, meanwhile: &mut dyn FnMut()) -> bool {
    // SAFETY: the caller of `ask` waits, and has this structure on a stack of this library's.
    let alike = unsafe { *core::ptr::with_exposed_provenance::<Alike>(place) };
    let request = Request::InheritAlike {
        address: alike.start as u64,
        length: alike.length as u64,
        other: alike.other as u64,
    };
    session.order(&request, meanwhile).is_ok()
}
