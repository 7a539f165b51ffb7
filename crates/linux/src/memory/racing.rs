//! Copying to and from memory that other processes may write meanwhile.
//!
//! To the language such a copy is a data race, of which a compiler may make anything, unless each access is volatile or
//! atomic. A string instruction is neither read nor changed by the compiler, and as fast as its own copies.

use crate::PAGE_SIZE;

/// Copies a page out of memory that others may write meanwhile: each byte is one that was there at some time.
///
/// # Safety
/// `from` is a whole mapped page.
pub(super) unsafe fn copy_out(from: *const u8, to: &mut [u8; PAGE_SIZE]) {
    // SAFETY: the caller's page, and a page that is this call's alone.
    unsafe { copy_page(from, to.as_mut_ptr()) };
}

/// Copies a page into memory that others may read and write meanwhile.
///
/// # Safety
/// `to` is a whole page that is mapped writable, of which `from` is no part.
pub(super) unsafe fn copy_in(from: &[u8; PAGE_SIZE], to: *mut u8) {
    // SAFETY: a page that nobody writes, and the caller's.
    unsafe { copy_page(from.as_ptr(), to) };
}

/// # Safety
/// Both are whole pages, mapped as they are used, and do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_page(from: *const u8, to: *mut u8) {
    // SAFETY: reads and writes a page, as the caller allows; the direction flag is clear between functions.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") PAGE_SIZE / 8 => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// Both are whole pages, mapped as they are used, and do not overlap.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_page(from: *const u8, to: *mut u8) {
    for at in (0..PAGE_SIZE).step_by(8) {
        // SAFETY: eight bytes of each page, as the caller allows.
        unsafe {
            let word = from.add(at).cast::<[u8; 8]>().read_volatile();
            to.add(at).cast::<[u8; 8]>().write_volatile(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_in, copy_out};
    use crate::PAGE_SIZE;

    #[test]
    fn a_page_is_copied_whole_and_nothing_beside_it() {
        let content: [u8; PAGE_SIZE] = std::array::from_fn(|at| u8::try_from(at % 251).unwrap());
        let mut memory = vec![9_u8; 3 * PAGE_SIZE];
        let middle = memory.as_mut_ptr().wrapping_add(PAGE_SIZE);
        // SAFETY: the middle of three pages that are this test's.
        unsafe { copy_in(&content, middle) };
        let mut back = [0; PAGE_SIZE];
        // SAFETY: as above.
        unsafe { copy_out(middle, &mut back) };
        assert!(back == content && memory[PAGE_SIZE..2 * PAGE_SIZE] == content);
        assert!(
            memory[..PAGE_SIZE]
                .iter()
                .chain(&memory[2 * PAGE_SIZE..])
                .all(|byte| *byte == 9)
        );
    }
}
