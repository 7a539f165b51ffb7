//! The folder of this process's threads, `/proc/self/task`, as `stat` and its kin tell of it: its links are the
//! program's own threads and two (proc_pid_task(5)).
//!
//! Sandboxes count threads so before they fork or take a name space of their own, and end the program where there are
//! several: Chromium's does. By which path, folder or descriptor they come there does not matter.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::hooks::behind::behind;
use crate::threads::mailbox;
use crate::threads::watch::THREADS;
use crate::{hooks, sys};

/// The folder itself has two names.
const NAMES: u64 = 2;
const MODE: u32 = 0o040_555;

/// What is looked at of an answer.
struct Seen {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    length: u64,
}

/// The beginning of the kernel's `struct stat` on this architecture.
#[repr(C)]
struct Stat {
    device: u64,
    inode: u64,
    links: u64,
    mode: u32,
    owner: [u32; 2],
    padding: u32,
    special: u64,
    length: u64,
}

/// The kernel's `struct statx`, up to the device (statx(2)).
#[repr(C)]
struct Statx {
    mask: u32,
    block: u32,
    attributes: u64,
    links: u32,
    owner: [u32; 2],
    mode: u16,
    padding: u16,
    inode: u64,
    length: u64,
    others: [u64; 11],
    device_major: u32,
    device_minor: u32,
}

impl Seen {
    /// The links that the program is told of, where they are not the kernel's.
    fn own_links(&self) -> Option<u64> {
        let own = self.links.checked_sub(THREADS).filter(|own| *own > NAMES)?;
        // Nearly nothing else is like this, and costs no question.
        let may_be = self.mode == MODE && self.length == 0 && self.device >> 8 & 0xFFF == 0;
        let process = hooks::client_process().filter(|_| may_be)?;
        let place = [usize::try_from(self.device).ok()?, usize::try_from(self.inode).ok()?];
        mailbox::ask(process, mailbox::IS_TASKS, place, || ()).then_some(own)
    }
}

/// The agent thread's side, which sees the folder though the program has taken another root: whether this is it.
pub(crate) fn are_at(place: [usize; 2]) -> bool {
    sys::place(b"/proc/self/task\0") == Ok(place.map(|word| word as u64))
}

/// `stat` or one of its kin has answered.
fn told(answer: c_int, to: *mut c_void) -> c_int {
    if answer == 0 {
        // SAFETY: the kernel has just written the whole structure there.
        let stat = unsafe { &mut *to.cast::<Stat>() };
        let seen = Seen {
            device: stat.device,
            inode: stat.inode,
            links: stat.links,
            mode: stat.mode,
            length: stat.length,
        };
        stat.links = seen.own_links().unwrap_or(stat.links);
    }
    answer
}

/// The same of `statx`.
fn told_more(answer: c_int, to: *mut c_void) -> c_int {
    if answer == 0 {
        // SAFETY: the kernel has just written the whole structure there.
        let stat = unsafe { &mut *to.cast::<Statx>() };
        let minor = u64::from(stat.device_minor);
        let seen = Seen {
            // As `struct stat` has it: eight bits of the minor number below those of the major one.
            device: u64::from(stat.device_major) << 8 | minor & 0xFF | (minor & !0xFF) << 12,
            inode: stat.inode,
            links: u64::from(stat.links),
            mode: u32::from(stat.mode),
            length: stat.length,
        };
        let own = seen.own_links().and_then(|own| u32::try_from(own).ok());
        stat.links = own.unwrap_or(stat.links);
    }
    answer
}

/// Functions of the C library that fill in a `struct stat`, their last argument but the flags.
macro_rules! stats {
    ($($name:ident $function:ident ($($argument:ident: $kind:ty),*) $to:ident ($($flags:ident)?);)*) => {$(
        /// The C library's.
        ///
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* $to: *mut c_void $(, $flags: c_int)?) -> c_int {
            type Stat = unsafe extern "C" fn($($kind,)* *mut c_void $(, stats!(@ $flags))?) -> c_int;
            told(behind!($function as Stat, $($argument,)* $to $(, $flags)?), $to)
        }
    )*};
    (@ $flags:ident) => { c_int };
}

stats! {
    stat STAT (path: *const c_char) to ();
    stat64 STAT64 (path: *const c_char) to ();
    lstat LSTAT (path: *const c_char) to ();
    lstat64 LSTAT64 (path: *const c_char) to ();
    fstat FSTAT (fd: c_int) to ();
    fstat64 FSTAT64 (fd: c_int) to ();
    fstatat FSTATAT (folder: c_int, path: *const c_char) to (flags);
    fstatat64 FSTATAT64 (folder: c_int, path: *const c_char) to (flags);
    // As programs call them that were built before version 2.33 of the GNU C library.
    __xstat XSTAT (version: c_int, path: *const c_char) to ();
    __xstat64 XSTAT64 (version: c_int, path: *const c_char) to ();
    __lxstat LXSTAT (version: c_int, path: *const c_char) to ();
    __lxstat64 LXSTAT64 (version: c_int, path: *const c_char) to ();
    __fxstat FXSTAT (version: c_int, fd: c_int) to ();
    __fxstat64 FXSTAT64 (version: c_int, fd: c_int) to ();
    __fxstatat FXSTATAT (version: c_int, folder: c_int, path: *const c_char) to (flags);
    __fxstatat64 FXSTATAT64 (version: c_int, folder: c_int, path: *const c_char) to (flags);
}

/// The C library's.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut c_void,
) -> c_int {
    type More = unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut c_void) -> c_int;
    told_more(behind!(STATX as More, folder, path, flags, mask, to), to)
}
