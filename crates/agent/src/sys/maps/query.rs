//! Asking the kernel for one mapping after another (PROCMAP_QUERY, Linux 6.11; `linux/fs.h`).

use crate::sys::maps::{LINE, Line};
use crate::sys::{self, FileId};

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const SIZE: usize = size_of::<Query>();
/// `_IOWR('f', 17, struct procmap_query)`.
const REQUEST: u64 = 0xc000_0000 | (SIZE as u64) << 16 | (b'f' as u64) << 8 | 17;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
const THIS_OR_NEXT: u64 = 16;

/// As [`for_each`](crate::sys::maps::for_each), with the open file; `None` where the kernel cannot be asked so, before
/// `each` was called.
pub(super) fn for_each(fd: i32, named: impl Fn(&Line<'_>) -> bool, each: &mut impl FnMut(&Line<'_>)) -> Option<bool> {
    let mut name = [0_u8; LINE];
    let (mut address, mut first) = (0, true);
    loop {
        let mut query = Query::default();
        match ask(fd, address, &mut [], &mut query) {
            Ok(_) => {}
            Err(sys::Errno::NOENT) => return Some(true),
            Err(_) if first => return None,
            Err(_) => return Some(false),
        }
        first = false;
        address = query.end;
        let mut line = line(&query);
        if line.file.inode != 0 && named(&line) {
            let mut again = Query::default();
            // What has been unmapped meanwhile, or has a name that is too long, has none.
            let length = match ask(fd, query.start, &mut name, &mut again) {
                Ok(_) if again.start == query.start => again.name_size.saturating_sub(1),
                _ => 0,
            };
            line.path = name.get(..length as usize).unwrap_or_default();
        }
        each(&line);
    }
}

/// The mapping at an address, or the next; nothing past the last, and where the kernel cannot be asked so.
pub(super) fn next(fd: i32, address: usize) -> Option<Line<'static>> {
    let mut query = Query::default();
    ask(fd, address as u64, &mut [], &mut query).ok()?;
    Some(line(&query))
}

/// Asks for the mapping at an address, or the next, and for its name where there is room for one.
fn ask(fd: i32, address: u64, name: &mut [u8], query: &mut Query) -> sys::Answer {
    *query = Query {
        size: SIZE as u64,
        flags: THIS_OR_NEXT,
        address,
        name_size: u32::try_from(name.len()).unwrap_or(0),
        name: if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 },
        ..Query::default()
    };
    // SAFETY: the structure of this request; the kernel writes to it, and to the name as far as that reaches.
    unsafe { sys::ioctl(fd, REQUEST, query) }
}

fn line(query: &Query) -> Line<'static> {
    let is = |flag: u64| query.vma_flags & flag != 0;
    // usize and u64 are the same size on the one architecture supported.
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Line {
        start: number(query.start),
        end: number(query.end),
        readable: is(READABLE),
        writable: is(WRITABLE),
        executable: is(EXECUTABLE),
        private: !is(SHARED),
        offset: number(query.offset),
        file: FileId {
            major: query.major,
            minor: query.minor,
            inode: query.inode,
        },
        path: &[],
    }
}
