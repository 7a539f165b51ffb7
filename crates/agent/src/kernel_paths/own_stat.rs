//! `/proc/self/stat` as a stream of the C library: it tells a program of its own threads, not of the agent's.
//!
//! Python from 3.12 on reads it so when it forks, and warns where it finds several threads. The number is changed in
//! the stream's buffer, which the first character fills; what is read anew after that is as the kernel has it.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;

use crate::hooks::behind::behind;
use crate::process;
use crate::threads::watch::THREADS;

/// Fields between the end of the name and the number of threads (proc_pid_stat(5), 3 to 20).
const BEFORE: usize = 17;

/// The beginning of the C library's `struct _IO_FILE`, which its headers show and its macros have used.
#[repr(C)]
struct Stream {
    flags: c_int,
    next: *mut u8,
    end: *mut u8,
}

/// A stream has been opened by this path.
pub(crate) fn opened(path: *const c_char, mode: *const c_char, stream: *mut c_void) {
    type Get = unsafe extern "C" fn(*mut c_void) -> c_int;
    type Unget = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;
    if stream.is_null() || !is_read(path, mode) || !has_agent() {
        return;
    }
    let first = behind!(FGETC as Get, stream);
    if first < 0 || behind!(UNGETC as Unget, first, stream) != first {
        return;
    }
    let stream = stream.cast::<Stream>();
    // SAFETY: an open stream of the C library, which nobody else has yet; what it has read is between the two places.
    unsafe {
        let Ok(length) = usize::try_from((*stream).end.offset_from((*stream).next)) else {
            return;
        };
        let text = core::slice::from_raw_parts_mut((*stream).next, length);
        (*stream).end = (*stream).next.add(without(text, THREADS));
    }
}

fn is_read(path: *const c_char, mode: *const c_char) -> bool {
    if path.is_null() || mode.is_null() {
        return false;
    }
    // SAFETY: both end, as the caller has promised the C library.
    let (path, mode) = unsafe { (CStr::from_ptr(path), CStr::from_ptr(mode)) };
    path == c"/proc/self/stat" && mode.to_bytes().first() == Some(&b'r')
}

/// Whether the agent's threads are there; not in a forked child that has not connected yet.
fn has_agent() -> bool {
    process::process().is_some_and(|process| process.client.load(Ordering::Acquire) != 0)
}

/// Takes so many threads out of the text; its length now.
fn without(text: &mut [u8], threads: u64) -> usize {
    let length = text.len();
    changed(text, threads).unwrap_or(length)
}

fn changed(text: &mut [u8], threads: u64) -> Option<usize> {
    // A name may hold spaces and brackets.
    let name = text.iter().rposition(|byte| *byte == b')')?;
    let spaces = (name..text.len()).filter(|at| text.get(*at) == Some(&b' '));
    let start = spaces.take(BEFORE + 1).last()? + 1;
    let end = start + text.get(start..)?.iter().position(|byte| *byte == b' ')?;
    let number: u64 = core::str::from_utf8(text.get(start..end)?).ok()?.parse().ok()?;
    let own = number.checked_sub(threads).filter(|own| *own > 0)?;
    let mut digits = [0; 20];
    let digits = crate::report::digits(own, &mut digits);
    text.get_mut(start..start + digits.len())?.copy_from_slice(digits);
    let length = text.len();
    text.copy_within(end..length, start + digits.len());
    Some(length - (end - start - digits.len()))
}

#[cfg(test)]
mod tests {
    use super::{THREADS, without};

    fn told(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let length = without(&mut bytes, THREADS);
        bytes.truncate(length);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_number_of_threads_is_the_programs() {
        let line = |threads: &str| format!("12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 0 99 3\n");
        for (kernels, own) in [
            ("3", "1"),
            ("4", "2"),
            ("11", "9"),
            ("1002", "1000"),
            ("2", "2"),
            ("1", "1"),
        ] {
            assert_eq!(told(&line(kernels)), line(own));
        }
        for other in [
            "",
            "12 (a) S 1 2 3",
            "no name",
            ")",
            "1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 x 0",
        ] {
            assert_eq!(told(other), other);
        }
    }
}
