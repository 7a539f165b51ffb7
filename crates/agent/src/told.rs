//! The agent thread's side of waiting until the server has been told of all that happened to the address space.
//!
//! The kernel tells of what is unmapped or moved after it has done it, and answers `EAGAIN` about any registered memory
//! until all is read.

use core::ops::Range;

use crate::client::Client;
use crate::process::PAGE;
use crate::session::Session;
use crate::sys::{self, Answer, Errno};
use crate::userfault;

/// Between two looks, in nanoseconds.
const NAP: usize = 20_000;

/// Another thread's memory may have been, a moment ago, where memory has just been made: the kernel gives its addresses
/// away before it tells the server that it is gone. Told after what was made there is used, that would be taken for it.
pub(crate) fn await_all(client: &Client, session: &Session, meanwhile: &mut dyn FnMut()) {
    for fd in [client.descriptors.private, client.descriptors.shared] {
        // What the answer is says nothing: there is seldom a mapping.
        let _ = settled(|| userfault::is_registered(fd, PAGE, PAGE), session, meanwhile);
    }
}

/// Whether a range is private memory of one mapping that the server manages.
pub(crate) fn is_registered(
    client: &Client,
    range: Range<usize>,
    session: &Session,
    meanwhile: &mut dyn FnMut(),
) -> bool {
    let fd = client.descriptors.private;
    let ask = || userfault::is_registered(fd, range.start, range.end - range.start);
    settled(ask, session, meanwhile).is_ok()
}

/// The kernel's answer when nothing is left to be told; `EAGAIN` still where nobody is there whom it could tell.
fn settled(ask: impl Fn() -> Answer, session: &Session, meanwhile: &mut dyn FnMut()) -> Answer {
    loop {
        match ask() {
            Err(Errno::AGAIN) if session.is_connected() => {
                meanwhile();
                sys::nap(NAP);
            }
            answer => return answer,
        }
    }
}
