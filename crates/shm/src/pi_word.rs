//! The word of a lock with priority inheritance, as the kernel's PI futexes read it: the owner's thread identifier, and
//! a bit that somebody waits. Without waiters a lock or a release is one compare-and-swap here; with them it is a
//! system call, `FUTEX_LOCK_PI2` or `FUTEX_UNLOCK_PI` on [`PiWord::raw`], in which the waiters lend the owner their
//! priority or deadline, across processes too.
//!
//! An owner that dies is noticed by the kernel at once where somebody waits: the waiter owns the lock, and the word
//! has [`Owner::dead_before`]. Where nobody waits, a later attempt to wait is refused with `ESRCH`, and
//! [`PiWord::take_from_dead`] takes the lock.
//!
//! A word that two sides share is a claim as everything else: a side that writes a thread's identifier into it has the
//! other wait for that thread. So each word is shared with one peer, and waits have a limit.

use crate::sync::{AtomicU32, Ordering};

/// The bit that somebody waits.
pub const WAITERS: u32 = 1 << 31;
/// The bit that an owner died.
pub const OWNER_DIED: u32 = 1 << 30;
const THREAD: u32 = OWNER_DIED - 1;
/// No thread's identifier: nobody can own the lock at present, and to wait for it is refused with `ESRCH` at once.
const WITHDRAWN: u32 = THREAD;

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its thread identifier, in the namespace of the process that locked.
    pub thread: u32,
    /// Somebody waits; may stay set for a while though nobody does any more.
    pub waiters: bool,
    /// The owner before it died with the lock.
    pub dead_before: bool,
}

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody owns the lock.
    Free,
    /// A thread owns it.
    Owned(Owner),
    /// See [`PiWord::withdraw`].
    Withdrawn,
}

/// The word. Zero is a free lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct PiWord(AtomicU32);

impl PiWord {
    /// The word itself, for the system calls.
    #[must_use]
    pub const fn raw(&self) -> &AtomicU32 {
        &self.0
    }

    /// What it says now.
    #[must_use]
    #[inline]
    pub fn state(&self) -> State {
        decode(self.0.load(Ordering::Acquire))
    }

    /// Takes the lock if it is free. `thread` is the caller's identifier, from 1 to 2³⁰ − 2.
    ///
    /// # Errors
    /// What the word says instead.
    #[inline]
    pub fn take(&self, thread: u32) -> Result<(), State> {
        match self.0.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // The kernel leaves the bit behind where a wait was refused or given up.
            Err(WAITERS) => self.swap(WAITERS, thread),
            Err(word) => Err(decode(word)),
        }
    }

    /// Releases the lock if `thread` owns it and nobody waits; `false` where it takes a system call, or where it is
    /// not the caller's ([`PiWord::state`] tells).
    #[must_use]
    #[inline]
    pub fn release(&self, thread: u32) -> bool {
        // Where somebody waits, to look is cheaper than to try.
        self.0.load(Ordering::Relaxed) == thread
            && self
                .0
                .compare_exchange(thread, 0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
    }

    /// As [`PiWord::release`], but nobody can take it then until [`PiWord::restore`].
    #[must_use]
    #[inline]
    pub fn release_withdrawn(&self, thread: u32) -> bool {
        let released = self
            .0
            .compare_exchange(thread, WITHDRAWN, Ordering::Release, Ordering::Relaxed);
        released.is_ok()
    }

    /// Whether `thread` owns the lock.
    #[must_use]
    #[inline]
    pub fn is_owned_by(&self, thread: u32) -> bool {
        self.0.load(Ordering::Relaxed) & THREAD == thread
    }

    /// Takes the lock from an owner that has died, as the refusal `ESRCH` of a wait for just this `owner` tells;
    /// `false` where the word says something else by now. Who waits is left to the kernel: there is nobody, as waiters
    /// of a dead owner get the lock at once.
    ///
    /// Several may be told of one death, and a thread that lives may own the lock by the time that the last of them
    /// comes here, even the thread that was seen at first. `same_use` has to tell whether the lock is in the use that
    /// was seen before the wait. It is asked after the word was read, so that a use which began since is noticed.
    #[must_use]
    pub fn take_from_dead(&self, owner: Owner, thread: u32, same_use: impl FnOnce() -> bool) -> bool {
        let dead = owner.thread;
        if !is_thread(dead) {
            return false;
        }
        let word = self.0.load(Ordering::Acquire);
        word & THREAD == dead && same_use() && self.swap(word, thread | OWNER_DIED).is_ok()
    }

    /// Gives a lock that the caller owns, and for which nobody waits, to another thread; `false`, and nothing done,
    /// where the number is no thread's, as a claim of another side may be: the kernel would take 0 for a free lock.
    #[must_use]
    pub fn hand_to(&self, thread: u32) -> bool {
        let known = is_thread(thread);
        if known {
            // Who finds itself the owner sees what was written before.
            self.0.store(thread, Ordering::Release);
        }
        known
    }

    /// Takes a free lock away from everybody, until [`PiWord::restore`]; `false` where it is not free.
    #[must_use]
    pub fn withdraw(&self) -> bool {
        self.take(WITHDRAWN).is_ok()
    }

    /// Lets a withdrawn lock be taken again; `false` where it is not withdrawn.
    #[must_use]
    pub fn restore(&self) -> bool {
        loop {
            let word = self.0.load(Ordering::Relaxed);
            if word & THREAD != WITHDRAWN {
                return false;
            }
            // A waiter whose wait is being refused may set its bit meanwhile.
            if self
                .0
                .compare_exchange(word, 0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
        }
    }

    /// Makes the lock of a process that has ended free again, whatever the word says: nobody else may use it.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[inline]
    fn swap(&self, from: u32, to: u32) -> Result<(), State> {
        let swapped = self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        swapped.map(|_| ()).map_err(decode)
    }
}

/// Whether a number can be a thread's: neither 0, nor with a bit of the word's own, nor the mark of a withdrawn lock.
#[must_use]
pub const fn is_thread(number: u32) -> bool {
    number != 0 && number < WITHDRAWN
}

#[inline]
const fn decode(word: u32) -> State {
    match word & THREAD {
        0 => State::Free,
        WITHDRAWN => State::Withdrawn,
        thread => State::Owned(Owner {
            thread,
            waiters: word & WAITERS != 0,
            dead_before: word & OWNER_DIED != 0,
        }),
    }
}
