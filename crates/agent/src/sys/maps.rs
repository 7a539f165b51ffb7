//! The mappings of this process: `/proc/self/maps`.

pub(super) mod query;

use core::ops::Range;

use crate::sys::{self, FileId};

/// The longest line that is understood; longer ones are passed over.
const LINE: usize = 4096 + 128;
const BUFFER: usize = 16384;

/// One mapping.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) private: bool,
    pub(crate) offset: usize,
    pub(crate) file: FileId,
    /// Empty for anonymous memory, and where nobody wants to know.
    pub(crate) path: &'a [u8],
}

/// Calls `each` with every mapping, in order of address; with its path where `named` says so, and else perhaps without.
/// `false` where the file cannot be read.
///
/// The kernel is asked for one mapping after another (Linux 6.11), which takes a third of the time; an older one writes
/// all of them out.
pub(crate) fn for_each(named: impl Fn(&Line<'_>) -> bool, each: impl FnMut(&Line<'_>)) -> bool {
    for_each_in(b"/proc/self/maps\0", named, each)
}

/// As [`for_each`], with the mappings of an emulator (QEMU), too, whose program this is. It answers for the kernel
/// where its program asks by `/proc/self`.
pub(crate) fn for_each_really(named: impl Fn(&Line<'_>) -> bool, each: impl FnMut(&Line<'_>)) -> bool {
    for_each_in(b"/proc/thread-self/maps\0", named, each)
}

fn for_each_in(path: &[u8], named: impl Fn(&Line<'_>) -> bool, mut each: impl FnMut(&Line<'_>)) -> bool {
    let Ok(fd) = sys::open(path, false) else {
        return false;
    };
    let whole = match query::for_each(fd, named, &mut each) {
        Some(whole) => whole,
        None => read_all(fd, each),
    };
    sys::close(fd);
    whole
}

/// The parts of a range that are mapped, in order of address. None where the kernel cannot be asked for one mapping
/// after another (before Linux 6.11), or `/proc` is not there.
#[derive(Debug)]
pub(crate) struct Pieces {
    fd: i32,
    rest: Range<usize>,
}

impl Pieces {
    pub(crate) fn of(range: Range<usize>) -> Self {
        let fd = sys::open(b"/proc/self/maps\0", false).unwrap_or(-1);
        Self { fd, rest: range }
    }

    /// Whether the whole range is private memory without a file and with one protection, as what a program has as one
    /// mapping is where the server has a part of it.
    pub(crate) fn are_one(mut self) -> bool {
        let (mut at, mut protection) = (self.rest.start, None);
        while let Some(line) = self.line() {
            let found = [line.readable, line.writable, line.executable];
            let is_next = line.start == at && line.private && line.file.inode == 0;
            if !is_next || *protection.get_or_insert(found) != found {
                return false;
            }
            at = line.end;
        }
        protection.is_some() && at == self.rest.end
    }

    /// The next mapping, as far as it is in the range.
    fn line(&mut self) -> Option<Line<'static>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut line = query::next(self.fd, self.rest.start)?;
        line.start = line.start.max(self.rest.start);
        line.end = line.end.min(self.rest.end);
        self.rest.start = line.end.max(self.rest.start);
        (line.start < line.end).then_some(line)
    }
}

impl Iterator for Pieces {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        self.line().map(|line| line.start..line.end)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.fd >= 0 {
            sys::close(self.fd);
        }
    }
}

fn read_all(fd: i32, mut each: impl FnMut(&Line<'_>)) -> bool {
    let mut buffer = [0_u8; BUFFER];
    let mut filled = 0;
    loop {
        let Some(room) = buffer.get_mut(filled..) else {
            return false;
        };
        let count = match sys::read(fd, room) {
            Ok(0) => return true,
            Ok(count) => count,
            Err(sys::Errno::INTR) => continue,
            Err(_) => return false,
        };
        filled += count;
        let mut from = 0;
        while let Some(bytes) = buffer.get(from..filled) {
            let Some(length) = bytes.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            if let Some(line) = bytes.get(..length).and_then(parse) {
                each(&line);
            }
            from += length + 1;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
        if filled > LINE {
            // A line without end: what follows cannot be understood.
            return false;
        }
    }
}

fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (start, rest) = number(line, 16, b'-')?;
    let (end, rest) = number(rest, 16, b' ')?;
    let (protection, rest) = rest.split_at_checked(5)?;
    let (offset, rest) = number(rest, 16, b' ')?;
    let (major, rest) = number(rest, 16, b':')?;
    let (minor, rest) = number(rest, 16, b' ')?;
    let (inode, rest) = number(rest, 10, b' ')?;
    let skip = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
    let is = |at: usize, what: u8| protection.get(at) == Some(&what);
    Some(Line {
        start,
        end,
        readable: is(0, b'r'),
        writable: is(1, b'w'),
        executable: is(2, b'x'),
        private: is(3, b'p'),
        offset,
        file: FileId {
            major: u32::try_from(major).ok()?,
            minor: u32::try_from(minor).ok()?,
            inode: inode as u64,
        },
        path: rest.get(skip..)?,
    })
}

/// The number up to `end`, and what follows. The kernel ends lines of anonymous memory after the inode, with a space.
fn number(bytes: &[u8], base: usize, end: u8) -> Option<(usize, &[u8])> {
    let length = bytes.iter().position(|byte| *byte == end).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at_checked(length)?;
    let mut value = 0_usize;
    for digit in digits {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        value = value.checked_mul(base)?.checked_add(usize::from(digit))?;
    }
    (length > 0).then_some((value, rest.get(1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::{Line, for_each, parse, query, read_all};

    #[test]
    fn a_line_of_a_library_is_understood() {
        let line = parse(b"7f01-7f05 r-xp 00026000 fe:01 1234    /usr/lib/a b.so").expect("a line");
        assert_eq!((line.start, line.end, line.offset), (0x7f01, 0x7f05, 0x26000));
        assert!(line.readable && line.executable && line.private && !line.writable);
        assert_eq!((line.file.major, line.file.minor, line.file.inode), (0xfe, 1, 1234));
        assert_eq!(line.path, b"/usr/lib/a b.so");
    }

    #[test]
    fn nonsense_is_no_line() {
        for line in [
            &b""[..],
            b"7f01",
            b"7f01-zz r-xp 0 0:0 0",
            b"1-2 r-xp",
            b"fffffffffffffffff-1 r-xp 0 0:0 0 ",
        ] {
            assert!(parse(line).is_none(), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn this_process_has_its_own_text_in_order() {
        let here = this_process_has_its_own_text_in_order as *const () as usize;
        let (mut found, mut last) = (false, 0);
        assert!(for_each(
            |_| true,
            |line| {
                assert!(line.start >= last && line.end > line.start);
                last = line.end;
                found |= line.executable && (line.start..line.end).contains(&here) && line.file.inode != 0;
            }
        ));
        assert!(found);
    }

    #[test]
    fn both_ways_tell_the_same() {
        let fd = crate::sys::open(b"/proc/self/maps\0", false).expect("it opens");
        let here = both_ways_tell_the_same as *const () as usize;
        // Other tests change other mappings.
        let own = |line: &Line<'_>| {
            (line.start..line.end)
                .contains(&here)
                .then(|| format!("{line:?} {}", String::from_utf8_lossy(line.path)))
        };
        let (mut asked, mut read) = (None, None);
        if query::for_each(fd, |line| line.executable, &mut |line| {
            asked = own(line).or(asked.take())
        })
        .is_none()
        {
            println!("not tested: this kernel cannot be asked for one mapping (PROCMAP_QUERY, Linux 6.11)");
            return;
        }
        assert!(read_all(fd, |line| read = own(line).or(read.take())));
        assert!(
            read.as_ref().is_some_and(|line| line.contains("freehold_agent")),
            "{read:?}"
        );
        assert_eq!(asked, read);
        crate::sys::close(fd);
    }
}
