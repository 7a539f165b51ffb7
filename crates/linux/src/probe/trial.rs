//! A one-page arena to try userfaultfd on.

use crate::memory::{Access, Memfd, SharedMapping};
use crate::userfault::{Features, Modes, Userfault};
use crate::{AddressRange, Errno, PAGE_SIZE, PageRange, sys};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

/// A memory object of one page mapped twice: plainly, and with its faults intercepted. Nothing of it is ever accessed
/// but by system calls, which get EFAULT where a program would get SIGBUS: so no handler is needed.
pub(super) struct Arena {
    pub(super) userfault: Userfault,
    alias: SharedMapping,
    pub(super) mapping: SharedMapping,
    zeros: File,
    pipe: (OwnedFd, OwnedFd),
}

/// Turns any error into what a finding says.
pub(super) fn say<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// The condition, or what its failure means.
pub(super) fn ensure(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

impl Arena {
    /// An arena whose userfaultfd raises SIGBUS and has `features` besides, with `modes` intercepted.
    pub(super) fn new(features: Features, modes: Modes) -> Result<Self, String> {
        let userfault = say("open", Userfault::open(features | Features::SIGBUS))?;
        let object = say("memfd", Memfd::create(c"freehold-probe", 1))?;
        let alias = say("map", SharedMapping::of_whole(&object, Access::ReadWrite))?;
        let mapping = say("map", SharedMapping::of_whole(&object, Access::ReadWrite))?;
        let zeros = say("/dev/zero", File::open("/dev/zero"))?;
        let pipe = say("pipe", std::io::pipe())?;
        let pipe = (pipe.0.into(), pipe.1.into());
        let arena = Self {
            userfault,
            alias,
            mapping,
            zeros,
            pipe,
        };
        // SAFETY: the arena owns the mapping and makes no reference into it.
        say("register", unsafe { arena.userfault.register(arena.range()?, modes) })?;
        Ok(arena)
    }

    /// The intercepted page.
    pub(super) fn range(&self) -> Result<AddressRange, String> {
        self.mapping
            .addresses(PageRange::single(0))
            .ok_or_else(|| "the arena has no page".to_owned())
    }

    /// Gives the page a frame, through the plain mapping.
    pub(super) fn fill(&self) -> Result<(), String> {
        say("populate", self.alias.populate(PageRange::single(0)))
    }

    /// Whether the page can be written through the intercepted mapping.
    pub(super) fn write(&self) -> Result<(), Errno> {
        // SAFETY: the byte lies in the arena's own mapping; the kernel checks the access itself.
        let result = unsafe { libc::read(self.zeros.as_raw_fd(), self.mapping.base().cast(), 1) };
        sys::check(result as libc::c_long).map(|_| ())
    }

    /// Whether the page can be read through the intercepted mapping.
    pub(super) fn read(&self) -> Result<(), Errno> {
        // SAFETY: as in `write`.
        let result = unsafe { libc::write(self.pipe.1.as_raw_fd(), self.mapping.base().cast(), 1) };
        sys::check(result as libc::c_long).map(|_| ())
    }
}

/// Two private anonymous pages, unmapped on drop.
pub(super) struct Anonymous(*mut std::ffi::c_void);

impl Anonymous {
    pub(super) fn new() -> Result<Self, Errno> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * PAGE_SIZE, protection, MapFlags::PRIVATE) }.map(Self)
    }

    pub(super) fn page(&self, page: usize) -> Option<AddressRange> {
        AddressRange::new(self.0.addr() + page * PAGE_SIZE, PAGE_SIZE)
    }

    /// Gives the second page a frame.
    pub(super) fn touch_second(&self) {
        // SAFETY: the second of the two pages that this value owns; nothing intercepts its faults.
        unsafe { self.0.cast::<u8>().add(PAGE_SIZE).write_volatile(7) }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: the pages belong to this value and no reference into them exists.
        let _ = unsafe { rustix::mm::munmap(self.0, 2 * PAGE_SIZE) };
    }
}
