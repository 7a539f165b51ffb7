//! The kernel's userfaultfd interface: structures, request numbers, feature and mode bits.

use crate::{AddressRange, Errno, sys};
use std::fmt;
use std::ops::BitOr;

pub(super) const API_NUMBER: u64 = 0xAA;
pub(super) const USER_MODE_ONLY: u32 = 1;

const READ_WRITE: u64 = 3;
const READ: u64 = 2;

/// The kernel's encoding of an ioctl request: direction, size of the argument, type 0xAA, number.
const fn request<T>(direction: u64, number: u64) -> u64 {
    (direction << 30) | ((size_of::<T>() as u64) << 16) | (0xAA << 8) | number
}

pub(super) const DEVICE_NEW: u64 = 0xAA << 8;
pub(super) const API: u64 = request::<Api>(READ_WRITE, 0x3F);
pub(super) const REGISTER: u64 = request::<Register>(READ_WRITE, 0);
pub(super) const UNREGISTER: u64 = request::<Range>(READ, 1);
pub(super) const WAKE: u64 = request::<Range>(READ, 2);
pub(super) const COPY: u64 = request::<Copy>(READ_WRITE, 3);
pub(super) const ZEROPAGE: u64 = request::<RangeOperation>(READ_WRITE, 4);
pub(super) const MOVE: u64 = request::<Copy>(READ_WRITE, 5);
pub(super) const WRITEPROTECT: u64 = request::<WriteProtect>(READ_WRITE, 6);
pub(super) const CONTINUE: u64 = request::<RangeOperation>(READ_WRITE, 7);
pub(super) const POISON: u64 = request::<RangeOperation>(READ_WRITE, 8);

/// `struct uffdio_api`
#[repr(C)]
pub(super) struct Api {
    pub(super) api: u64,
    pub(super) features: u64,
    pub(super) ioctls: u64,
}

/// `struct uffdio_range`
#[repr(C)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) len: u64,
}

/// `struct uffdio_register`
#[repr(C)]
pub(super) struct Register {
    pub(super) range: Range,
    pub(super) mode: u64,
    pub(super) ioctls: u64,
}

/// `struct uffdio_copy` and `struct uffdio_move`, which are laid out alike.
#[repr(C)]
pub(super) struct Copy {
    pub(super) dst: u64,
    pub(super) src: u64,
    pub(super) len: u64,
    pub(super) mode: u64,
    pub(super) done: i64,
}

/// `struct uffdio_continue`, `uffdio_zeropage` and `uffdio_poison`, which are laid out alike.
#[repr(C)]
pub(super) struct RangeOperation {
    pub(super) range: Range,
    pub(super) mode: u64,
    pub(super) done: i64,
}

/// `struct uffdio_writeprotect`
#[repr(C)]
pub(super) struct WriteProtect {
    pub(super) range: Range,
    pub(super) mode: u64,
}

/// Of COPY, ZEROPAGE, MOVE, CONTINUE and POISON.
pub(super) const DONTWAKE: u64 = 1;
pub(super) const COPY_MODE_WP: u64 = 1 << 1;
pub(super) const CONTINUE_MODE_WP: u64 = 1 << 1;
pub(super) const WRITEPROTECT_MODE_WP: u64 = 1;
/// Only where protection is lifted.
pub(super) const WRITEPROTECT_MODE_DONTWAKE: u64 = 1 << 1;

/// The structures of this module, which a request may carry.
///
/// # Safety
/// The type must be laid out as the kernel's structure of the requests it is used with, and every bit pattern must be
/// a valid value.
pub(super) unsafe trait Argument {}
// SAFETY: `repr(C)` integers in the kernel's order, here and below.
unsafe impl Argument for Api {}
// SAFETY: as above.
unsafe impl Argument for Range {}
// SAFETY: as above.
unsafe impl Argument for Register {}
// SAFETY: as above.
unsafe impl Argument for Copy {}
// SAFETY: as above.
unsafe impl Argument for RangeOperation {}
// SAFETY: as above.
unsafe impl Argument for WriteProtect {}

impl From<AddressRange> for Range {
    fn from(range: AddressRange) -> Self {
        // usize and u64 are the same size on the one architecture supported.
        Self {
            start: range.start() as u64,
            len: range.length() as u64,
        }
    }
}

/// One request. Async-signal-safe.
pub(super) fn call<T: Argument>(fd: i32, number: u64, argument: &mut T) -> Result<(), Errno> {
    assert!(
        (number >> 16) & 0x3FFF == size_of::<T>() as u64,
        "request and argument disagree"
    );
    // SAFETY: the size in `number` equals the size of `T`, so the kernel reads and writes no more than `*argument`, for
    // which any content is valid. What the request does to registered memory, `Userfault::register` has allowed.
    sys::check_int(unsafe { libc::ioctl(fd, number, std::ptr::from_mut(argument)) }).map(|_| ())
}

/// A set of userfaultfd features.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Features(u64);

impl Features {
    /// No feature.
    pub const NONE: Self = Self(0);
    /// A child process gets a userfaultfd of its own at fork. Needs privilege.
    pub const EVENT_FORK: Self = Self(1 << 1);
    /// `mremap` of a registered range is told (4.11).
    pub const EVENT_REMAP: Self = Self(1 << 2);
    /// `madvise` that drops pages of a registered range is told (4.11).
    pub const EVENT_REMOVE: Self = Self(1 << 3);
    /// Missing pages of shared memory (4.11).
    pub const MISSING_SHMEM: Self = Self(1 << 5);
    /// `munmap` of a registered range is told (4.11).
    pub const EVENT_UNMAP: Self = Self(1 << 6);
    /// Faults raise SIGBUS in the faulting thread (4.14).
    pub const SIGBUS: Self = Self(1 << 7);
    /// Messages say which thread faulted (4.14).
    pub const THREAD_ID: Self = Self(1 << 8);
    /// Pages that are in the memory object but not mapped (5.14).
    pub const MINOR_SHMEM: Self = Self(1 << 10);
    /// Write protection of shared memory (5.19).
    pub const WP_HUGETLBFS_SHMEM: Self = Self(1 << 12);
    /// [`Userfault::poison`](super::Userfault::poison) (6.6).
    pub const POISON: Self = Self(1 << 14);
    /// [`Userfault::move_pages`](super::Userfault::move_pages) (6.8).
    pub const MOVE: Self = Self(1 << 16);
    /// What the embedded pager needs: SIGBUS, and missing, minor and write-protect faults on shared memory.
    pub const SELF_PAGING: Self =
        Self(Self::SIGBUS.0 | Self::MISSING_SHMEM.0 | Self::MINOR_SHMEM.0 | Self::WP_HUGETLBFS_SHMEM.0);
    /// What a memory server needs to serve shared memory objects of another process: messages instead of SIGBUS.
    pub const SERVED: Self =
        Self(Self::THREAD_ID.0 | Self::MISSING_SHMEM.0 | Self::MINOR_SHMEM.0 | Self::WP_HUGETLBFS_SHMEM.0);

    /// What a process needs to fill mappings of its own: they are registered for write protection.
    pub const FILLING: Self = Self::WP_HUGETLBFS_SHMEM;

    const NAMES: [(Self, &'static str); 11] = [
        (Self::EVENT_FORK, "EVENT_FORK"),
        (Self::EVENT_REMAP, "EVENT_REMAP"),
        (Self::EVENT_REMOVE, "EVENT_REMOVE"),
        (Self::MISSING_SHMEM, "MISSING_SHMEM"),
        (Self::EVENT_UNMAP, "EVENT_UNMAP"),
        (Self::SIGBUS, "SIGBUS"),
        (Self::THREAD_ID, "THREAD_ID"),
        (Self::MINOR_SHMEM, "MINOR_SHMEM"),
        (Self::WP_HUGETLBFS_SHMEM, "WP_HUGETLBFS_SHMEM"),
        (Self::POISON, "POISON"),
        (Self::MOVE, "MOVE"),
    ];

    /// Whether every feature of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The kernel's bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        for (feature, name) in Self::NAMES {
            if self.contains(feature) {
                write!(f, "{separator}{name}")?;
                separator = " | ";
                rest = rest.without(feature);
            }
        }
        if rest != Self::NONE || separator.is_empty() {
            write!(f, "{separator}{:#x}", rest.0)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}

/// Which faults of a range are intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Modes(u64);

impl Modes {
    /// Pages that are in no frame.
    pub const MISSING: Self = Self(1);
    /// Writes to pages protected with [`Userfault::write_protect`](super::Userfault::write_protect).
    pub const WRITE_PROTECT: Self = Self(1 << 1);
    /// Pages that are in a frame of the memory object but not mapped here.
    pub const MINOR: Self = Self(1 << 2);
    /// All three.
    pub const ALL: Self = Self(Self::MISSING.0 | Self::WRITE_PROTECT.0 | Self::MINOR.0);

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The operations, as bits of the register reply, without which the modes are useless.
    pub(super) const fn operations_needed(self) -> u64 {
        let mut needed = 0;
        if self.0 & Self::MISSING.0 != 0 {
            needed |= 1 << 3;
        }
        if self.0 & Self::WRITE_PROTECT.0 != 0 {
            needed |= 1 << 6;
        }
        if self.0 & Self::MINOR.0 != 0 {
            needed |= 1 << 7;
        }
        needed
    }
}

impl BitOr for Modes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

const _: () = {
    // Fixed by include/uapi/linux/userfaultfd.h.
    assert!(API == 0xC018_AA3F);
    assert!(REGISTER == 0xC020_AA00);
    assert!(UNREGISTER == 0x8010_AA01);
    assert!(COPY == 0xC028_AA03);
    assert!(WRITEPROTECT == 0xC018_AA06);
    assert!(CONTINUE == 0xC020_AA07);
};
