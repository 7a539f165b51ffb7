//! Late mappings: why a page is never mapped between its last unmapping and its drop.
//!
//! # The race
//! The core decides under its lock; decisions are carried out outside it, each by the thread that drained them. So a
//! thread may hold a decision to *map* page p, be preempted, and carry it out after another thread was told to *unmap*
//! p, has done so, has copied p out and is about to drop it. A write through the late mapping would be lost (law 5).
//!
//! # The remedy
//! Every page has an epoch, and every epoch a stripe lock (a PI mutex shared by many pages).
//!
//! - The epoch is read when the decision to map is drained, under the core's lock.
//! - Whoever carries out an unmapping, for whatever reason, first advances the page's epoch under its stripe, and only
//!   then zaps. (It need not hold the stripe while it zaps.)
//! - The mapping itself is made under the stripe, after a check that the epoch has not moved. If it has, nothing is
//!   mapped: the handler returns, the access faults again, and the core is asked afresh.
//!
//! # Why that suffices
//! Let E be an eviction of p, decided at time d under the core's lock, and let M be a decision to map p, drained at m.
//!
//! - m before d: the epoch that M carries is older than E's advance. If the mapping is made before the advance, E's
//!   zap, which comes after, removes it. If it comes after the advance, the check refuses it. Both are ordered by the
//!   stripe.
//! - m after d: the core holds an evicted page as *leaving* until it is told that the eviction has ended, and gives
//!   nobody a mapping of it until then. It is told after the punch. So M maps what was filled afterwards.
//!
//! Hence nothing maps p between E's zap and E's punch. E always zaps everybody, even if a demotion has unmapped p
//! before: that demotion's zap may still be pending in a preempted thread. A zap that arrives late, when the page is
//! mapped again by right, costs a soft fault and no more: the core answers a fault on a page it believes mapped with
//! the mapping once again.
//!
//! `tests/model_epoch.rs` runs this very file in every interleaving of a small world.
//!
//! A thread waits for a stripe at most as long as one ioctl takes its holder, which inherits the waiter's priority.

use crate::sync::{AtomicU32, Ordering, PiGuard, PiMutex};

const STRIPES: usize = 128;

/// Where a page stood in the sequence of its unmappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

impl Epoch {
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
}

/// The epochs of all pages, by page number.
#[derive(Debug)]
pub(crate) struct Epochs {
    epochs: Box<[AtomicU32]>,
    stripes: Box<[PiMutex<()>]>,
}

impl Epochs {
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            epochs: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            stripes: (0..STRIPES).map(|_| PiMutex::new(())).collect(),
        }
    }

    /// The page's epoch now. To be called under the core's lock.
    pub(crate) fn sample(&self, page: usize) -> Epoch {
        Epoch(self.epochs[page].load(Ordering::Acquire))
    }

    /// Starts a new epoch: mappings decided before will not be made from now on.
    pub(crate) fn advance(&self, page: usize) {
        let _stripe = self.stripe(page);
        self.epochs[page].fetch_add(1, Ordering::AcqRel);
    }

    /// Keeps the page's epoch from moving, if it is still `expected`.
    pub(crate) fn hold(&self, page: usize, expected: Epoch) -> Option<PiGuard<'_, ()>> {
        let stripe = self.stripe(page);
        (self.epochs[page].load(Ordering::Acquire) == expected.0).then_some(stripe)
    }

    fn stripe(&self, page: usize) -> PiGuard<'_, ()> {
        self.stripes[page % STRIPES].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::Epochs;

    #[test]
    fn an_old_epoch_is_refused_and_a_current_one_is_held() {
        crate::sync::run(|| {
            let epochs = Epochs::new(4);
            let before = epochs.sample(2);
            epochs.advance(3);
            assert!(epochs.hold(2, before).is_some());
            epochs.advance(2);
            assert!(epochs.hold(2, before).is_none());
            assert!(epochs.hold(2, epochs.sample(2)).is_some());
        });
    }
}
