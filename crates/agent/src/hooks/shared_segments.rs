//! `shmat` with `SHM_REMAP`: shared memory in the place of whatever was there.
//!
//! The kernel tells no userfaultfd that the memory there has gone, as it does of all other mappings. The server would
//! keep what it has of it for who maps memory there later. So the shared memory is attached elsewhere, and moved
//! there: of that the kernel tells.

use core::ffi::{c_int, c_void};

use crate::hooks::remap;
use crate::process::PAGE;
use crate::sys::{self, Answer, Errno};
use crate::{filters, hooks};

const CONTROL: usize = 31;
const DETACH: usize = 67;
const ROUND: usize = 0o20_000;
const REPLACE: usize = 0o40_000;

/// The C library's `shmat`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the caller's word.
    match unsafe { attach(sys::arg(segment), address as usize, sys::arg(flags)) } {
        Ok(at) => core::ptr::with_exposed_provenance_mut(at),
        Err(errno) => hooks::fail(errno, core::ptr::without_provenance_mut(usize::MAX)),
    }
}

/// The program's `shmat`.
///
/// # Safety
/// As the kernel's.
pub(crate) unsafe fn attach(segment: usize, address: usize, flags: usize) -> Answer {
    // SAFETY: the program's own call, or one that replaces nothing.
    let call = |address, flags| unsafe { sys::call5(sys::SHMAT, segment, address, flags, 0, 0) };
    if flags & REPLACE == 0 || address == 0 || filters::is_there() {
        return call(address, flags);
    }
    let place = if flags & ROUND == 0 {
        address
    } else {
        address / PAGE * PAGE
    };
    if !place.is_multiple_of(PAGE) || place == 0 {
        return Err(Errno::INVAL);
    }
    let elsewhere = call(0, flags & !(REPLACE | ROUND))?;
    let moved = length_of(segment).and_then(|length| remap::replace(elsewhere, length, place));
    if moved.is_err() {
        // SAFETY: nobody knows of it.
        let _ = unsafe { sys::call5(DETACH, elsewhere, 0, 0, 0, 0) };
    }
    moved
}

/// Bytes of a segment, in whole pages.
fn length_of(segment: usize) -> Answer {
    const STATUS: usize = 2;
    /// Words of `struct shmid64_ds`, and the one that has the size.
    const WORDS: usize = 14;
    const SIZE: usize = 6;
    let mut status = [0_usize; WORDS];
    // SAFETY: writes the structure.
    unsafe { sys::call5(CONTROL, segment, STATUS, status.as_mut_ptr() as usize, 0, 0) }?;
    status
        .get(SIZE)
        .map_or(Err(Errno::INVAL), |size| Ok(size.next_multiple_of(PAGE)))
}
