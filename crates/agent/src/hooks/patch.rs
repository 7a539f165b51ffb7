//! Overwriting the entries of functions of the C library and the dynamic linker.
//!
//! An entry becomes a jump to this library. The functions are found through the dynamic symbols, and refused unless
//! they look as expected: long enough, with the system call in them that takes their place.

use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::Ordering;

use crate::hooks::brk_ahead;
use crate::hooks::linker;
use crate::hooks::locks;
use crate::hooks::remap;
use crate::kernel_paths::core_file;
use crate::process::PAGE;
use crate::{hooks, programs, sys};

/// `jmp *0(%rip)` and the address.
const JUMP: usize = 14;

/// Functions that are replaced.
pub(crate) const PATCHED: usize = 15;

/// Why a function cannot be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchError(pub(crate) &'static [u8]);

/// A function of the C library, instructions that it has, and what takes its place.
struct Entry {
    name: &'static CStr,
    within: &'static [u8],
    replacement: *const (),
    otherwise: &'static [u8],
    /// Programs can be managed without it.
    spared: bool,
}

/// Replaces what makes memory, what begins programs, and what tells of new objects; which pages have been changed. The
/// last is 0 where there are to be no handlers before core files ([`core_file`]).
pub(crate) fn install() -> Result<[usize; PATCHED], PatchError> {
    let library = linker::c_library().ok_or(PatchError(b"it has no C library that the agent knows"))?;
    let current = library.find(c"__curbrk");
    let current = current.ok_or(PatchError(b"the C library has no symbol __curbrk"))?;
    brk_ahead::CURRENT_BREAK.store(core::ptr::with_exposed_provenance_mut(current.start), Ordering::Relaxed);
    let mut places = [(0, 0); PATCHED];
    // Everything is looked at before anything is changed.
    for (entry, place) in of_memory()
        .into_iter()
        .chain(of_locks())
        .chain(of_programs())
        .zip(places.iter_mut().skip(1))
    {
        let found = library.find(entry.name).unwrap_or(0..0);
        match check(found.clone(), entry.within, entry.otherwise) {
            Ok(()) => *place = (found.start, entry.replacement as usize),
            Err(_) if entry.spared => {}
            Err(error) => return Err(error),
        }
    }
    let changed = linker::hook();
    check_empty(changed)?;
    if let Some(first) = places.first_mut() {
        *first = (changed, hooks::objects_changed as *const () as usize);
    }
    for (entry, replacement) in places.into_iter().filter(|(entry, _)| *entry != 0) {
        overwrite(entry, replacement)?;
    }
    Ok(places.map(|(entry, _)| entry / PAGE * PAGE))
}

/// `mov $322, %eax; syscall`; of other calls alike.
const EXECVEAT: &[u8] = &[0xB8, 0x42, 1, 0, 0, 0x0F, 5];

const fn required(
    name: &'static CStr,
    within: &'static [u8],
    replacement: *const (),
    otherwise: &'static [u8],
) -> Entry {
    Entry {
        name,
        within,
        replacement,
        otherwise,
        spared: false,
    }
}

const fn spared(name: &'static CStr, within: &'static [u8], replacement: *const ()) -> Entry {
    Entry {
        spared: true,
        ..required(name, within, replacement, b"")
    }
}

fn of_memory() -> [Entry; 5] {
    [
        required(
            c"mmap64",
            &[0xB8, 9, 0, 0, 0, 0x0F, 5],
            hooks::mmap as *const (),
            b"mmap64 of the C library is not as expected",
        ),
        required(
            c"munmap",
            &[0xB8, 11, 0, 0, 0, 0x0F, 5],
            hooks::munmap as *const (),
            b"munmap of the C library is not as expected",
        ),
        required(
            c"brk",
            &[0xB8, 12, 0, 0, 0, 0x0F, 5],
            brk_ahead::brk as *const (),
            b"brk of the C library is not as expected",
        ),
        required(
            c"mremap",
            &[0xB8, 25, 0, 0, 0, 0x0F, 5],
            remap::mremap as *const (),
            b"mremap of the C library is not as expected",
        ),
        required(
            c"mprotect",
            &[0xB8, 10, 0, 0, 0, 0x0F, 5],
            locks::mprotect as *const (),
            b"mprotect of the C library is not as expected",
        ),
    ]
}

fn of_locks() -> [Entry; 5] {
    [
        required(
            c"mlock",
            &[0xB8, 149, 0, 0, 0, 0x0F, 5],
            locks::mlock as *const (),
            b"mlock of the C library is not as expected",
        ),
        required(
            c"munlock",
            &[0xB8, 150, 0, 0, 0, 0x0F, 5],
            locks::munlock as *const (),
            b"munlock of the C library is not as expected",
        ),
        required(
            c"mlockall",
            &[0xB8, 151, 0, 0, 0, 0x0F, 5],
            locks::mlockall as *const (),
            b"mlockall of the C library is not as expected",
        ),
        required(
            c"munlockall",
            &[0xB8, 152, 0, 0, 0, 0x0F, 5],
            locks::munlockall as *const (),
            b"munlockall of the C library is not as expected",
        ),
        required(
            c"mlock2",
            &[0xB8, 69, 1, 0, 0, 0x0F, 5],
            locks::mlock2 as *const (),
            b"mlock2 of the C library is not as expected",
        ),
    ]
}

fn of_programs() -> [Entry; PATCHED - 11] {
    [
        required(
            c"execve",
            &[0xB8, 59, 0, 0, 0, 0x0F, 5],
            programs::execve as *const (),
            b"execve of the C library is not as expected",
        ),
        spared(c"execveat", EXECVEAT, programs::execveat as *const ()),
        spared(c"fexecve", EXECVEAT, programs::fexecve as *const ()),
        // Where it is another, core files lack what is out, and nothing else.
        spared(
            c"sigaction",
            &[0x8D, 0x47, 0xE0, 0x83, 0xF8, 1],
            core_file::sigaction as *const (),
        ),
    ]
}

/// What a function is made of now: a copy, since it is overwritten later.
fn copy<const LENGTH: usize>(address: usize) -> [u8; LENGTH] {
    let text: *const u8 = core::ptr::with_exposed_provenance(address);
    // SAFETY: so many bytes of the text of a loaded library, which stays. No reference to them is made.
    core::array::from_fn(|at| unsafe { text.add(at).read_volatile() })
}

/// Whether a function has these bytes in it, one after the other.
fn contains(function: &Range<usize>, wanted: &[u8]) -> bool {
    let is_at = |at: usize| wanted.iter().zip(at..).all(|(byte, at)| copy::<1>(at) == [*byte]);
    let last = function.end.saturating_sub(wanted.len());
    (function.start..=last).any(is_at)
}

/// Whether a function is long enough for the jump, and has these instructions.
fn check(entry: Range<usize>, within: &[u8], otherwise: &'static [u8]) -> Result<(), PatchError> {
    const LONGEST: usize = 512;
    let fits = (JUMP..LONGEST).contains(&entry.len()) && in_one_page(entry.start) && contains(&entry, within);
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
