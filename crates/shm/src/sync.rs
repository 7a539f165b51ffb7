//! What the other files are made of. The models in `tests/` compile those against another module of this name, so that
//! every interleaving of the very code can be run; they take atomics from here and from nowhere else.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Entries of an [`EntryRing`](crate::entry_ring::EntryRing).
pub const ENTRIES: usize = 512;

/// How often a side tries before it leaves a [`byte_ring`](crate::byte_ring) to those that are faster.
pub(crate) const ATTEMPTS: u32 = 16;
