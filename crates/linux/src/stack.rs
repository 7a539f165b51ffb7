//! The calling thread's ordinary stack.

use crate::Errno;
use std::mem::MaybeUninit;

/// Locks the calling thread's stack, all of it brought in, so that the thread never waits for a page of it.
///
/// # Errors
/// `NOMEM` or `PERM` where the limit on locked memory is too low; nothing is locked then. `INVAL` on the main thread,
/// whose stack has no fixed size.
pub fn lock_current() -> Result<(), Errno> {
    let (bottom, length) = bounds()?;
    // SAFETY: the range is the calling thread's own stack; locking changes no content.
    unsafe { rustix::mm::mlock(bottom, length) }
}

/// As [`lock_current`]; where the limit on locked memory is too low, the stack is brought in only. The main thread's is
/// a piece of the program ([`crate::program`]).
///
/// # Errors
/// The stack's place cannot be told.
pub fn bring_in_current() -> Result<(), Errno> {
    if rustix::thread::gettid() == rustix::process::getpid() {
        return Ok(());
    }
    match lock_current() {
        Err(Errno::NOMEM | Errno::PERM | Errno::AGAIN) => {}
        outcome => return outcome,
    }
    let (bottom, length) = bounds()?;
    // SAFETY: the range is the calling thread's own stack, whose content stays.
    unsafe { rustix::mm::madvise(bottom, length, rustix::mm::Advice::LinuxPopulateWrite) }
}

/// The lowest address and the length of the calling thread's stack, without its guard.
fn bounds() -> Result<(*mut libc::c_void, usize), Errno> {
    if rustix::thread::gettid() == rustix::process::getpid() {
        return Err(Errno::INVAL);
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the call initialises the structure, of the calling thread, which lives.
    check(unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) })?;
    let (mut bottom, mut length, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: initialised above, and destroyed once, after its last use; the three numbers live through the calls.
    let read = unsafe {
        let stack = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut bottom, &raw mut length);
        let guarded = libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        check(stack).and(check(guarded))
    };
    read?;
    // In glibc from 2.27 on the stack's bounds are without the guard; before, the guard was a part of them. A locked
    // guard page holds no frame, but cannot be brought in: leave out what may be one.
    let usable = length
        .checked_sub(guard)
        .filter(|&usable| usable > 0)
        .ok_or(Errno::INVAL)?;
    Ok((bottom.wrapping_byte_add(guard), usable))
}

fn check(error: libc::c_int) -> Result<(), Errno> {
    match error {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{bounds, lock_current};

    #[test]
    fn a_threads_stack_holds_its_variables_and_can_be_locked() {
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(|| {
            let variable = 0_u8;
            let at = std::ptr::from_ref(&variable).addr();
            let (bottom, length) = bounds().unwrap();
            assert!((bottom.addr()..bottom.addr() + length).contains(&at));
            lock_current()
        });
        thread.unwrap().join().unwrap().unwrap();
    }
}
