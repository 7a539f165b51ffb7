//! What the threads of one client share: the program's, the agent's and the watcher's.

pub(super) mod attach;
pub(super) mod connection;
pub(super) mod markers;
pub(super) mod settings;
pub(super) mod silence;
pub(super) mod told;
pub(super) mod userfault;

use core::sync::atomic::AtomicUsize;

use freehold_protocol::channel::{CHARGED, Channel};

use crate::filters::own_calls::{INSTRUCTIONS, Instruction};
use crate::hooks::patch::PATCHED;
use crate::process::PAGE;
use crate::sys::{self, Errno};
use crate::threads::Life;

/// Pages that are moved out and copied together.
pub(crate) const STAGED: usize = 64;
/// Objects of the dynamic linker that one request can name.
pub(crate) const LINKS: usize = 1024;
const WATCHER_STACK: usize = 8 * PAGE;
const AGENT_STACK: usize = 128 * PAGE;

/// Descriptors, in the agent's own table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    pub(crate) socket: i32,
    pub(crate) private: i32,
    pub(crate) shared: i32,
    pub(crate) mover: i32,
    pub(crate) transfer: i32,
    pub(crate) event: i32,
    pub(crate) pagemap: i32,
    /// This process's memory, whatever its protection; -1 where it cannot be had.
    pub(crate) memory: i32,
    /// What the kernel says of this process; -1 where it cannot be had.
    pub(crate) stat: i32,
}

impl Descriptors {
    /// None of them.
    pub(crate) const NONE: Self = Self {
        socket: -1,
        private: -1,
        shared: -1,
        mover: -1,
        transfer: -1,
        event: -1,
        pagemap: -1,
        memory: -1,
        stat: -1,
    };

    /// Each of them, in the order of [`all`](Self::all).
    pub(crate) const fn each_mut(&mut self) -> [&mut i32; 9] {
        [
            &mut self.socket,
            &mut self.private,
            &mut self.shared,
            &mut self.mover,
            &mut self.transfer,
            &mut self.event,
            &mut self.pagemap,
            &mut self.memory,
            &mut self.stat,
        ]
    }

    /// Closes what is there of them.
    pub(crate) fn close(&self) {
        for fd in self.all() {
            sys::close(fd);
        }
    }

    /// All of them.
    pub(crate) const fn all(&self) -> [i32; 9] {
        [
            self.socket,
            self.private,
            self.shared,
            self.mover,
            self.transfer,
            self.event,
            self.pagemap,
            self.memory,
            self.stat,
        ]
    }
}

/// One client. Lives in memory that no forked child has; written by the thread that connects before the agent is told
/// to go, and only read afterwards, but for the atomic numbers and what the agent keeps to itself.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) descriptors: Descriptors,
    /// Where the channel is mapped.
    pub(crate) channel: usize,
    pub(crate) transfer_pages: u32,
    pub(crate) task: u32,
    /// The agent thread's number.
    pub(crate) thread: u32,
    pub(crate) reservation: u32,
    /// Where pages are moved to: readable and writable.
    pub(crate) staging: usize,
    /// The same for pages that may be executed too; 0 until one was met.
    pub(crate) staging_executable: AtomicUsize,
    pub(crate) life: Life,
    /// The process is a forked child.
    pub(crate) forked: bool,
    /// Where the dynamic linker's objects have their dynamic sections.
    pub(crate) links: [AtomicUsize; LINKS],
    pub(crate) link_count: AtomicUsize,
    /// Text pages that this library has changed and that stay as they are.
    pub(crate) patched: [AtomicUsize; PATCHED],
}

const _: () = assert!(size_of::<Client>() < 4 * PAGE, "the table fits its pages");
const TABLE: usize = 4 * PAGE;
/// What `window_of` and `filter` are in.
const WINDOW: usize = PAGE;
const FILTER: usize = INSTRUCTIONS * size_of::<Instruction>();
const CHARGE: usize = CHARGED * PAGE;
const WORK: usize = TABLE + WATCHER_STACK + AGENT_STACK + STAGED * PAGE + WINDOW + CHARGE + FILTER;

impl Client {
    /// Whether the userfaultfds of its memory are its own too. Of a child that has them what holds its memory says no
    /// more whether the server is there; and one that has lost its connection since has lost its memory with it.
    pub(crate) const fn has_its_memory(&self) -> bool {
        self.descriptors.private >= 0
    }

    /// Memory for one client: where it is.
    pub(crate) fn create() -> Result<usize, Errno> {
        const DONT_FORK: usize = 10;
        const NO_HUGE_PAGE: usize = 15;
        let address = sys::anonymous(WORK, sys::PROT_READ | sys::PROT_WRITE)?;
        // SAFETY: the memory is this library's, and nothing is in it yet.
        unsafe {
            sys::madvise(address, WORK, DONT_FORK)?;
            // A kernel without huge pages refuses, and need not be told.
            let _ = sys::madvise(address, WORK, NO_HUGE_PAGE);
        }
        Ok(address)
    }

    /// The client at an address that `create` gave out.
    pub(crate) fn at(address: usize) -> &'static Self {
        // SAFETY: `create` mapped the memory for good, all zeros, which is a valid table.
        unsafe { &*core::ptr::with_exposed_provenance::<Self>(address) }
    }

    /// The same, to be filled in.
    ///
    /// # Safety
    /// No other thread uses it yet.
    pub(crate) unsafe fn at_mut(address: usize) -> &'static mut Self {
        // SAFETY: as above, and the caller's word.
        unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Self>(address) }
    }

    /// The top of the watcher's stack.
    pub(crate) const fn watcher_stack(address: usize) -> usize {
        address + TABLE + WATCHER_STACK
    }

    /// The top of a stack for a thread that only ends: the part of the agent's that it does not come to.
    pub(crate) const fn short_stack(address: usize) -> usize {
        address + TABLE + WATCHER_STACK + PAGE
    }

    /// The top of the agent's stack.
    pub(crate) const fn agent_stack(address: usize) -> usize {
        address + TABLE + WATCHER_STACK + AGENT_STACK
    }

    /// Where the staging area is, which is registered with the mover.
    pub(crate) const fn staging_of(address: usize) -> usize {
        Self::agent_stack(address)
    }

    /// A page where one of the transfer memory can be mapped.
    pub(crate) const fn window_of(address: usize) -> usize {
        Self::staging_of(address) + STAGED * PAGE
    }

    /// Pages that the agent thread takes and gives back, to make room for others.
    pub(crate) fn charged(&self) -> usize {
        Self::window_of(core::ptr::from_ref(self).expose_provenance()) + WINDOW
    }

    /// Where a filter of system calls is written down for the kernel.
    ///
    /// # Safety
    /// No other thread uses it meanwhile.
    #[expect(
        clippy::mut_from_ref,
        reason = "the room is none of the table's, and the caller's alone"
    )]
    pub(crate) unsafe fn filter(&self) -> &mut [Instruction; INSTRUCTIONS] {
        let room = self.charged() + CHARGE;
        // SAFETY: a part of the client's memory, for good; any content is valid; the caller's word.
        unsafe { &mut *core::ptr::with_exposed_provenance_mut(room) }
    }

    /// The channel.
    pub(crate) fn channel(&self) -> &'static Channel {
        // SAFETY: the mapping stays, has the length of a channel, and any content is a valid one.
        unsafe { &*core::ptr::with_exposed_provenance::<Channel>(self.channel) }
    }
}

/// Registers a staging area, in the one mode that lets pages be moved there and tells nobody of missing ones.
pub(crate) fn register_staging(mover: i32, address: usize) -> Result<(), Errno> {
    userfault::register(mover, address, STAGED * PAGE, userfault::WRITE_PROTECT).map(|_| ())
}
