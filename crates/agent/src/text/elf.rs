//! Program headers of an object that the dynamic linker has loaded, as they are mapped with its file's first page.

use crate::client::Client;
use crate::process::PAGE;
use crate::sys;

const MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");
const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const WRITABLE: u32 = 2;

/// One program header: kind, flags, address, size in memory.
struct Segment {
    kind: u32,
    flags: u32,
    address: usize,
    size: usize,
}

/// A file's first page, and what is added to the file's addresses.
#[derive(Debug)]
pub(super) struct Headers<'a> {
    page: &'a [u8; PAGE],
    bias: usize,
}

impl<'a> Headers<'a> {
    /// Those of the object whose file's first page is at `base` and whose dynamic section is at `link`; none where the
    /// page has no such headers, or not all of them, or where the dynamic linker changes the object's text.
    pub(super) fn of(page: &'a [u8; PAGE], base: usize, link: usize) -> Option<Self> {
        let mut headers = Self { page, bias: 0 };
        // The first segment begins where the file's first page is mapped.
        let first = headers.segments().find(|segment| segment.kind == LOAD)?;
        headers.bias = base.checked_sub(first.address / PAGE * PAGE)?;
        let dynamic = headers.segments().find(|segment| segment.kind == DYNAMIC)?;
        (headers.bias.wrapping_add(dynamic.address) == link && !relocates_text(link)).then_some(headers)
    }

    fn word<const BYTES: usize>(&self, at: usize) -> [u8; BYTES] {
        let bytes = self.page.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().unwrap_or([0; BYTES])
    }

    /// An address or a size.
    fn number(&self, at: usize) -> usize {
        usize::from_le_bytes(self.word(at))
    }

    /// None where it is no such file, or they are not all on the first page.
    fn segments(&self) -> impl Iterator<Item = Segment> {
        let is_elf = u32::from_le_bytes(self.word(0)) == MAGIC;
        let offset = self.number(32).min(PAGE);
        let count = usize::from(u16::from_le_bytes(self.word(56)));
        let room = (PAGE - offset) / PROGRAM_HEADER;
        let count = if is_elf && count <= room { count } else { 0 };
        (0..count).map(move |at| {
            let place = offset + at * PROGRAM_HEADER;
            Segment {
                kind: u32::from_le_bytes(self.word(place)),
                flags: u32::from_le_bytes(self.word(place + 4)),
                address: self.number(place + 16),
                size: self.number(place + 40),
            }
        })
    }

    /// The pages that a segment has.
    fn pages(&self, segment: &Segment) -> (usize, usize) {
        let from = self.bias.saturating_add(segment.address);
        let to = from.saturating_add(segment.size);
        (from / PAGE * PAGE, to.checked_next_multiple_of(PAGE).unwrap_or(to))
    }

    /// Calls `each` with the parts of the mapping from `start` to `end` that lie in a segment that is never written.
    /// One mapping may hold more than one segment: what the linker has written and then protected looks like read-only
    /// data.
    pub(super) fn read_only_parts(&self, start: usize, end: usize, mut each: impl FnMut(usize, usize)) {
        let loaded = || self.segments().filter(|segment| segment.kind == LOAD);
        for segment in loaded().filter(|segment| segment.flags & WRITABLE == 0) {
            let (mut from, mut to) = self.pages(&segment);
            from = from.max(start);
            to = to.min(end);
            for written in loaded().filter(|segment| segment.flags & WRITABLE != 0) {
                let (first, last) = self.pages(&written);
                if first < to && from < last {
                    to = first.max(from);
                }
            }
            if from < to {
                each(from, to);
            }
        }
    }
}

/// A copy of the page: a program may unmap what it has mapped as data, or cut the file, at any time.
pub(super) fn first_page(client: &Client, base: usize) -> Option<[u8; PAGE]> {
    let mut page = [0; PAGE];
    if client.descriptors.memory >= 0 {
        let read = sys::read_at(client.descriptors.memory, &mut page, base);
        return (read == Ok(PAGE)).then_some(page);
    }
    // SAFETY: a mapping that may be read, of a page at least. Without the descriptor nothing tells whether it still is.
    unsafe { core::ptr::copy_nonoverlapping(core::ptr::with_exposed_provenance(base), page.as_mut_ptr(), PAGE) };
    Some(page)
}

/// Whether the dynamic linker changes the text of the object with this dynamic section.
fn relocates_text(link: usize) -> bool {
    const TEXT_RELOCATIONS: usize = 22;
    const FLAGS: usize = 30;
    const FLAG_OF_TEXT: usize = 4;
    let mut at = core::ptr::with_exposed_provenance::<[usize; 2]>(link);
    loop {
        // SAFETY: the section of a loaded object, which ends with a tag of zero; who has it loaded waits.
        let [tag, value] = unsafe { at.read_unaligned() };
        match tag {
            0 => return false,
            TEXT_RELOCATIONS => return true,
            FLAGS if value & FLAG_OF_TEXT != 0 => return true,
            // SAFETY: not the last.
            _ => at = unsafe { at.add(1) },
        }
    }
}
