//! Memory that a thread answers from, kept from one request to the next: new memory costs a fault for
//! each page of it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

thread_local! {
    static ANSWER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The bytes of an answer; they go back to their thread when this is dropped.
#[derive(Debug)]
pub(crate) struct Answer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Answer {
    /// So many bytes. What they hold is anybody's until it is written.
    pub(crate) fn new(length: usize) -> Self {
        let mut memory = ANSWER.take();
        if memory.len() < length {
            memory.resize(length, 0);
        }
        Self {
            memory,
            start: 0,
            end: length,
        }
    }

    /// Only these of the bytes.
    pub(crate) fn cut(mut self, bytes: Range<usize>) -> Self {
        self.end = self.end.min(self.start + bytes.end);
        self.start = self.end.min(self.start + bytes.start);
        self
    }
}

impl Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }
}

impl DerefMut for Answer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        ANSWER.set(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_it_was_cut_to() {
        let mut answer = Answer::new(100);
        (0..100)
            .zip(answer.iter_mut())
            .for_each(|(number, byte)| *byte = number);
        let cut = answer.cut(10..30);
        assert_eq!((cut[0], cut.len()), (10, 20));
        let cut = cut.cut(5..500);
        assert_eq!((cut[0], cut.len()), (15, 15));
        assert!(cut.cut(20..30).is_empty());
        assert_eq!(Answer::new(7).len(), 7);
    }
}
