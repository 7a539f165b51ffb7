//! Overwriting the entries of functions of the C library and the dynamic linker.
//!
//! An entry becomes a jump to this library. The functions are found through the dynamic symbols, and refused unless
//! they look as expected: long enough, with the system call in them that takes their place.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;

use crate::process::PAGE;
use crate::{core_file, heap, hooks, locks, remap, sys};

/// `jmp *0(%rip)` and the address.
const JUMP: usize = 14;

/// Functions that are replaced.
pub(crate) const PATCHED: usize = 11;

/// A function of the C library that makes one system call.
struct Replaced {
    name: &'static CStr,
    /// The system call's number.
    number: u16,
    by: fn() -> usize,
    otherwise: &'static [u8],
}

impl Replaced {
    /// The instructions that make its system call.
    const fn call(&self) -> [u8; 7] {
        let [low, high] = self.number.to_le_bytes();
        [0xB8, low, high, 0, 0, 0x0F, 5]
    }
}

/// All but the linker's, and the one that installs handlers.
const REPLACED: [Replaced; PATCHED - 2] = [
    Replaced {
        name: c"mmap64",
        number: 9,
        by: || hooks::mmap as *const () as usize,
        otherwise: b"mmap64 of the C library is not as expected",
    },
    Replaced {
        name: c"brk",
        number: 12,
        by: || heap::brk as *const () as usize,
        otherwise: b"brk of the C library is not as expected",
    },
    Replaced {
        name: c"mremap",
        number: 25,
        by: || remap::mremap as *const () as usize,
        otherwise: b"mremap of the C library is not as expected",
    },
    Replaced {
        name: c"mprotect",
        number: 10,
        by: || locks::mprotect as *const () as usize,
        otherwise: b"mprotect of the C library is not as expected",
    },
    Replaced {
        name: c"mlock",
        number: 149,
        by: || locks::mlock as *const () as usize,
        otherwise: b"mlock of the C library is not as expected",
    },
    Replaced {
        name: c"munlock",
        number: 150,
        by: || locks::munlock as *const () as usize,
        otherwise: b"munlock of the C library is not as expected",
    },
    Replaced {
        name: c"mlockall",
        number: 151,
        by: || locks::mlockall as *const () as usize,
        otherwise: b"mlockall of the C library is not as expected",
    },
    Replaced {
        name: c"munlockall",
        number: 152,
        by: || locks::munlockall as *const () as usize,
        otherwise: b"munlockall of the C library is not as expected",
    },
    Replaced {
        name: c"mlock2",
        number: 325,
        by: || locks::mlock2 as *const () as usize,
        otherwise: b"mlock2 of the C library is not as expected",
    },
];

const NEXT: usize = usize::MAX;
const ENTRY_SYMBOL: c_int = 1;

#[repr(C)]
struct Information {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    information: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr1(address: *const c_void, to: *mut Information, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// Why a function cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchError(pub(crate) &'static [u8]);

/// Replaces what makes memory and what tells of new objects; which pages have been changed. The last is 0 where there
/// are to be no handlers before core files ([`core_file`]).
///
/// `changed` is the linker's function that debuggers stop at, which its table names.
pub(crate) fn install(changed: usize) -> Result<[usize; PATCHED], PatchError> {
    // The next after this library; opening the C library by name would have the allocator make its heap too early.
    let find = |name: &CStr| {
        // SAFETY: the name ends.
        unsafe { dlsym(core::ptr::without_provenance_mut(NEXT), name.as_ptr()) as usize }
    };
    let current = find(c"__curbrk");
    if current == 0 {
        return Err(PatchError(b"the C library has no symbol __curbrk"));
    }
    heap::CURRENT_BREAK.store(core::ptr::with_exposed_provenance_mut(current), Ordering::Relaxed);
    // Everything is looked at before anything is changed.
    let mut entries = [(changed, hooks::objects_changed as *const () as usize); PATCHED - 1];
    for (place, replaced) in entries.iter_mut().zip(&REPLACED) {
        let entry = find(replaced.name);
        check(entry, replaced.call(), replaced.otherwise)?;
        *place = (entry, (replaced.by)());
    }
    check_empty(changed)?;
    // Where it is another, core files lack what is out, and nothing else.
    let action = find(c"sigaction");
    let known = check(action, [0x8D, 0x47, 0xE0, 0x83, 0xF8, 1], b"");
    let action = known.map_or(0, |()| action);
    let mut pages = [0; PATCHED];
    let action = (action != 0).then_some((action, core_file::sigaction as *const () as usize));
    for ((entry, replacement), page) in entries.into_iter().chain(action).zip(&mut pages) {
        overwrite(entry, replacement)?;
        *page = entry / PAGE * PAGE;
    }
    Ok(pages)
}

/// What a function is made of now: a copy, since it is overwritten later.
fn copy<const LENGTH: usize>(address: usize) -> [u8; LENGTH] {
    let text: *const u8 = core::ptr::with_exposed_provenance(address);
    // SAFETY: so many bytes of the text of a loaded library, which stays. No reference to them is made.
    core::array::from_fn(|at| unsafe { text.add(at).read_volatile() })
}

/// Whether a function of this length has these bytes in it, one after the other.
fn contains<const LENGTH: usize>(address: usize, length: usize, wanted: [u8; LENGTH]) -> bool {
    let last = length.saturating_sub(LENGTH);
    length >= LENGTH && (0..=last).any(|at| copy::<LENGTH>(address + at) == wanted)
}

/// The function's size by its symbol; 0 where it has none, or is not the C library's.
fn size(address: usize) -> usize {
    let mut information = Information {
        file: core::ptr::null(),
        base: core::ptr::null_mut(),
        name: core::ptr::null(),
        address: core::ptr::null_mut(),
    };
    let mut symbol = core::ptr::null_mut();
    // SAFETY: the two places are written, nothing else.
    let found = unsafe {
        dladdr1(
            core::ptr::with_exposed_provenance(address),
            &raw mut information,
            &raw mut symbol,
            ENTRY_SYMBOL,
        )
    };
    if found == 0 || symbol.is_null() || information.file.is_null() || information.address as usize != address {
        return 0;
    }
    // Another allocator may have its own.
    // SAFETY: the linker's names end.
    if !unsafe { CStr::from_ptr(information.file) }
        .to_bytes()
        .ends_with(b"/libc.so.6")
    {
        return 0;
    }
    // SAFETY: with this flag it is a symbol of a loaded library, in memory that is only read.
    let size = unsafe { (&raw const (*symbol.cast::<Symbol>()).size).read() };
    usize::try_from(size).unwrap_or(0)
}

fn check<const LENGTH: usize>(entry: usize, within: [u8; LENGTH], otherwise: &'static [u8]) -> Result<(), PatchError> {
    const LONGEST: usize = 256;
    let length = if entry == 0 { 0 } else { size(entry) };
    let fits = (JUMP..LONGEST).contains(&length) && in_one_page(entry) && contains(entry, length, within);
    if fits { Ok(()) } else { Err(PatchError(otherwise)) }
}

/// The linker's function is a bare return, and what follows up to the next function is filling.
fn check_empty(entry: usize) -> Result<(), PatchError> {
    const RETURN: u8 = 0xC3;
    let error = PatchError(b"_dl_debug_state of the dynamic linker is not as expected");
    if entry == 0 || !entry.is_multiple_of(16) || !in_one_page(entry) {
        return Err(error);
    }
    let filling = |byte: &u8| matches!(byte, 0x66 | 0x2E | 0x0F | 0x1F | 0x40 | 0x44 | 0x80 | 0x84 | 0x90 | 0);
    match copy::<16>(entry) {
        [RETURN, rest @ ..] if rest.iter().all(filling) => Ok(()),
        _ => Err(error),
    }
}

fn in_one_page(entry: usize) -> bool {
    entry % PAGE + JUMP <= PAGE
}

fn overwrite(entry: usize, replacement: usize) -> Result<(), PatchError> {
    let page = entry / PAGE * PAGE;
    let protect = |protection| {
        // SAFETY: the page stays readable and executable for whoever runs it.
        unsafe { sys::call5(sys::MPROTECT, page, PAGE, protection, 0, 0) }
    };
    let run = sys::PROT_READ | sys::PROT_EXEC;
    let refused = PatchError(b"the kernel does not let the text of the C library be changed");
    protect(run | sys::PROT_WRITE).map_err(|_| refused)?;
    let place = core::ptr::with_exposed_provenance_mut::<u8>(entry);
    // SAFETY: the entry has room for the jump (`check`), the page may be written, and no other thread runs yet.
    unsafe {
        place.cast::<[u8; 6]>().write_unaligned([0xFF, 0x25, 0, 0, 0, 0]);
        place.add(6).cast::<usize>().write_unaligned(replacement);
    }
    protect(run).map(|_| ()).map_err(|_| refused)
}
