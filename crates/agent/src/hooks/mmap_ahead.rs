//! Small mappings: some are made at once, side by side, so that not each waits for the agent, and the first one's fault
//! brings pages of the next.
//!
//! What is ahead belongs to nobody and is untouched: the program learns of a part when it is given that, and unmaps no
//! other. It is given up where a mapping at a fixed place takes it. A forked child has none: its table is wiped.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::hooks;
use crate::process::{PAGE, Process};
use crate::sys;

/// Pages of a mapping that counts as small, at most.
const SMALL: usize = 16;
/// Pages that are made ahead, at most; and never more than the program has asked for so far in such mappings.
const MOST: usize = 64;

const PLAIN: usize = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
const READ_WRITE: usize = sys::PROT_READ | sys::PROT_WRITE;

/// Where pages are ahead, and how many: the number of the first in the upper bits, their count in the lower 16.
#[derive(Clone, Copy)]
struct Ahead(u64);

impl Ahead {
    const NONE: Self = Self(0);

    fn new(start: usize, pages: usize) -> Self {
        Self(((start / PAGE) as u64) << 16 | pages as u64)
    }

    fn start(self) -> usize {
        usize::try_from(self.0 >> 16).unwrap_or(0) * PAGE
    }

    fn pages(self) -> usize {
        usize::try_from(self.0 & 0xFFFF).unwrap_or(0)
    }

    fn end(self) -> usize {
        self.start() + self.pages() * PAGE
    }

    /// What is left without the first pages; `None` where there are fewer.
    fn without(self, pages: usize) -> Option<Self> {
        let left = self.pages().checked_sub(pages)?;
        Some(Self::new(self.start() + pages * PAGE, left))
    }
}

/// Whether a mapping of a client's, anywhere, is one that may be cut from others.
pub(crate) fn suits(address: usize, length: usize, protection: usize, flags: usize) -> bool {
    address == 0 && protection == READ_WRITE && flags == PLAIN && (1..=SMALL * PAGE).contains(&length)
}

/// Managed memory for such a mapping; `None` where it is to be made as any other.
pub(crate) fn take(process: &Process, length: usize) -> Option<usize> {
    let pages = length.div_ceil(PAGE);
    let asked = process.small_asked.fetch_add(pages, Ordering::Relaxed);
    cut(&process.small_ahead, pages).or_else(|| make(process, pages, asked.min(MOST)))
}

fn cut(ahead: &AtomicU64, pages: usize) -> Option<usize> {
    let without = |word| Ahead(word).without(pages).map(|left| left.0);
    let before = ahead.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
    before.ok().map(|word| Ahead(word).start())
}

/// Makes memory for the mapping, and so many pages ahead.
fn make(process: &Process, pages: usize, more: usize) -> Option<usize> {
    if more < pages {
        return None;
    }
    let length = (pages + more) * PAGE;
    // SAFETY: a new mapping, wherever there is room. Where the program's limits refuse it, what it asks for is made.
    let start = unsafe { sys::call(sys::MMAP, [0, length, READ_WRITE, PLAIN, usize::MAX, 0]) }.ok()?;
    let rest = Ahead::new(start + pages * PAGE, more);
    if hooks::manage(start, length) {
        give_up(Ahead(process.small_ahead.swap(rest.0, Ordering::AcqRel)));
    } else {
        give_up(rest);
    }
    Some(start)
}

/// A mapping is about to be made at a fixed place: what is ahead there goes.
pub(crate) fn make_way(process: &Process, start: usize, length: usize) {
    let ahead = Ahead(process.small_ahead.load(Ordering::Acquire));
    if start < ahead.end() && start.saturating_add(length) > ahead.start() {
        give_up(Ahead(process.small_ahead.swap(Ahead::NONE.0, Ordering::AcqRel)));
    }
}

fn give_up(ahead: Ahead) {
    if ahead.pages() > 0 {
        // Nobody was given these pages, and nobody will be: whoever took the word away has them alone.
        let _ = hooks::unmap(ahead.start(), ahead.pages() * PAGE);
    }
}
