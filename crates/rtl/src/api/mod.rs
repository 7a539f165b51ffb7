//! The functions that modules call, under the names that the headers in `include` give them. What they take and return
//! is documented in `docs/book/src/rtlinux.md`. Where they differ from today's POSIX, the old sources rely on it.
#![allow(
    clippy::missing_safety_doc,
    reason = "they are called by programs in C, under the rules of the C API: pointers are null or valid"
)]

pub mod attributes;
pub mod barriers;
pub mod conditions;
pub mod fifos;
pub mod hardware;
pub mod memory;
pub mod mutexes;
pub mod output;
pub mod posix;
pub mod queues;
pub mod semaphores;
pub mod signals;
pub mod threads;
pub mod time;
pub mod timers;

/// Sets `errno` and returns -1.
fn failed(errno: i32) -> i32 {
    // SAFETY: a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// What a pointer of a program names; None when it is null.
///
/// # Safety
/// The pointer is null or valid for as long as the reference is used.
unsafe fn given<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
}
