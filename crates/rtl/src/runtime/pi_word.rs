//! Locks with priority inheritance in a word of a program's own structures, so that they need no initialisation but
//! zeros. The word follows the kernel's protocol: 0 when free, else the holder's thread identifier.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::{Errno, ThreadId};

/// Takes the lock if it is free.
pub(crate) fn try_take(word: &AtomicU32) -> Result<(), i32> {
    let own = ThreadId::current().get();
    match word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(holder) if holder & libc::FUTEX_TID_MASK == own => Err(libc::EDEADLK),
        Err(_) => Err(libc::EBUSY),
    }
}

/// Takes the lock, until `until` on CLOCK_MONOTONIC at most. Goes on waiting when a signal's handler has run. The error
/// is a number of `errno`.
pub(crate) fn take(word: &AtomicU32, until: Option<&libc::timespec>) -> Result<(), i32> {
    match try_take(word) {
        Err(libc::EBUSY) => {}
        done => return done,
    }
    // Only the newer operation takes times of CLOCK_MONOTONIC.
    let operation = if until.is_some() {
        libc::FUTEX_LOCK_PI2
    } else {
        libc::FUTEX_LOCK_PI
    };
    loop {
        match futex(word, operation, until) {
            Ok(()) => {
                word.load(Ordering::Acquire);
                return Ok(());
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The holder ended without giving it back: it was deleted, as programs do.
            Err(Errno::SRCH) => {
                let holder = word.load(Ordering::Relaxed);
                let _ = word.compare_exchange(holder, 0, Ordering::AcqRel, Ordering::Relaxed);
                if try_take(word).is_ok() {
                    return Ok(());
                }
            }
            Err(errno) => return Err(errno.raw_os_error()),
        }
    }
}

/// Gives the lock back.
pub(crate) fn release(word: &AtomicU32) -> Result<(), i32> {
    let own = ThreadId::current().get();
    if word.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK != own {
        return Err(libc::EPERM);
    }
    if word
        .compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed)
        .is_ok()
    {
        return Ok(());
    }
    futex(word, libc::FUTEX_UNLOCK_PI, None).map_err(Errno::raw_os_error)
}

fn futex(word: &AtomicU32, operation: i32, until: Option<&libc::timespec>) -> Result<(), Errno> {
    let time = until.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is live and aligned and follows the kernel's protocol; the time is valid or null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0_u32,
            time,
        )
    };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: a valid pointer to this thread's errno.
    Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}
