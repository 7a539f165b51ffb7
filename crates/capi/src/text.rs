//! Strings from C and to it.

use std::ffi::{CStr, CString, c_char};

use crate::error::Problem;

/// A string of the caller's; `what` is for errors.
///
/// # Safety
/// `from` is null or points to a string that ends with a zero byte and stays while the borrow lives.
pub(crate) unsafe fn read<'a>(from: *const c_char, what: &str) -> Result<&'a str, Problem> {
    // SAFETY: the caller's promise.
    let text = unsafe { read_if_any(from, what) }?;
    text.ok_or_else(|| Problem::invalid(format!("{what} is null")))
}

/// As [`read`], none for null.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn read_if_any<'a>(from: *const c_char, what: &str) -> Result<Option<&'a str>, Problem> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and a string by the caller's promise.
    let text = unsafe { CStr::from_ptr(from) };
    let text = text
        .to_str()
        .map_err(|_| Problem::invalid(format!("{what} is not UTF-8")))?;
    Ok(Some(text))
}

/// A string for the caller, who ends it with `freehold_text_end`.
///
/// # Safety
/// `to` is null or points to a pointer of the caller's.
pub(crate) unsafe fn give(text: String, to: *mut *mut c_char) -> Result<(), Problem> {
    if to.is_null() || !to.is_aligned() {
        return Err(Problem::invalid("there is no place for the text"));
    }
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: not null, aligned, and a pointer of the caller's by his promise.
    unsafe { to.write(text.into_raw()) };
    Ok(())
}

/// Writes a number for the caller.
///
/// # Safety
/// `to` is null or points to a number of the caller's.
pub(crate) unsafe fn number<T>(to: *mut T, value: T) -> Result<(), Problem> {
    if to.is_null() || !to.is_aligned() {
        return Err(Problem::invalid("there is no place for the number"));
    }
    // SAFETY: not null, aligned, and the caller's by his promise.
    unsafe { to.write(value) };
    Ok(())
}
