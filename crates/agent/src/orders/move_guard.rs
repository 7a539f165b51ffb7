//! Who moves pages: the agent thread out of the address space, and the program inside of it, with `mremap`.
//!
//! An order names an address, and what the agent takes from there must be what the order was given for. What the
//! program moves to an address would be taken in place of what had been there, and be lost, because the server believes
//! it to be where it was moved to. (New memory is no danger: the server puts nothing at an address while an order for
//! it is unanswered.)
//!
//! So no page is moved out while a call of the program is under way, and what was ordered before one ended is refused.
//! The kernel lets such a call return when the server has read of it: what is ordered later means what is there now.
//!
//! `tests/model_moves.rs` runs this very file in every interleaving of a program, an agent and a server.

use crate::sync::{AtomicU32, Ordering, fence};
use freehold_protocol::channel::is_before;

/// The agreement, in the memory of the process. All zeros is one by which nothing has moved.
#[derive(Debug, Default)]
pub(crate) struct MoveGuard {
    /// 1 while the agent thread finds out whether memory is still managed and moves pages out of it.
    out: AtomicU32,
    /// Calls of the program that have begun.
    begun: AtomicU32,
    /// Those that have ended.
    ended: AtomicU32,
    /// Orders that the server had written when the last one ended, modulo 2³².
    written: AtomicU32,
}

/// What the program had moved while it was moving nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    ended: u32,
    /// The orders before are older, modulo 2³².
    pub(crate) written: u32,
}

impl MoveGuard {
    /// The agent's side: what the program has moved so far, where no call is under way.
    pub(crate) fn settled(&self) -> Option<Settled> {
        let ended = self.ended.load(Ordering::Acquire);
        let written = self.written.load(Ordering::Acquire);
        // Last: none has begun that had not ended at first.
        (self.begun.load(Ordering::Acquire) == ended).then_some(Settled { ended, written })
    }

    /// The agent's side: whether pages may be moved out now, by orders that were taken when `settled` held. If so, the
    /// program moves none until [`end_out`](Self::end_out).
    pub(crate) fn begin_out(&self, settled: Option<Settled>) -> bool {
        self.out.store(1, Ordering::Relaxed);
        // Either the program sees this, or this sees what the program has begun.
        fence(Ordering::SeqCst);
        let may = settled.is_some() && self.settled() == settled;
        if !may {
            self.end_out();
        }
        may
    }

    /// The agent's side: the pages have been moved.
    pub(crate) fn end_out(&self) {
        self.out.store(0, Ordering::Release);
    }

    /// The program's side: whether pages are being moved out by orders that are older than what the caller has done.
    pub(crate) fn is_going_out(&self) -> bool {
        fence(Ordering::SeqCst);
        self.out.load(Ordering::Acquire) != 0
    }

    /// The program's side: a call is about to begin. Once [`is_going_out`](Self::is_going_out) says no, none goes out
    /// until it has ended.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// The program's side: the call has ended; so many orders had been written then.
    pub(crate) fn end(&self, written: u32) {
        // Of two that end together, what the later one has seen stays.
        let later = |before| is_before(before, written).then_some(written);
        let _ = self.written.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
}
