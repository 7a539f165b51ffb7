//! Program headers, as they are mapped with the file's first page.

use crate::process::PAGE;

const MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
const DYNAMIC_TEXT_RELOCATIONS: u64 = 22;
const WRITABLE: u32 = 2;
const DYNAMIC: u32 = 2;

/// One program header: kind, flags, address, size in memory.
struct Segment {
    kind: u32,
    flags: u32,
    address: usize,
    size: usize,
}

fn word<T: Copy>(base: usize, offset: usize) -> T {
    // SAFETY: the callers stay inside the file's first page, which is mapped and readable, and ask for integers.
    unsafe { core::ptr::with_exposed_provenance::<T>(base + offset).read_unaligned() }
}

/// The program headers of the file whose first page is at `base`; none where it is no such file, or they are not all
/// on the first page.
fn segments(base: usize) -> impl Iterator<Item = Segment> {
    let is_elf = word::<u32>(base, 0) == MAGIC;
    let (offset, count) = if is_elf {
        (
            usize::try_from(word::<u64>(base, 32)).unwrap_or(PAGE),
            usize::from(word::<u16>(base, 56)),
        )
    } else {
        (HEADER, 0)
    };
    let room = PAGE.saturating_sub(offset.min(PAGE)) / PROGRAM_HEADER;
    let count = if count <= room { count } else { 0 };
    (0..count).map(move |at| {
        let place = offset + at * PROGRAM_HEADER;
        Segment {
            kind: word(base, place),
            flags: word(base, place + 4),
            address: usize::try_from(word::<u64>(base, place + 16)).unwrap_or(usize::MAX),
            size: usize::try_from(word::<u64>(base, place + 40)).unwrap_or(0),
        }
    })
}

/// What is added to the file's addresses: the first segment begins where the file's first page is mapped.
fn bias(base: usize) -> Option<usize> {
    let first = segments(base).find(|segment| segment.kind == LOAD)?;
    base.checked_sub(first.address / PAGE * PAGE)
}

/// Calls `each` with the parts of the mapping from `start` to `end` that lie in a segment that is never written, of a
/// file whose text the dynamic linker does not change either. One mapping may hold more than one segment: what the
/// linker has written and then protected looks like read-only data.
pub(super) fn read_only_parts(base: usize, start: usize, end: usize, mut each: impl FnMut(usize, usize)) {
    let Some(bias) = bias(base) else { return };
    if relocates_text(base, bias) {
        return;
    }
    let pages = |segment: &Segment| {
        let from = (bias + segment.address) / PAGE * PAGE;
        (from, (bias + segment.address + segment.size).next_multiple_of(PAGE))
    };
    let loaded = || segments(base).filter(|segment| segment.kind == LOAD);
    for segment in loaded().filter(|segment| segment.flags & WRITABLE == 0) {
        let (mut from, mut to) = pages(&segment);
        from = from.max(start);
        to = to.min(end);
        for written in loaded().filter(|segment| segment.flags & WRITABLE != 0) {
            let (first, last) = pages(&written);
            if first < to && from < last {
                to = first.max(from);
            }
        }
        if from < to {
            each(from, to);
        }
    }
}

fn relocates_text(base: usize, bias: usize) -> bool {
    let Some(dynamic) = segments(base).find(|segment| segment.kind == DYNAMIC) else {
        return false;
    };
    (0..dynamic.size / 16).any(|at| {
        let place = bias + dynamic.address + at * 16;
        let tag = word::<u64>(place, 0);
        // DT_TEXTREL, or DF_TEXTREL in DT_FLAGS.
        tag == DYNAMIC_TEXT_RELOCATIONS || (tag == 30 && word::<u64>(place, 8) & 4 != 0)
    })
}

/// Whether `address` is in a segment of the file.
pub(super) fn contains(base: usize, length: usize, address: usize) -> bool {
    if length < PAGE {
        return false;
    }
    let Some(bias) = bias(base) else { return false };
    segments(base).any(|segment| {
        let from = bias + segment.address;
        segment.kind == LOAD && (from..from + segment.size).contains(&address)
    })
}
