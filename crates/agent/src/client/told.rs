//! The agent thread's side of waiting until the server has been told of all that happened to the address space.
//!
//! The kernel tells of what is unmapped or moved after it has done it, and answers `EAGAIN` about any registered memory
//! until all is read. Where threads go on unmapping, or dropping pages, there may always be something unread.

use core::ops::Range;

use crate::client::Client;
use crate::client::connection::Connection;
use crate::client::userfault;
use crate::hooks::frees::Ticket;
use crate::process::{PAGE, Process};
use crate::sys::{self, Answer, Errno};

/// Between two series of looks, in nanoseconds.
const NAP: usize = 20_000;
/// Looks of one series.
const LOOKS: u32 = 16;
/// After so many series, what the program has begun since is not waited for any more. Calls past the C library are
/// known by the kernel's answer only.
const SERIES: u32 = 4;

/// Another thread's memory may have been, a moment ago, where memory has just been made: the kernel gives its addresses
/// away before it tells the server that it is gone. Told after what was made there is used, that would be taken for it.
pub(crate) fn await_all(client: &Client, process: &Process, session: &Connection, meanwhile: &mut dyn FnMut()) {
    let mut ticket = Ticket::default();
    let mut series = 0;
    for fd in [client.descriptors.private, client.descriptors.shared] {
        // What the answer is says nothing: there is seldom a mapping.
        let ask = || userfault::is_registered(fd, PAGE, PAGE);
        while looked(ask) == Err(Errno::AGAIN) && session.is_connected() {
            series += 1;
            if series >= SERIES && process.frees.have_ended(&mut ticket) {
                return;
            }
            meanwhile();
            sys::nap(NAP);
        }
    }
}

/// Whether a range is private memory of one mapping that the server manages.
pub(crate) fn is_registered(
    client: &Client,
    range: Range<usize>,
    session: &Connection,
    meanwhile: &mut dyn FnMut(),
) -> bool {
    let fd = client.descriptors.private;
    loop {
        match looked(|| userfault::is_registered(fd, range.start, range.end - range.start)) {
            Err(Errno::AGAIN) if session.is_connected() => {
                meanwhile();
                sys::nap(NAP);
            }
            answer => return answer.is_ok(),
        }
    }
}

/// The kernel's answer at a moment at which nothing was left to be told; `EAGAIN` where there was none.
fn looked(ask: impl Fn() -> Answer) -> Answer {
    let answers = (0..LOOKS).map(|_| ask());
    let mut settled = answers.skip_while(|answer| *answer == Err(Errno::AGAIN));
    settled.next().unwrap_or(Err(Errno::AGAIN))
}
