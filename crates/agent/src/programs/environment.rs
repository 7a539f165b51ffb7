//! An environment, as a program is given it: a list of addresses of texts, with zero at its end.

use core::ffi::{CStr, c_char};

/// Variables that the dynamic linker reads.
pub(crate) const PRELOAD: &[u8] = b"LD_PRELOAD";

/// An environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment(*const *const c_char);

impl Environment {
    /// The environment at an address.
    ///
    /// # Safety
    /// It is null, or a list of texts that ends with null; nobody changes it while it is used.
    pub(crate) const unsafe fn at(address: *const *const c_char) -> Self {
        Self(address)
    }

    /// The addresses of its texts.
    pub(crate) fn addresses(self) -> impl Iterator<Item = *const c_char> {
        let mut at = self.0;
        core::iter::from_fn(move || {
            if at.is_null() {
                return None;
            }
            // SAFETY: not behind the end, which has been looked for.
            let text = unsafe { *at };
            if text.is_null() {
                return None;
            }
            // SAFETY: not the last.
            at = unsafe { at.add(1) };
            Some(text)
        })
    }

    /// What a variable is, if there is one; the first of several, as the C library takes it.
    pub(crate) fn value(self, name: &[u8]) -> Option<&'static [u8]> {
        self.addresses().find_map(|text| value(bytes(text), name))
    }
}

/// A text of an environment.
pub(crate) fn bytes(text: *const c_char) -> &'static [u8] {
    // SAFETY: the texts of an environment end, and stay while it is used.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The value in `NAME=VALUE`, where the name is this one.
pub(crate) fn value<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(name)?.strip_prefix(b"=")
}

/// The libraries of a list of those to be preloaded.
pub(crate) fn preloaded(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let separates = |byte: &u8| matches!(byte, b' ' | b':');
    list.split(separates).filter(|path| !path.is_empty())
}
