//! What the agent knows about its process, in memory that a forked child gets wiped: there everything is zero again,
//! and zero is "not a client".

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::moves::Moves;
use crate::sys::{self, Errno};

/// Bytes of a page.
pub(crate) const PAGE: usize = freehold_protocol::PAGE_SIZE;

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
    /// Held by the thread that asks the agent thread for something.
    pub(crate) lock: AtomicU32,
    /// What is asked: 0 nothing, else one of the numbers in `mailbox`.
    pub(crate) request: AtomicU32,
    /// Incremented when the request has been met.
    pub(crate) met: AtomicU32,
    /// The request's arguments, and the answer.
    pub(crate) arguments: [AtomicUsize; 2],
    /// Where the [`crate::client::Client`] is.
    pub(crate) client: AtomicUsize,
    /// 1 once the program has set up a filter of system calls.
    pub(crate) filtered: AtomicU32,
    /// The thread that changes the break, see [`crate::heap`]; 0 for none.
    pub(crate) breaking: AtomicUsize,
    /// Moves of pages, by the agent thread and by the program.
    pub(crate) moves: Moves,
    /// Where pages are for small mappings to come, and how many: see [`crate::small`].
    pub(crate) small_ahead: AtomicU64,
    /// Pages of small mappings that the program has asked for.
    pub(crate) small_asked: AtomicUsize,
    /// Not 0 while memory that is made is to be locked: see [`crate::locks`].
    pub(crate) future: AtomicU32,
    /// Bytes of mappings left unmanaged after the start, by reason.
    pub(crate) unmanaged: [AtomicU64; 3],
}

/// What `FILTERED` is in the strict mode.
pub(crate) const STRICT: u32 = 2;

/// Where the table is; the same in a forked child.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// What the parent's `filtered` says of a forked child too: filters are inherited, and this word is not wiped.
pub(crate) static FILTERED: AtomicU32 = AtomicU32::new(0);

/// The table, once there is one.
pub(crate) fn process() -> Option<&'static Process> {
    let address = TABLE.load(Ordering::Acquire);
    // SAFETY: either none, or the page that `create` mapped, which stays and of which any content is valid.
    (address != 0).then(|| unsafe { &*core::ptr::with_exposed_provenance::<Process>(address) })
}

/// Makes the table.
pub(crate) fn create() -> Result<&'static Process, Errno> {
    const WIPE_ON_FORK: usize = 18;
    let address = sys::anonymous(size_of::<Process>(), sys::PROT_READ | sys::PROT_WRITE)?;
    // SAFETY: the page is this library's, and nothing is in it yet.
    unsafe { sys::madvise(address, size_of::<Process>(), WIPE_ON_FORK)? };
    TABLE.store(address, Ordering::Release);
    process().ok_or(Errno::NOENT)
}
