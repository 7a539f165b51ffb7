//! Accesses to managed memory that may fail.
//!
//! A page whose store fails cannot be had, and the instruction that wants it must not fault for ever. The accesses here
//! are a few instructions of known addresses, so that the handler can recognise them and let them end with an error
//! instead: an exception table of one entry. All of them are leaf functions that touch no stack, so the registers at
//! any of their instructions allow to go on at the landing. Every other access that cannot be served goes to the
//! previous SIGBUS handler, and the process dies as it would natively; so do these where no handler is installed.
//!
//! In assembly they are also free to race: two threads may write the same word, as they may in C with `volatile`.

use std::arch::global_asm;

// System V calling convention: rdi, rsi, rdx; the result in eax is 0, or 1 at the landing.
global_asm!(
    ".pushsection .text.freehold_access, \"ax\", @progbits",
    ".balign 16",
    // u32 load(const u64 *from, u64 *to): `to` is ordinary memory.
    ".globl freehold_access_load",
    ".hidden freehold_access_load",
    "freehold_access_load:",
    "mov rax, qword ptr [rdi]",
    "mov qword ptr [rsi], rax",
    "xor eax, eax",
    "ret",
    // u32 store(u64 *to, u64 value)
    ".globl freehold_access_store",
    ".hidden freehold_access_store",
    "freehold_access_store:",
    "mov qword ptr [rdi], rsi",
    "xor eax, eax",
    "ret",
    // u32 copy(u8 *to, const u8 *from, usize length): an interrupted string move goes on where it was.
    ".globl freehold_access_copy",
    ".hidden freehold_access_copy",
    "freehold_access_copy:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // Where all of them end when a page cannot be had.
    ".globl freehold_access_landing",
    ".hidden freehold_access_landing",
    "freehold_access_landing:",
    "mov eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn freehold_access_load(from: *const u64, to: *mut u64) -> u32;
    fn freehold_access_store(to: *mut u64, value: u64) -> u32;
    fn freehold_access_copy(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn freehold_access_landing() -> u32;
}

/// The page cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Where to go on when the access at `instruction` cannot be served; `None` for code other than ours.
#[must_use]
pub fn landing(instruction: usize) -> Option<usize> {
    let begin = freehold_access_load as *const () as usize;
    let landing = freehold_access_landing as *const () as usize;
    (begin <= instruction && instruction < landing).then_some(landing)
}

fn outcome(result: u32) -> Result<(), Refused> {
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// Reads a word.
///
/// # Errors
/// [`Refused`].
///
/// # Safety
/// `from` must be aligned and mapped for reading, or managed memory of the calling thread's task.
pub unsafe fn load(from: *const u64) -> Result<u64, Refused> {
    let mut word = 0;
    // SAFETY: the caller's promise for `from`; `word` lives through the call.
    outcome(unsafe { freehold_access_load(from, &raw mut word) })?;
    Ok(word)
}

/// Writes a word.
///
/// # Errors
/// [`Refused`].
///
/// # Safety
/// `to` must be aligned and mapped for writing, or managed memory of the calling thread's task.
pub unsafe fn store(to: *mut u64, value: u64) -> Result<(), Refused> {
    // SAFETY: the caller's promise.
    outcome(unsafe { freehold_access_store(to, value) })
}

/// Copies bytes.
///
/// # Errors
/// [`Refused`]; a part at the front has been copied then.
///
/// # Safety
/// As for [`load`] and [`store`], for `length` bytes each; the two must not overlap.
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) -> Result<(), Refused> {
    // SAFETY: the caller's promise.
    outcome(unsafe { freehold_access_copy(to, from, length) })
}

#[cfg(test)]
mod tests {
    use super::{copy, landing, load, store};

    #[test]
    fn ordinary_memory_is_read_written_and_copied() {
        let mut words = [1_u64, 2];
        let base = words.as_mut_ptr();
        // SAFETY: both pointers are to elements of the live array.
        unsafe {
            assert_eq!(load(base), Ok(1));
            assert_eq!(store(base.add(1), 7), Ok(()));
            assert_eq!(copy(base.cast(), base.add(1).cast(), 8), Ok(()));
        }
        assert_eq!(words, [7, 7]);
    }

    #[test]
    fn only_our_own_instructions_have_a_landing() {
        let begin = super::freehold_access_load as *const () as usize;
        let end = super::freehold_access_landing as *const () as usize;
        assert!(end > begin && end - begin < 64);
        assert_eq!(landing(begin), Some(end));
        assert_eq!(landing(end - 1), Some(end));
        assert_eq!(landing(end), None);
        assert_eq!(landing(begin - 1), None);
    }
}
