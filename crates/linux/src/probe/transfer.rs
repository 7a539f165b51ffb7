//! What moves pages to and from a file.

use crate::PAGE_SIZE;
use crate::event::Event;
use crate::memory::{Memfd, PageLease};
use crate::probe::{Finding, Item, Need};
use crate::ring::{Direction, Ring, Transfer};
use std::os::fd::AsFd;
use std::sync::Arc;

const PATTERN: u8 = 0x5a;
/// How often a wait may end for no reason.
const WAITS: u32 = 100;

pub(super) fn io_uring() -> Finding {
    let item = Item {
        name: "io_uring",
        need: Need::Optional,
        why: "pages on their way to and from a file without a thread for each; without it, threads read and write",
        fix: "kernel.io_uring_disabled = 0, and no seccomp filter against it (containers often have one)",
    };
    item.tried(write_and_read().map(|()| "a page was written and read back".to_owned()))
}

fn write_and_read() -> Result<(), String> {
    let text = |error: &dyn ToString| error.to_string();
    let file = Memfd::create(c"freehold-probe", 1).map_err(|error| text(&error))?;
    let file = file.as_fd().try_clone_to_owned().map_err(|error| text(&error))?;
    let event = Arc::new(Event::new().map_err(|error| text(&error))?);
    let mut ring = Ring::new(file, event, 1).map_err(|error| text(&error))?;
    let mut page = PageLease::allocated();
    page.bytes_mut().fill(PATTERN);
    transfer(&mut ring, Direction::Write, page)?;
    let page = transfer(&mut ring, Direction::Read, PageLease::allocated())?;
    if page.bytes() == &[PATTERN; PAGE_SIZE] {
        Ok(())
    } else {
        Err("a page came back changed".to_owned())
    }
}

fn transfer(ring: &mut Ring, direction: Direction, page: PageLease) -> Result<PageLease, String> {
    let transfer = Transfer {
        tag: 0,
        direction,
        page,
        length: PAGE_SIZE,
        offset: 0,
    };
    ring.begin(transfer)
        .map_err(|_| "no room for one transfer".to_owned())?;
    for _ in 0..WAITS {
        ring.wait().map_err(|error| error.to_string())?;
        if let Some(ended) = ring.next_ended() {
            return match ended.result {
                Ok(PAGE_SIZE) => Ok(ended.page),
                Ok(length) => Err(format!("{length} bytes of a page were transferred")),
                Err(errno) => Err(errno.to_string()),
            };
        }
    }
    Err("a transfer does not end".to_owned())
}
