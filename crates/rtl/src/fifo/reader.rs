//! A process that reads many messages: it takes what is there at once, and hands it out from memory of its own.
//!
//! Each look at a FIFO takes the cache lines of its indices from the real-time thread, which waits for them in its next
//! put. So this reader looks seldom: it takes up to `CHUNK` bytes in one step, and waits a moment before a look where
//! the last ones have found little.

use std::hint;
use std::ops::Range;

use super::peer::ProcessSide;

/// Bytes that are taken at once.
const CHUNK: usize = 4096;
/// The longest wait before a look, in pauses of the processor: some microseconds.
const LONGEST: u32 = 512;

/// Reads a FIFO in large pieces. What it has taken and not yet handed out is lost with it.
#[derive(Debug)]
pub struct Reader {
    side: ProcessSide,
    taken: Box<[u8; CHUNK]>,
    /// What of `taken` is not handed out.
    rest: Range<usize>,
    /// The wait before the next look.
    pauses: u32,
}

impl Reader {
    /// A reader of what `side` can read.
    #[must_use]
    pub fn new(side: ProcessSide) -> Self {
        Self {
            side,
            taken: Box::new([0; CHUNK]),
            rest: 0..0,
            pauses: 1,
        }
    }

    /// The FIFO. It no longer has what this reader has taken.
    #[must_use]
    pub fn side(&self) -> &ProcessSide {
        &self.side
    }

    /// Hands out what is there, at most as much as fits; 0 where nothing is there. A message that the real-time side
    /// has put comes whole where it fits.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < to.len() {
            if self.rest.is_empty() && !self.look() {
                break;
            }
            let count = self.rest.len().min(to.len() - filled);
            let from = self.rest.start;
            to[filled..filled + count].copy_from_slice(&self.taken[from..from + count]);
            self.rest.start += count;
            filled += count;
        }
        filled
    }

    /// Takes what is there; whether that is anything.
    #[cold]
    fn look(&mut self) -> bool {
        (0..self.pauses).for_each(|_| hint::spin_loop());
        let count = self.side.read(&mut self.taken[..]);
        self.pauses = next_wait(self.pauses, count);
        self.rest = 0..count;
        count > 0
    }
}

/// How long to wait before the next look, when this one has found `count` bytes.
fn next_wait(pauses: u32, count: usize) -> u32 {
    if count < CHUNK / 8 {
        (pauses * 2).min(LONGEST)
    } else if count > CHUNK / 2 {
        (pauses / 2).max(1)
    } else {
        pauses
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, LONGEST, Reader, next_wait};
    use crate::area::Area;
    use crate::fifo::owner::Owner;
    use crate::fifo::peer::ProcessSide;

    fn pair(size: usize) -> (Owner, Reader) {
        let owner = Owner::create(3, size).unwrap();
        let path = format!("/proc/self/fd/{}", owner.area().descriptor());
        let side = ProcessSide::of(Area::open(path.as_ref()).unwrap()).unwrap();
        (owner, Reader::new(side))
    }

    #[test]
    fn messages_come_whole_and_in_order_though_they_are_taken_in_pieces() {
        let (mut owner, mut reader) = pair(10_000);
        let sender = std::thread::spawn(move || {
            for number in 0_u64..20_000 {
                let message = [number, !number, number.rotate_left(7)].map(u64::to_ne_bytes);
                while owner.put(message.as_flattened()).is_err() {
                    std::thread::yield_now();
                }
            }
            owner.corrupt_claims()
        });
        for number in 0_u64..20_000 {
            let mut message = [[0; 8]; 3];
            while reader.read(message.as_flattened_mut()) == 0 {
                std::thread::yield_now();
            }
            let numbers = message.map(u64::from_ne_bytes);
            assert_eq!(numbers, [number, !number, number.rotate_left(7)]);
        }
        assert_eq!(sender.join().unwrap(), 0);
        assert_eq!(reader.read(&mut [0; 24]), 0);
    }

    #[test]
    fn one_look_empties_the_fifo_for_many_reads() {
        let (mut owner, mut reader) = pair(CHUNK);
        for byte in 0..64 {
            owner.put(&[byte; 64]).unwrap();
        }
        let mut message = [0; 64];
        assert_eq!(reader.read(&mut message), 64);
        assert_eq!(reader.side().used(), 0, "all was taken at once");
        owner.put(&[64; 64]).unwrap();
        for byte in 1..=64 {
            assert_eq!(reader.read(&mut message), 64);
            assert_eq!(message, [byte; 64]);
        }
        assert_eq!(reader.read(&mut message), 0);
    }

    #[test]
    fn looks_that_find_little_become_rare_and_no_rarer() {
        let mut pauses = 1;
        for _ in 0..20 {
            pauses = next_wait(pauses, 0);
        }
        assert_eq!(pauses, LONGEST);
        assert_eq!(next_wait(pauses, CHUNK / 4), LONGEST);
        for _ in 0..20 {
            pauses = next_wait(pauses, CHUNK);
        }
        assert_eq!(pauses, 1);
    }
}
