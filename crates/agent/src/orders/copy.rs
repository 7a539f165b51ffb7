//! Copying a page from the staging area to the transfer memory.

use crate::client::Client;
use crate::process::PAGE;
use crate::sys::{self, Errno};

/// Whether a page of this library's own area holds nothing but zeros.
pub(super) fn is_zero(page: usize) -> bool {
    let words = core::ptr::with_exposed_provenance::<u64>(page);
    // SAFETY: the page has just been moved to this library's own area.
    (0..PAGE / 8).all(|at| unsafe { words.add(at).read() } == 0)
}

/// Copies a page of this library's own area to a page of the transfer memory; whether it is there.
pub(super) fn copy_out(client: &Client, page: usize, slot: u32) -> bool {
    let offset = slot as usize * PAGE;
    let transfer = sys::arg(client.descriptors.transfer);
    // SAFETY: reads one page of this library's own area.
    match unsafe { sys::own::call(sys::PWRITE, transfer, page, PAGE, offset, 0) } {
        Ok(written) => written == PAGE,
        // The program may write no files so long (`RLIMIT_FSIZE`), by which the kernel means this one too.
        Err(Errno::FBIG) => copy_through_window(client, page, offset),
        Err(_) => false,
    }
}

fn copy_through_window(client: &Client, page: usize, offset: usize) -> bool {
    const DONT_FORK: usize = 10;
    let window = Client::window_of(core::ptr::from_ref(client) as usize);
    let transfer = sys::arg(client.descriptors.transfer);
    let flags = sys::MAP_SHARED | sys::MAP_FIXED;
    let arguments = [window, PAGE, sys::PROT_READ | sys::PROT_WRITE, flags, transfer, offset];
    // SAFETY: this library's own page, of which nobody else knows.
    let mapped = unsafe { sys::call(sys::MMAP, arguments) };
    if mapped != Ok(window) {
        return false;
    }
    // SAFETY: as above. Where it is refused, a forked child has the page too, and does nothing with it.
    let _ = unsafe { sys::own::madvise(window, PAGE, DONT_FORK) };
    let from = core::ptr::with_exposed_provenance::<u64>(page);
    let to = core::ptr::with_exposed_provenance_mut::<u64>(window);
    for at in 0..PAGE / 8 {
        // SAFETY: both are pages of this library's own, one of them mapped just now.
        unsafe { to.add(at).write_volatile(from.add(at).read()) };
    }
    true
}
