//! What is known of a client's private memory, and where a page of it is.

use crate::engine::private_memory::booking::Bookings;
use crate::engine::private_memory::lending::LentPages;
use crate::engine::private_memory::program_locks::ProgramLocks;

/// A client's private memory.
#[derive(Debug, Default)]
pub(crate) struct PrivateMemory {
    /// Ranges that stay where they are: start and end.
    pub(crate) kept: Vec<(u64, u64)>,
    /// Pages in its page table.
    pub(crate) resident: u64,
    /// Pages of zeros that have a frame by the books, and are in none.
    pub(crate) blank: u64,
    /// What it takes of the tables.
    pub(crate) bookings: Bookings,
    /// What its program has locked.
    pub(crate) program_locks: ProgramLocks,
    /// What it has beyond its reservation.
    pub(crate) lent: LentPages,
}

/// Where a private page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In no frame: never touched, forgotten, or in the store.
    Nowhere,
    /// In the client's page table.
    Client,
    /// The same, and in no frame by the books: it is lent.
    Lent,
    /// In the transfer memory.
    Slot(u32),
    /// In a frame by the books, all zeros, and in none really.
    Blank,
    /// An order is under way that takes it out of the client's page table.
    Leaving,
}
