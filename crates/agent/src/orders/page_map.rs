//! What the kernel's page map says of this process's pages (`/proc/self/pagemap`; see proc_pid_pagemap(5)).

use crate::client::Client;
use crate::process::PAGE;
use crate::sys::{self, Errno};

const PRESENT: u64 = 1 << 63;
const OF_A_FILE: u64 = 1 << 61;

/// What is said of one page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry(u64);

impl Entry {
    /// Nothing is in the page table: no page, and none that is being moved by the kernel.
    pub(super) const fn is_empty(self) -> bool {
        const IN_SWAP_OR_MIGRATING: u64 = 1 << 62;
        self.0 & (PRESENT | IN_SWAP_OR_MIGRATING) == 0
    }

    /// A page of the process's own is there, and none of an object.
    pub(super) const fn is_own(self) -> bool {
        self.0 & PRESENT != 0 && self.0 & OF_A_FILE == 0
    }
}

/// Reads the entries of as many pages from `start` on.
pub(super) fn read(client: &Client, start: usize, entries: &mut [Entry]) -> Result<(), Errno> {
    let bytes = size_of_val(entries);
    let place = entries.as_mut_ptr() as usize;
    let offset = start / PAGE * size_of::<Entry>();
    // SAFETY: writes at most all of `entries`, of which any content is valid.
    let read = unsafe {
        sys::own::call(
            sys::PREAD,
            sys::arg(client.descriptors.pagemap),
            place,
            bytes,
            offset,
            0,
        )
    }?;
    if read == bytes { Ok(()) } else { Err(Errno::INVAL) }
}

/// Which pages are in the page table, also where there is no page map: a process that has another root, or is another
/// user's now, cannot open it. Entries are good for [`Entry::is_empty`] only then.
pub(super) fn read_presence(client: &Client, start: usize, entries: &mut [Entry]) {
    if client.descriptors.pagemap >= 0 && read(client, start, entries).is_ok() {
        return;
    }
    for (page, entry) in entries.iter_mut().enumerate() {
        *entry = if is_in_core(start + page * PAGE) {
            Entry(PRESENT)
        } else {
            Entry::default()
        };
    }
}

/// Whether a page of memory that is no file's is in the page table, or is being moved by the kernel (mincore(2)).
fn is_in_core(page: usize) -> bool {
    let mut found = 0_u8;
    // SAFETY: writes one byte, for one page. Where nothing is mapped it writes none, and refuses.
    let asked = unsafe { sys::own::call(sys::MINCORE, page, PAGE, (&raw mut found) as usize, 0, 0) };
    asked.is_ok() && found & 1 != 0
}

/// The entry of one page.
pub(super) fn entry(client: &Client, page: usize) -> Result<Entry, Errno> {
    let mut entry = [Entry::default()];
    read(client, page, &mut entry)?;
    let [entry] = entry;
    Ok(entry)
}

/// How many pages have moved, from the first on without a gap, where these are the entries of where they were to go and
/// of where they were.
pub(super) fn moved(there: &[Entry], left: &[Entry]) -> usize {
    let pairs = there.iter().zip(left);
    pairs
        .take_while(|(there, left)| !there.is_empty() && left.is_empty())
        .count()
}

#[cfg(test)]
mod tests {
    use super::{Entry, PAGE, PRESENT, is_in_core, moved, sys};

    #[test]
    fn what_has_moved_is_counted_up_to_the_first_that_has_not() {
        const MIGRATING: u64 = 1 << 62;
        let (here, gone, migrates) = (Entry(PRESENT), Entry(0), Entry(MIGRATING));
        assert_eq!(moved(&[here, here, gone], &[gone, gone, here]), 2);
        assert_eq!(moved(&[here, migrates, here], &[gone; 3]), 3);
        // A page was there before; nothing was to be moved; one that the kernel brings elsewhere has not moved.
        assert_eq!(moved(&[here, here], &[here, gone]), 0);
        assert_eq!(moved(&[gone, here], &[gone, gone]), 0);
        assert_eq!(moved(&[here, here], &[migrates, gone]), 0);
    }

    #[test]
    fn a_page_is_in_core_from_its_first_touch_until_it_is_dropped() {
        let memory = sys::guarded(PAGE, sys::PROT_READ | sys::PROT_WRITE).unwrap();
        assert!(!is_in_core(memory));
        // SAFETY: the page is this test's own.
        unsafe { *(memory as *mut u8) = 1 };
        assert!(is_in_core(memory));
        // SAFETY: as above.
        unsafe { sys::call5(sys::MUNMAP, memory, PAGE, 0, 0, 0) }.unwrap();
        assert!(!is_in_core(memory));
    }
}
