//! What the agent knows about its process, in memory that a forked child gets wiped: there everything is zero again,
//! and zero is "not a client".

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::hooks::frees::Frees;
use crate::orders::move_guard::MoveGuard;
use crate::sys::stack;
use crate::sys::{self, Errno};

/// Bytes of a page.
pub(crate) const PAGE: usize = freehold_protocol::PAGE_SIZE;

/// The end of so many bytes in whole pages, as the kernel has it: past the last page of all it is 0.
pub(crate) const fn whole_pages(bytes: usize) -> usize {
    bytes.wrapping_add(PAGE - 1) & !(PAGE - 1)
}

/// Not a client: before the start, or in a child made past the C library that has made no memory of its own yet.
pub(crate) const NOTHING: u32 = 0;
/// Somebody is connecting.
pub(crate) const CONNECTING: u32 = 1;
/// A client.
pub(crate) const READY: u32 = 2;
/// Not a client, and will not be one.
pub(crate) const UNMANAGED: u32 = 3;

/// The table, all of atomic numbers: zeros are a valid one.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Process {
    /// One of the four phases above.
    pub(crate) phase: AtomicU32,
    /// What the agent thread is asked for.
    pub(crate) mailbox: Mailbox,
    /// Where the [`crate::client::Client`] is.
    pub(crate) client: AtomicUsize,
    /// 1 once the program has set up a filter of system calls.
    pub(crate) filtered: AtomicU32,
    /// The thread that changes the break, see [`crate::hooks::brk_ahead`]; 0 for none.
    pub(crate) breaking: AtomicUsize,
    /// Moves of pages, by the agent thread and by the program.
    pub(crate) moves: MoveGuard,
    /// Calls of the program that give addresses away.
    pub(crate) frees: Frees,
    /// Where pages are for small mappings to come, and how many: see [`crate::hooks::mmap_ahead`].
    pub(crate) small_ahead: AtomicU64,
    /// Pages of small mappings that the program has asked for.
    pub(crate) small_asked: AtomicUsize,
    /// Not 0 while memory that is made is to be locked: see [`crate::hooks::locks`].
    pub(crate) future: AtomicU32,
    /// This process in its own numbering, once it has connected.
    pub(crate) pid: AtomicU32,
    /// The fork that is under way.
    pub(crate) fork: Fork,
    /// 1 for each slot that a program is being begun with: see [`crate::programs`].
    pub(crate) slots: [AtomicU32; SLOTS],
}

/// A request to the agent thread: see [`crate::threads::mailbox`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mailbox {
    /// Held by the thread that asks.
    pub(crate) lock: AtomicU32,
    /// What is asked: 0 nothing, else one of the numbers in `mailbox`.
    pub(crate) request: AtomicU32,
    /// Incremented when the request has been met.
    pub(crate) met: AtomicU32,
    /// The request's arguments, and the answer.
    pub(crate) arguments: [AtomicUsize; 2],
}

/// A fork of this process: see [`crate::forks`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fork {
    /// Held from before the fork until after it, by the thread that forks.
    pub(crate) lock: AtomicU32,
    /// Which thread that is, by its thread pointer, and the signal mask that it had.
    pub(crate) thread: AtomicUsize,
    pub(crate) mask: AtomicU64,
    /// A connection for the child that is about to be forked: its number in the agent's table of descriptors, from the
    /// one request to the other; in the child that it was for, its number in the program's table and 1, or 0.
    pub(crate) lent: AtomicU32,
}

impl Process {
    /// The end of the stack that [`stack::run`] uses: it lies below this table.
    pub(crate) fn stack_top(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Where a slot is: behind this table.
    pub(crate) fn slot(&self, number: usize) -> usize {
        core::ptr::from_ref(self) as usize + size_of::<Self>() + number * SLOT
    }
}

/// Programs that can be begun at a time with an environment of the agent's.
pub(crate) const SLOTS: usize = 4;
/// Bytes of a slot, which is half stack and half environment.
pub(crate) const SLOT: usize = 64 << 10;

/// Where the table is; the same in a forked child.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// The table, once there is one.
pub(crate) fn process() -> Option<&'static Process> {
    let address = TABLE.load(Ordering::Acquire);
    // SAFETY: either none, or the page that `create` mapped, which stays and of which any content is valid.
    (address != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance::<Process>(address) })
}

/// The stack, the table above it, and the slots above that.
const SIZE: usize = stack::BYTES + size_of::<Process>() + SLOTS * SLOT;

/// Makes the table.
pub(crate) fn create() -> Result<&'static Process, Errno> {
    const WIPE_ON_FORK: usize = 18;
    let address = sys::guarded(SIZE, sys::PROT_READ | sys::PROT_WRITE)?;
    // SAFETY: the pages are this library's, and nothing is in them yet.
    unsafe { sys::madvise(address, SIZE, WIPE_ON_FORK)? };
    TABLE.store(address + stack::BYTES, Ordering::Release);
    process().ok_or(Errno::NOENT)
}
