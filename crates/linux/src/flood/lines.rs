//! Lines that are written one after the other. They lie on huge pages where the machine has some: then each set of a
//! cache gets the same number of them.

use super::{LINE, Mapping};
use crate::Errno;
use rustix::mm::{Advice, ProtFlags};

const HUGE: usize = 2 << 20;

/// Memory for dirtying a cache.
#[derive(Debug)]
pub struct Lines {
    mapping: Mapping,
    length: usize,
}

impl Lines {
    /// At least `bytes`, all of it there.
    ///
    /// # Errors
    /// No memory.
    pub fn new(bytes: usize) -> Result<Self, Errno> {
        let length = bytes.max(1).checked_next_multiple_of(HUGE).ok_or(Errno::NOMEM)?;
        let whole = length.checked_add(HUGE).ok_or(Errno::NOMEM)?;
        let mapping = Mapping::new(whole, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut lines = Self { mapping, length };
        let start = lines.mapping.aligned(HUGE).cast();
        // SAFETY: inside the mapping, whose content nobody has yet. Small pages serve too.
        let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxHugepage) };
        lines.write(1);
        Ok(lines)
    }

    /// Writes to each line.
    pub fn write(&mut self, value: u8) {
        let start = self.mapping.aligned(HUGE);
        for offset in (0..self.length).step_by(LINE) {
            // SAFETY: inside the mapping, which is that much longer than its length; nobody has a reference to it.
            unsafe { start.add(offset).write_volatile(value) };
        }
    }

    /// How many bytes are dirtied.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::{HUGE, LINE, Lines};

    #[test]
    fn every_line_is_written_and_no_byte_outside() {
        let mut lines = Lines::new(HUGE + 1).unwrap();
        assert_eq!(lines.length(), 2 * HUGE);
        lines.write(7);
        let start = lines.mapping.aligned(HUGE);
        assert_eq!(start.addr() % HUGE, 0);
        let written = (0..lines.length).filter(|offset| {
            // SAFETY: inside the mapping, which has been written.
            let byte = unsafe { start.add(*offset).read_volatile() };
            assert_eq!(byte != 0, offset % LINE == 0);
            byte == 7
        });
        assert_eq!(written.count(), 2 * HUGE / LINE);
        assert!(Lines::new(usize::MAX - 1).is_err());
    }
}
