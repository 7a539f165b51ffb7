//! Structures that begin with their size, so that programs and libraries of different age understand each other: what
//! one side does not know is zero to the other, and zero means what was done before there was a choice.

use crate::error::Problem;

/// A structure of integers and pointers that begins with its size in bytes.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize`, and every field may be all zeros.
pub(crate) unsafe trait Versioned: Copy {
    /// The size of its first version.
    const LEAST: usize;
    /// What it is called in errors.
    const NAME: &'static str;
}

/// Reads a structure of the caller's.
///
/// # Safety
/// `from` is null or points to as many bytes as its first field says.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Result<T, Problem> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(from) }?;
    // SAFETY: every field may be all zeros.
    let mut ours: T = unsafe { std::mem::zeroed() };
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are theirs by the caller's promise, and fit ours; the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut ours).cast::<u8>(), known) };
    for at in known..size {
        // SAFETY: inside the bytes that the caller promised.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            return Err(Problem::invalid(format!(
                "{} asks for something that this version of the library does not know",
                T::NAME
            )));
        }
    }
    Ok(ours)
}

/// Writes a result into the caller's structure: as much of it as that has room for.
///
/// # Safety
/// As [`read`], for writing.
pub(crate) unsafe fn write<T: Versioned>(to: *mut T, value: T) -> Result<(), Problem> {
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_theirs(to) }?;
    let (skipped, known) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: past the size, which stays what the caller said, `known` bytes in all are theirs and in `value`; what
    // they have beyond is theirs too, and is set to zeros.
    unsafe {
        let (from, to) = ((&raw const value).cast::<u8>(), to.cast::<u8>());
        std::ptr::copy_nonoverlapping(from.add(skipped), to.add(skipped), known - skipped);
        std::ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// More than any version will have.
const MOST: usize = 4096;

/// # Safety
/// `from` is null or points to at least a size.
unsafe fn size_of_theirs<T: Versioned>(from: *const T) -> Result<usize, Problem> {
    if from.is_null() || !from.is_aligned() {
        return Err(Problem::invalid(format!("{} is null", T::NAME)));
    }
    // SAFETY: not null, aligned as the structure, which begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if size < T::LEAST || size > MOST {
        return Err(Problem::invalid(format!(
            "the size of {} is {size}: set it to sizeof of the structure",
            T::NAME
        )));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::{Versioned, read, write};

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Ours {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: integers only.
    unsafe impl Versioned for Ours {
        const LEAST: usize = 16;
        const NAME: &'static str = "ours";
    }

    fn read_words(words: &[u64]) -> Option<Ours> {
        // SAFETY: no size used in these tests, where it is accepted, exceeds the words.
        unsafe { read(words.as_ptr().cast::<Ours>()) }.ok()
    }

    #[test]
    fn older_and_newer_callers_are_understood() {
        let ours = |first, second| Ours { size: 0, first, second };
        let read = |words: &[u64]| read_words(words).map(|found| Ours { size: 0, ..found });
        assert_eq!(read(&[16, 5]), Some(ours(5, 0)));
        assert_eq!(read(&[24, 5, 6]), Some(ours(5, 6)));
        assert_eq!(read(&[32, 5, 6, 0]), Some(ours(5, 6)));
        assert_eq!(read(&[32, 5, 6, 1]), None);
        assert_eq!(read(&[8, 5]), None);
        assert_eq!(read(&[0, 5]), None);
        assert_eq!(read(&[1 << 40, 5]), None);
    }

    #[test]
    fn results_are_cut_to_the_callers_size() {
        let value = Ours {
            size: 0,
            first: 5,
            second: 6,
        };
        for (mut words, expected) in [
            ([16_u64, 9, 9, 9], [16, 5, 9, 9]),
            ([24, 9, 9, 9], [24, 5, 6, 9]),
            ([32, 9, 9, 9], [32, 5, 6, 0]),
        ] {
            // SAFETY: each size fits the words.
            unsafe { write(words.as_mut_ptr().cast::<Ours>(), value) }.unwrap();
            assert_eq!(words, expected);
        }
        // SAFETY: null is allowed.
        assert!(unsafe { write(std::ptr::null_mut(), value) }.is_err());
    }
}
