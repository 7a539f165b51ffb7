//! Instructions that do nothing: in each line one that returns. To run them all replaces what a cache of instructions
//! held.

use super::{LINE, Mapping, whole_pages};
use crate::Errno;
use rustix::mm::{MprotectFlags, ProtFlags};

/// The instruction that returns.
const RETURN: [u8; 1] = [0xc3];

/// Memory for replacing a cache of instructions.
#[derive(Debug)]
pub struct Returns {
    mapping: Mapping,
    lines: usize,
}

impl Returns {
    /// At least `bytes` of lines.
    ///
    /// # Errors
    /// No memory, or no right to make instructions.
    pub fn new(bytes: usize) -> Result<Self, Errno> {
        let length = whole_pages(bytes.max(1))?;
        let mapping = Mapping::new(length, ProtFlags::READ | ProtFlags::WRITE)?;
        let lines = length / LINE;
        let start = mapping.base.as_ptr();
        for line in 0..lines {
            let place = start.cast::<[u8; RETURN.len()]>().wrapping_byte_add(line * LINE);
            // SAFETY: inside the mapping, of which nobody has a reference.
            unsafe { place.write(RETURN) };
        }
        // SAFETY: the whole mapping. From here on it is only run.
        unsafe { rustix::mm::mprotect(start, length, MprotectFlags::READ | MprotectFlags::EXEC) }?;
        Ok(Self { mapping, lines })
    }

    /// Runs each line; how many there are.
    pub fn run(&self) -> usize {
        for line in 0..self.lines {
            let place = self.mapping.base.as_ptr().wrapping_byte_add(line * LINE);
            // SAFETY: each line begins with an instruction that returns, which is a function that does nothing.
            let function: extern "C" fn() = unsafe { std::mem::transmute(place) };
            function();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE, Returns};

    #[test]
    fn every_line_runs_and_returns_and_none_can_be_written() {
        let returns = Returns::new(64 << 10).unwrap();
        assert_eq!(returns.run(), (64 << 10) / LINE);
        let own = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{:x}-", returns.mapping.base.as_ptr().addr());
        let line = own.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains(" r-xp "), "{line}");
        assert!(Returns::new(usize::MAX).is_err());
    }
}
