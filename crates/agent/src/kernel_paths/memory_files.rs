//! `/proc/PID/mem`: the kernel serves no fault for who reads or writes it, and says `EIO` where a page is out.
//!
//! So who opens one has all that memory given back first: another process's, or the program's own. Which it is shows
//! when it is open, however it was named: `self`, a task's, relative to a folder, through a link.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::hooks::behind::behind;
use crate::kernel_paths::needed::look_into;
use crate::kernel_paths::own_stat;
use crate::threads::mailbox;
use crate::{hooks, report, sys};

/// The end of the path of each such file.
const NAME: &[u8] = b"mem";

type Open = unsafe extern "C-unwind" fn(*const c_char, c_int, c_uint) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, c_uint) -> c_int;
type OpenStream = unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut c_void;

/// Whether a path may name such a file: nearly all do not, and cost no call of the kernel.
fn may_be_memory(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the path ends, and nothing behind its end is read.
    let byte = |at: usize| unsafe { path.add(at).read() }.cast_unsigned();
    let length = (0..).take_while(|at| byte(*at) != 0).count();
    let Some(start) = length.checked_sub(NAME.len()) else {
        return false;
    };
    let ends_so = NAME.iter().zip(start..).all(|(expected, at)| byte(at) == *expected);
    ends_so && (start == 0 || byte(start - 1) == b'/')
}

/// The process whose memory an open file is, if it is that.
fn memory_of(fd: c_int) -> Option<usize> {
    const READLINK: usize = 89;
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut digits = [0_u8; 20];
    let digits = report::digits(u64::try_from(fd).ok()?, &mut digits);
    let mut link = [0_u8; 64];
    for (place, byte) in link.iter_mut().zip(FOLDER.iter().chain(digits)) {
        *place = *byte;
    }
    let mut target = [0_u8; 64];
    let (from, to) = (link.as_ptr() as usize, target.as_mut_ptr() as usize);
    // SAFETY: the path ends with a zero; writes at most all of `target`.
    let length = unsafe { sys::call5(READLINK, from, to, target.len(), 0, 0) }.ok()?;
    owner(target.get(..length)?)
}

/// The process whose memory a path names: `/proc/PID/mem`, or that of one of its threads.
fn owner(path: &[u8]) -> Option<usize> {
    let mut parts = path.strip_prefix(b"/proc/")?.split(|byte| *byte == b'/');
    let process = core::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let last = match parts.next()? {
        b"task" => parts.nth(1)?,
        other => other,
    };
    (last == NAME && parts.next().is_none()).then_some(process)
}

/// A file has been opened by this path.
pub(crate) fn opened(path: *const c_char, fd: c_int) {
    if fd < 0 || !may_be_memory(path) {
        return;
    }
    let Some(own) = hooks::client_process() else { return };
    match memory_of(fd) {
        Some(process) if is_own(process) => {
            mailbox::ask(own, mailbox::RELINQUISH, [0, 0], || ());
        }
        Some(process) => look_into(process),
        None => {}
    }
}

fn is_own(process: usize) -> bool {
    // SAFETY: touches no memory.
    let own = unsafe { sys::call5(sys::GETPID, 0, 0, 0, 0, 0) };
    own == Ok(process)
}

/// The C library's `open`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let fd = behind!(OPEN as Open, path, flags, mode);
    opened(path, fd);
    fd
}

/// The C library's `open64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let fd = behind!(OPEN64 as Open, path, flags, mode);
    opened(path, fd);
    fd
}

/// The C library's `openat`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let fd = behind!(OPENAT as OpenAt, folder, path, flags, mode);
    opened(path, fd);
    fd
}

/// The C library's `openat64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let fd = behind!(OPENAT64 as OpenAt, folder, path, flags, mode);
    opened(path, fd);
    fd
}

/// The C library's `fopen`, which opens by none of those.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fopen(path: *const c_char, mode: *const c_char) -> *mut c_void {
    let stream = behind!(FOPEN as OpenStream => core::ptr::null_mut(), path, mode);
    own_stat::opened(path, mode, stream);
    opened_stream(path, stream);
    stream
}

/// The C library's `fopen64`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut c_void {
    let stream = behind!(FOPEN64 as OpenStream => core::ptr::null_mut(), path, mode);
    own_stat::opened(path, mode, stream);
    opened_stream(path, stream);
    stream
}

fn opened_stream(path: *const c_char, stream: *mut c_void) {
    type Number = unsafe extern "C" fn(*mut c_void) -> c_int;
    if !stream.is_null() && may_be_memory(path) {
        opened(path, behind!(FILENO as Number, stream));
    }
}

#[cfg(test)]
mod tests {
    use super::{may_be_memory, memory_of, owner};

    #[test]
    fn memory_is_known_by_its_path() {
        for (path, expected) in [
            ("/proc/12/mem", Some(12)),
            ("/proc/12/task/14/mem", Some(12)),
            ("/proc/12/mem/x", None),
            ("/proc/12/maps", None),
            ("/proc/12/task/14/maps", None),
            ("/proc/self/mem", None),
            ("/dev/mem", None),
        ] {
            assert_eq!(owner(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn only_what_may_be_memory_is_looked_at() {
        for path in [c"/proc/self/mem", c"mem", c"/dev/mem"] {
            assert!(may_be_memory(path.as_ptr()), "{path:?}");
        }
        for path in [c"", c"em", c"item", c"/proc/self/mem ", c"/proc/self/maps"] {
            assert!(!may_be_memory(path.as_ptr()), "{path:?}");
        }
        assert!(!may_be_memory(core::ptr::null()));
    }

    #[test]
    fn an_open_file_tells_whose_memory_it_is() {
        use std::os::fd::AsRawFd;
        let own = std::process::id() as usize;
        for path in ["/proc/self/mem", "/proc/thread-self/mem"] {
            let file = std::fs::File::open(path).expect("one's own memory");
            assert_eq!(memory_of(file.as_raw_fd()), Some(own), "{path}");
        }
        let other = std::fs::File::open("/proc/self/maps").expect("it is there");
        assert_eq!(memory_of(other.as_raw_fd()), None);
    }
}
