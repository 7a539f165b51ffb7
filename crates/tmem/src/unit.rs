//! One unit: a buffer or a stack. Its word says who has it.
//!
//! | word | unit |
//! |---|---|
//! | 0 | free |
//! | a thread, perhaps with the bit for waiters | in use by that thread, which runs with its waiters' priority |
//! | withdrawn | not in memory: the manager has taken it, and nobody can wait for it |

use crate::pi_word::{Owner, PiWord, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The bits of a sequence number that an identifier has.
pub(crate) const SEQUENCE: u32 = (1 << 24) - 1;
/// It was in use since the last run of the policy.
const USED: u32 = 1;
/// Its user gives it to the manager.
const RELINQUISH: u32 = 2;

/// What is known of a unit, apart from its buffer. Zeros are a free unit.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Unit {
    pub(crate) word: PiWord,
    /// Counts the times that it came out of use: an identifier of an earlier use is refused.
    sequence: AtomicU32,
    /// Bytes asked for.
    length: AtomicU32,
    marks: AtomicU32,
    /// When a waiter first saw this use of it, the end of time where it is kept; and the sequence number of that use
    /// plus one.
    seen_since: AtomicU64,
    seen: AtomicU32,
    /// The job that its user works for.
    job: AtomicU32,
}

/// One use of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    owner: Owner,
    sequence: u32,
}

impl Use {
    /// The next use of the unit has another number.
    pub(crate) fn number(self) -> u32 {
        self.sequence
    }
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The unit is free, or the manager's.
    Done,
    /// The kernel has to hand it over to who waits: unlock the word.
    HandOver,
}

impl Unit {
    /// Takes the unit if it is free.
    #[inline]
    pub(crate) fn take(&self, thread: u32) -> bool {
        // Looking first spares the exclusive access to units that are in use.
        self.word.state() == State::Free && self.word.take(thread).is_ok()
    }

    /// What is to be done where a wait for it was successful.
    pub(crate) fn arrived(&self) {
        if let State::Owned(owner) = self.word.state()
            && owner.dead_before
        {
            self.out_of_use();
        }
    }

    /// Who uses it, if anybody does.
    pub(crate) fn current_use(&self) -> Option<Use> {
        // The number first: if it is the same later, then the owner has been the same since.
        let sequence = self.sequence.load(Ordering::Acquire);
        match self.word.state() {
            State::Owned(owner) => Some(Use { owner, sequence }),
            State::Free | State::Withdrawn => None,
        }
    }

    /// Takes the unit from a thread that has ended with it, as the refusal of a wait tells. The refusal may also be of
    /// a unit that was withdrawn and is back, in use by the same thread: so the use has to be the same.
    pub(crate) fn take_from_dead(&self, seen: Use, thread: u32) -> bool {
        let same = || self.sequence.load(Ordering::Acquire) == seen.sequence;
        let taken = self.word.take_from_dead(seen.owner, thread, same);
        if taken {
            self.out_of_use();
        }
        taken
    }

    /// Its user notes what it is used for; returns the identifier's sequence number.
    #[inline]
    pub(crate) fn begin(&self, length: u32, job: u32) -> u32 {
        set(&self.length, length);
        set(&self.job, job);
        let marks = self.marks.load(Ordering::Relaxed);
        if marks & USED == 0 {
            self.marks.fetch_or(USED, Ordering::Relaxed);
        }
        self.sequence.load(Ordering::Relaxed) & SEQUENCE
    }

    /// The job that its user works for, if it is that thread's.
    pub(crate) fn job_of(&self, thread: u32) -> Option<u32> {
        self.word.is_owned_by(thread).then(|| self.job.load(Ordering::Relaxed))
    }

    /// Releases the unit; `None` where `thread` does not have it.
    #[inline]
    pub(crate) fn release(&self, thread: u32) -> Option<Release> {
        if !self.word.is_owned_by(thread) {
            return None;
        }
        self.out_of_use();
        let relinquished = self.marks.load(Ordering::Relaxed) & RELINQUISH != 0;
        let done = if relinquished {
            self.word.release_withdrawn(thread)
        } else {
            self.word.release(thread)
        };
        Some(if done { Release::Done } else { Release::HandOver })
    }

    /// Takes a free unit out of the cache: for the manager, which may then take its memory.
    pub(crate) fn withdraw(&self) -> bool {
        let withdrawn = self.word.withdraw();
        if withdrawn {
            self.out_of_use();
        }
        withdrawn
    }

    /// Gives a unit that is to be the manager's to it, if it is free.
    pub(crate) fn withdraw_if_relinquished(&self) {
        if self.marks.load(Ordering::Relaxed) & RELINQUISH != 0 {
            let _ = self.withdraw();
        }
    }

    /// Has its user give it to the manager when it comes out of use and nobody waits for it, or no longer so.
    pub(crate) fn relinquish(&self, wanted: bool) {
        if wanted {
            self.marks.fetch_or(RELINQUISH, Ordering::Relaxed);
        } else {
            self.marks.fetch_and(!RELINQUISH, Ordering::Relaxed);
        }
    }

    /// Puts a unit back into the cache, whose memory is there again.
    pub(crate) fn restore(&self) -> bool {
        self.marks.store(0, Ordering::Relaxed);
        self.word.restore()
    }

    /// Makes it free where a thread of an ended process held it: names of that use are refused.
    pub(crate) fn reset(&self) {
        if matches!(self.word.state(), State::Owned(_)) {
            self.out_of_use();
        }
        if self.word.state() != State::Withdrawn {
            self.word.reset();
        }
    }

    /// Whether an identifier of it is of the present use, and of at least so many bytes.
    pub(crate) fn is_current(&self, sequence: u32, length: u32) -> bool {
        // Acquire: what its user wrote before it passed the identifier on is visible.
        self.sequence.load(Ordering::Acquire) & SEQUENCE == sequence && length <= self.length.load(Ordering::Relaxed)
    }

    /// Since when waiters have seen it in this use; notes `now` at the first time. The later, the later is it waited
    /// for.
    pub(crate) fn seen_since(&self, now: u64) -> u64 {
        let mark = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        if self.seen.swap(mark, Ordering::Relaxed) == mark {
            return self.seen_since.load(Ordering::Relaxed);
        }
        self.seen_since.store(now, Ordering::Relaxed);
        now
    }

    /// A waiter has waited long for this use to end: from now on others are waited for before it.
    pub(crate) fn mark_kept(&self, seen: Use) {
        let mark = seen.sequence.wrapping_add(1);
        // A mark of a use that has just ended is a wait for another unit, no more.
        if self.sequence.load(Ordering::Relaxed) == seen.sequence && self.seen.load(Ordering::Relaxed) == mark {
            self.seen_since.store(u64::MAX, Ordering::Relaxed);
        }
    }

    /// Whether it was in use since the last call.
    pub(crate) fn take_used(&self) -> bool {
        let in_use = matches!(self.word.state(), State::Owned(_));
        let marked = self.marks.fetch_and(!USED, Ordering::Relaxed) & USED != 0;
        in_use || marked
    }

    #[inline]
    fn out_of_use(&self) {
        set(&self.length, 0);
        let next = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        self.sequence.store(next, Ordering::Release);
    }
}

/// Stores where there is something else: an atomic operation waits for all stores before it.
#[inline]
fn set(word: &AtomicU32, value: u32) {
    if word.load(Ordering::Relaxed) != value {
        word.store(value, Ordering::Relaxed);
    }
}
