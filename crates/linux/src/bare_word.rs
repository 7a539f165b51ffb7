//! A round trip between two processes by bare futexes, to measure what a call adds to it.

use crate::futex;
use crate::memory::{Access, MapError, Memfd, MemfdError, SharedMapping};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Words cannot be made or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BareWordsError {
    /// No memory object.
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    /// No mapping.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Two words in memory that two processes share.
#[derive(Debug)]
pub struct BareWords {
    memory: Memfd,
    mapping: SharedMapping,
}

#[repr(C)]
struct Words {
    asked: AtomicU32,
    answered: AtomicU32,
}

impl BareWords {
    /// Makes the memory.
    ///
    /// # Errors
    /// See [`BareWordsError`].
    pub fn create() -> Result<Self, BareWordsError> {
        Self::map(Memfd::create_sealed(c"freehold-bare-words", 1, false)?)
    }

    /// Opens it in the other process.
    ///
    /// # Errors
    /// See [`BareWordsError`].
    pub fn open(memory: OwnedFd) -> Result<Self, BareWordsError> {
        Self::map(Memfd::adopt(memory, 1)?)
    }

    fn map(memory: Memfd) -> Result<Self, BareWordsError> {
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite)?;
        Ok(Self { memory, mapping })
    }

    /// Wakes the other side, and waits until it has answered.
    pub fn ask(&self) {
        let words = self.words();
        let round = words.asked.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        futex::wake_shared(&words.asked, 1);
        loop {
            let answered = words.answered.load(Ordering::Acquire);
            if answered == round {
                break;
            }
            // Its end has no other cause than an answer or a signal.
            let _ = futex::wait_shared(&words.answered, answered, None);
        }
    }

    /// Answers for as long as the process lives.
    pub fn answer(&self) -> ! {
        let words = self.words();
        loop {
            let (asked, answered) = (
                words.asked.load(Ordering::Acquire),
                words.answered.load(Ordering::Relaxed),
            );
            if asked == answered {
                let _ = futex::wait_shared(&words.asked, asked, None);
            } else {
                words.answered.store(asked, Ordering::Release);
                futex::wake_shared(&words.answered, 1);
            }
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: the first bytes of a mapped page, which lives as long as `self`; they are atomics.
        unsafe { &*self.mapping.base().cast::<Words>() }
    }
}

impl AsFd for BareWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::BareWords;
    use rustix::fd::AsFd;

    #[test]
    fn each_question_has_its_answer() {
        let words = BareWords::create().unwrap();
        let other = BareWords::open(words.as_fd().try_clone_to_owned().unwrap()).unwrap();
        std::thread::spawn(move || other.answer());
        for _ in 0..1000 {
            words.ask();
        }
        assert_eq!(words.words().answered.load(std::sync::atomic::Ordering::Relaxed), 1000);
    }
}
