//! A mutex with priority inheritance, by raw system call.
//!
//! Usable in a signal handler: it never allocates, and an uncontended lock or unlock is one compare-and-swap. A thread
//! that waits lends its priority (or deadline) to the holder, so that a preempted holder stalls nobody for longer than
//! it needs. The kernel may allocate a small record when a thread first waits.
//!
//! It knows no poisoning: a panic while holding it unlocks it.

use crate::{Errno, ThreadId, sys};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Why a lock cannot be taken. No variant is a matter of waiting longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PiLockError {
    /// The caller's mistake: this thread holds the mutex already (in a handler: the fault is in code that holds it), or
    /// waiting would close a circle of mutexes.
    #[error("this thread already holds the mutex, or waiting would deadlock")]
    Deadlock,
    /// The thread that held the mutex has ended without unlocking; what it protects may be half changed.
    #[error("the thread that held the mutex has ended; what it protects cannot be trusted")]
    OwnerGone,
    /// The kernel could not make its record of the wait; a later attempt may succeed.
    #[error("the kernel has no memory to wait for the mutex")]
    NoMemory,
    /// The kernel has no PI futexes or refuses them.
    #[error("the kernel refused a PI futex: {0}")]
    System(Errno),
}

/// A mutex with priority inheritance between threads of this process.
///
/// ```
/// use freehold_linux::pi_mutex::PiMutex;
/// static COUNT: PiMutex<u32> = PiMutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
pub struct PiMutex<T: ?Sized> {
    /// 0 when free, else the holder's thread identifier, with FUTEX_WAITERS if somebody waits: the kernel's protocol.
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, the holder; sending the mutex sends the value.
unsafe impl<T: ?Sized + Send> Send for PiMutex<T> {}
// SAFETY: sharing the mutex lets any thread take the value in turn, which `T: Send` allows.
unsafe impl<T: ?Sized + Send> Sync for PiMutex<T> {}

/// Holds a [`PiMutex`] until dropped. Tied to its thread: the kernel lets only the holder unlock.
#[must_use = "the mutex is unlocked at once if the guard is not kept"]
pub struct PiGuard<'a, T: ?Sized> {
    mutex: &'a PiMutex<T>,
    holder: ThreadId,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only `&T`.
unsafe impl<T: ?Sized + Sync> Sync for PiGuard<'_, T> {}

impl<T> PiMutex<T> {
    /// A free mutex.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> PiMutex<T> {
    /// Locks, waiting as long as it takes. Ends the process, with a message, on any [`PiLockError`]: none of them can
    /// be survived by a caller that must have the lock.
    ///
    /// Async-signal-safe (see [`ThreadId::current`]).
    pub fn lock(&self) -> PiGuard<'_, T> {
        match self.lock_checked() {
            Ok(guard) => guard,
            Err(PiLockError::Deadlock) => die(b"freehold: PI mutex: deadlock with itself\n"),
            Err(PiLockError::OwnerGone) => die(b"freehold: PI mutex: its holder has ended\n"),
            Err(PiLockError::NoMemory) => die(b"freehold: PI mutex: no kernel memory to wait\n"),
            Err(PiLockError::System(_)) => die(b"freehold: PI mutex: refused by the kernel\n"),
        }
    }

    /// Locks, waiting as long as it takes, and reports what makes that impossible. Async-signal-safe.
    ///
    /// # Errors
    /// See [`PiLockError`].
    pub fn lock_checked(&self) -> Result<PiGuard<'_, T>, PiLockError> {
        let holder = ThreadId::current();
        if self
            .word
            .compare_exchange(0, holder.get(), Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.lock_contended()?;
        }
        Ok(PiGuard {
            mutex: self,
            holder,
            not_send: PhantomData,
        })
    }

    /// Locks if the mutex is free; never waits. Async-signal-safe.
    pub fn try_lock(&self) -> Option<PiGuard<'_, T>> {
        let holder = ThreadId::current();
        self.word
            .compare_exchange(0, holder.get(), Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(PiGuard {
            mutex: self,
            holder,
            not_send: PhantomData,
        })
    }

    /// Whether the calling thread holds the mutex: tells a handler that the fault is in code that holds it.
    pub fn is_held_by_caller(&self) -> bool {
        self.word.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK == ThreadId::current().get()
    }

    /// The value, without locking: the exclusive reference proves that nobody holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    fn lock_contended(&self) -> Result<(), PiLockError> {
        loop {
            match self.futex(libc::FUTEX_LOCK_PI) {
                Ok(()) => {
                    // The kernel wrote our identifier; this orders our reads after the last holder's unlock.
                    self.word.load(Ordering::Acquire);
                    return Ok(());
                }
                // A signal, or the holder is just exiting: ask again.
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::DEADLK) => return Err(PiLockError::Deadlock),
                Err(Errno::SRCH) => return Err(PiLockError::OwnerGone),
                Err(Errno::NOMEM) => return Err(PiLockError::NoMemory),
                Err(errno) => return Err(PiLockError::System(errno)),
            }
        }
    }

    #[cold]
    fn unlock_contended(&self) {
        loop {
            match self.futex(libc::FUTEX_UNLOCK_PI) {
                Ok(()) => return,
                Err(Errno::INTR | Errno::AGAIN) => {}
                // Only a word overwritten by stray writes gets here; to go on would let two threads in.
                Err(_) => die(b"freehold: PI mutex: its word was overwritten\n"),
            }
        }
    }

    fn futex(&self, operation: libc::c_int) -> Result<(), Errno> {
        // SAFETY: the word is live and aligned; the kernel changes it by the PI protocol, as this type expects. No
        // time limit is given (null), and the value argument is ignored.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                0_u32,
                std::ptr::null::<libc::timespec>(),
            )
        };
        sys::check(result).map(|_| ())
    }
}

impl<T: ?Sized> Drop for PiGuard<'_, T> {
    fn drop(&mut self) {
        let word = &self.mutex.word;
        if word
            .compare_exchange(self.holder.get(), 0, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            // A waiter set FUTEX_WAITERS. The kernel hands over with full barriers.
            self.mutex.unlock_contended();
        }
    }
}

impl<T: ?Sized> Deref for PiGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex, so nobody else reaches the value.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for PiGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this the only borrow.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> fmt::Debug for PiMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = self.word.load(Ordering::Relaxed) & libc::FUTEX_TID_MASK;
        f.debug_struct("PiMutex")
            .field("holder", &holder)
            .finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for PiGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Says why on standard error and aborts, without allocating.
pub(crate) fn die(message: &[u8]) -> ! {
    // SAFETY: the pointer and length are those of a live slice; write is async-signal-safe.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    // SAFETY: abort is async-signal-safe and does not return.
    unsafe { libc::abort() }
}
