//! The dynamic linker's list of loaded objects, and functions looked up in one of them.
//!
//! A name is looked up in the C library itself: another library that is preloaded may have functions of the same names,
//! and `dlopen`, which would find the right one, has the allocator make its heap too early.

use core::ffi::{CStr, c_char, c_int};
use core::ops::Range;

/// `struct link_map`
#[repr(C)]
pub(crate) struct Link {
    bias: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const Link,
}

/// `struct r_debug`
#[repr(C)]
struct Linker {
    version: c_int,
    first: *const Link,
    hook: usize,
    state: c_int,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    information: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

unsafe extern "C" {
    static _r_debug: Linker;
    /// This library's own.
    static _DYNAMIC: [usize; 2];
}

const STRINGS: usize = 5;
const SYMBOLS: usize = 6;
const HASHES: usize = 0x6FFF_FEF5;

impl Link {
    /// Where the object's dynamic section is.
    pub(crate) const fn dynamic(&self) -> usize {
        self.dynamic
    }

    /// The path that it was loaded by; empty for the program.
    pub(crate) fn name(&self) -> &'static [u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the linker's names end, and stay as long as the object is loaded.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Where an entry of the dynamic section points to.
    fn entry(&self, tag: usize) -> Option<usize> {
        let mut at = core::ptr::with_exposed_provenance::<[usize; 2]>(self.dynamic);
        if at.is_null() {
            return None;
        }
        loop {
            // SAFETY: the section of a loaded object, which ends with a tag of zero.
            let [found, value] = unsafe { *at };
            if found == 0 {
                return None;
            }
            if found == tag {
                // The linker writes addresses over the file's own, except where the section cannot be written.
                return Some(if value < self.bias { value + self.bias } else { value });
            }
            // SAFETY: not the last.
            at = unsafe { at.add(1) };
        }
    }

    /// Where the object has a function or variable of this name.
    pub(crate) fn find(&self, name: &CStr) -> Option<Range<usize>> {
        const FIRST: u32 = 5381;
        let (strings, symbols) = (self.entry(STRINGS)?, self.entry(SYMBOLS)?);
        let table = self.entry(HASHES)?;
        // SAFETY: the object's table of hashes: four numbers, a filter of 64-bit words, buckets, chains; each number
        // that is read is one of it as long as the object is what the linker takes it for.
        let number = |at: usize| unsafe { *core::ptr::with_exposed_provenance::<u32>(table + 4 * at) };
        let (buckets, first, filter) = (number(0), number(1), number(2));
        let hash = name
            .to_bytes()
            .iter()
            .fold(FIRST, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let bucket = 4 + 2 * filter as usize;
        let mut at = number(bucket + hash.checked_rem(buckets)? as usize);
        while at >= first {
            let chained = number(bucket + buckets as usize + (at - first) as usize);
            let place = symbols + at as usize * size_of::<Symbol>();
            // SAFETY: a symbol that the table names.
            let symbol = unsafe { &*core::ptr::with_exposed_provenance::<Symbol>(place) };
            // SAFETY: its name, which ends.
            let called = unsafe { CStr::from_ptr(core::ptr::with_exposed_provenance(strings + symbol.name as usize)) };
            if chained | 1 == hash | 1 && symbol.section != 0 && called == name {
                let start = self.bias + symbol.value;
                return Some(start..start + symbol.size);
            }
            if chained & 1 != 0 {
                break;
            }
            at += 1;
        }
        None
    }
}

/// The loaded objects, in the order in which they were loaded. The list does not change while the linker calls, nor
/// before the program begins.
pub(crate) fn objects() -> impl Iterator<Item = &'static Link> {
    // SAFETY: the linker's own table.
    let mut at = unsafe { (&raw const _r_debug.first).read_volatile() };
    core::iter::from_fn(move || {
        // SAFETY: a member of the list, or none.
        let link = unsafe { at.as_ref() }?;
        at = link.next;
        Some(link)
    })
}

/// The C library.
pub(crate) fn c_library() -> Option<&'static Link> {
    objects().find(|object| object.name().ends_with(b"/libc.so.6"))
}

/// The path that this library was loaded by.
pub(crate) fn own_path() -> &'static [u8] {
    let own = (&raw const _DYNAMIC).addr();
    objects().find(|object| object.dynamic() == own).map_or(b"", Link::name)
}

/// What the dynamic linker is doing: 0 nothing, 1 adding, 2 removing.
pub(crate) fn state() -> u32 {
    // SAFETY: the linker's own table, which it has just written on this thread.
    unsafe { (&raw const _r_debug.state).read_volatile() }.cast_unsigned()
}

/// The function that the linker calls before and after its list changes.
pub(crate) fn hook() -> usize {
    // SAFETY: the linker's own table, which does not change.
    unsafe { (&raw const _r_debug.hook).read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::{c_library, objects};

    #[test]
    fn functions_are_found_where_the_linker_finds_them() {
        let library = c_library().expect("the C library");
        let found = library.find(c"mmap64").expect("it is there");
        let known = libc::mmap64 as *const () as usize;
        assert_eq!((found.start, found.len() > 14), (known, true));
        assert_eq!(library.find(c"no_such_function"), None);
        assert!(library.find(c"__curbrk").is_some_and(|place| place.len() == 8));
    }

    #[test]
    fn every_object_has_a_dynamic_section() {
        assert!(objects().count() >= 3 && objects().all(|object| object.dynamic() != 0));
    }
}
