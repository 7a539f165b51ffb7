//! Pages by which the server knows a forked child.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{Client, userfault};
use crate::hooks::locks;
use crate::process::PAGE;
use crate::sys::{self, Errno};

/// Two pages that nobody touches but a forked child, once: its faults tell the server who it is. The first is private
/// memory, the second is told with the shared objects.
static MARKERS: AtomicUsize = AtomicUsize::new(0);

/// Whether the server still holds what makes the memory fault that a forked child has inherited: the kernel lets no
/// other userfaultfd, as `own` is one, have a page of it meanwhile.
pub(crate) fn is_served(own: i32) -> bool {
    userfault::register(own, place(), PAGE, userfault::MISSING) == Err(Errno::BUSY)
}

/// As [`is_served`], of a server that nobody listens for, or that has closed a connection: one that is ending has still
/// some of what it held, for a moment. A second is enough for it to be over.
pub(super) fn is_served_for_good(own: i32) -> bool {
    const NAPS: u32 = 1_000;
    const MILLISECOND: usize = 1_000_000;
    (0..NAPS).all(|_| {
        sys::nap(MILLISECOND);
        is_served(own)
    })
}

/// Makes them.
pub(super) fn make(client: &Client) -> Result<(), Errno> {
    let pages = sys::guarded(2 * PAGE, sys::PROT_READ)?;
    let descriptors = &client.descriptors;
    userfault::register(descriptors.private, pages, PAGE, userfault::MISSING)?;
    userfault::register(descriptors.shared, pages + PAGE, PAGE, userfault::MISSING)?;
    MARKERS.store(pages, Ordering::Relaxed);
    Ok(())
}

fn is_absent(page: usize) -> bool {
    const MINCORE: usize = 27;
    let mut present = 0_u8;
    // SAFETY: writes the one byte.
    let asked = unsafe { sys::call5(MINCORE, page, PAGE, core::ptr::from_mut(&mut present) as usize, 0, 0) };
    asked.is_err() || present & 1 == 0
}

/// Has the server told who this process is, a forked child.
pub(super) fn touch() {
    let pages = place();
    if !is_absent(pages) || !is_absent(pages + PAGE) {
        // Another thread of the parent was having all memory brought in.
        forget();
    }
    for page in [pages, pages + PAGE] {
        // SAFETY: both pages may be read; the server fills them.
        let _ = unsafe { core::ptr::with_exposed_provenance::<u8>(page).read_volatile() };
    }
}

/// Where they are; 0 where there are none.
pub(crate) fn place() -> usize {
    MARKERS.load(Ordering::Relaxed)
}

/// The kernel is about to bring in all memory: what marks forked children is nobody's to be told of.
pub(crate) fn fill(client: &Client) {
    if place() != 0 {
        // What is there already stays.
        let _ = userfault::fill(client.descriptors.private, place(), PAGE);
        let _ = userfault::fill(client.descriptors.shared, place() + PAGE, PAGE);
    }
}

/// The kernel has locked all memory, and brought the pages in: they are absent again.
pub(crate) fn release() {
    if place() != 0 {
        locks::unlock(place(), 2 * PAGE);
        forget();
    }
}

/// This process may fork in its turn, and its child must fault on the pages all the same.
pub(super) fn forget() {
    const DONT_NEED: usize = 4;
    // SAFETY: nothing is in the pages.
    let _ = unsafe { sys::madvise(place(), 2 * PAGE, DONT_NEED) };
}
