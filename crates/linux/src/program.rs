//! The memory of this process's program itself: code, constants, variables and libraries, which a real-time thread
//! touches too. The first touch of a piece of code is a page fault, however late in the thread's life it comes.

use std::ops::Range;

use rustix::mm::Advice;

use crate::Errno;

/// How a program's memory is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Kept {
    /// All of it is there, and stays.
    Locked,
    /// All of it was there once: the limit on locked memory is too low. The kernel takes away what nobody touches.
    BroughtIn,
}

/// Brings in the program and its libraries as they are mapped now, their variables, the main thread's stack and the
/// C library's heap, and locks all that. Managed memory and files are left alone.
///
/// # Errors
/// The mappings cannot be read, or the kernel has no memory for them.
pub fn lock() -> Result<Kept, Errno> {
    let maps = std::fs::read("/proc/self/maps");
    let maps = maps.map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    let pieces = pieces(&String::from_utf8_lossy(&maps));
    match pieces.iter().try_for_each(|piece| piece.lock()) {
        Ok(()) => Ok(Kept::Locked),
        Err(Errno::NOMEM | Errno::PERM | Errno::AGAIN) => {
            // Whoever comes later is to have the limit: a part of a program is of no use to it.
            pieces.iter().for_each(Piece::unlock);
            pieces.iter().try_for_each(|piece| piece.bring_in())?;
            Ok(Kept::BroughtIn)
        }
        Err(errno) => Err(errno),
    }
}

/// A mapping of the program's.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    addresses: Range<usize>,
    writable: bool,
}

impl Piece {
    fn start(&self) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.addresses.start)
    }

    fn lock(&self) -> Result<(), Errno> {
        // SAFETY: locking changes no content, and fails where nothing is mapped any more.
        unsafe { rustix::mm::mlock(self.start(), self.addresses.len()) }
    }

    fn unlock(&self) {
        // Fails only where nothing is mapped any more.
        // SAFETY: unlocking changes no content.
        let _ = unsafe { rustix::mm::munlock(self.start(), self.addresses.len()) };
    }

    /// Variables get frames of their own.
    fn bring_in(&self) -> Result<(), Errno> {
        let advice = if self.writable {
            Advice::LinuxPopulateWrite
        } else {
            Advice::LinuxPopulateRead
        };
        // SAFETY: bringing pages in changes no content, and fails where nothing is mapped any more.
        let outcome =
            rustix::io::retry_on_intr(|| unsafe { rustix::mm::madvise(self.start(), self.addresses.len(), advice) });
        match outcome {
            // A kernel without that (before 5.14), a library that was unloaded just now.
            Err(Errno::INVAL | Errno::NOMEM) => Ok(()),
            outcome => outcome,
        }
    }
}

/// A line of the mappings that says which memory it is.
struct Line<'a> {
    addresses: Range<usize>,
    rights: &'a str,
    name: &'a str,
}

impl<'a> Line<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (range, rest) = text.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |digits| usize::from_str_radix(digits, 16).ok();
        let mut words = rest.splitn(5, ' ');
        let rights = words.next()?;
        Some(Self {
            addresses: address(start)?..address(end)?,
            rights,
            name: words.nth(3).unwrap_or_default().trim_start(),
        })
    }

    fn is_file(&self) -> bool {
        self.name.starts_with('/')
    }

    fn is_code(&self) -> bool {
        self.is_file() && self.rights.contains('x')
    }
}

/// The program's mappings among all. Variables that the program's file has no bytes for follow those that it has.
fn pieces(maps: &str) -> Vec<Piece> {
    let lines: Vec<Line<'_>> = maps.lines().filter_map(Line::parse).collect();
    let code: Vec<&str> = lines
        .iter()
        .filter(|line| line.is_code())
        .map(|line| line.name)
        .collect();
    let (mut pieces, mut behind) = (Vec::new(), None);
    for line in &lines {
        let own = line.is_file() && code.contains(&line.name) && line.rights.ends_with('p');
        let follows = line.name.is_empty() && behind == Some(line.addresses.start);
        let named = matches!(line.name, "[heap]" | "[stack]");
        if (own || follows || named) && line.rights.starts_with('r') {
            let writable = line.rights.contains('w');
            behind = (own && writable).then_some(line.addresses.end);
            pieces.push(Piece {
                addresses: line.addresses.clone(),
                writable,
            });
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::{Piece, pieces};

    const MAPS: &str = "\
1000-2000 r--p 00000000 fe:00 11    /usr/bin/program (deleted)
2000-5000 r-xp 00001000 fe:00 11    /usr/bin/program (deleted)
5000-6000 rw-p 00004000 fe:00 11    /usr/bin/program (deleted)
6000-8000 rw-p 00000000 00:00 0
8000-9000 rw-p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0     [heap]
b000-c000 ---p 00000000 fe:00 12    /usr/lib/library.so
c000-d000 r-xp 00000000 fe:00 12    /usr/lib/library.so
d000-e000 r--p 00000000 fe:00 13    /usr/share/data
e000-f000 rw-s 00000000 00:01 14    /memfd:object (deleted)
f000-f800 rw-p 00000000 00:00 0     [stack]
f800-fc00 r-xp 00000000 00:00 0     [vdso]
";

    #[test]
    fn a_programs_pieces_are_its_code_its_variables_its_libraries_and_nothing_else() {
        let piece = |start, end, writable| Piece {
            addresses: start..end,
            writable,
        };
        let expected = [
            piece(0x1000, 0x2000, false),
            piece(0x2000, 0x5000, false),
            piece(0x5000, 0x6000, true),
            piece(0x6000, 0x8000, true),
            piece(0x9000, 0xa000, true),
            piece(0xc000, 0xd000, false),
            piece(0xf000, 0xf800, true),
        ];
        assert_eq!(pieces(MAPS), expected);
    }
}
