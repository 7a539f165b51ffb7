//! Kernel thread identifiers, cached per thread.

use crate::Errno;
use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// Constant-initialised and without a destructor: reading it runs no registration code. 0 is "not asked yet".
    static CACHED: Cell<u32> = const { Cell::new(0) };
}

/// A kernel thread identifier (what `gettid` returns).
///
/// Identifiers are reused after a thread ends: keep one only while the thread is known to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(NonZeroU32);

impl ThreadId {
    /// The calling thread. One system call at the first use in a thread, then a thread-local read.
    ///
    /// Async-signal-safe when linked into the executable. In a library loaded with `dlopen` the first access to its
    /// thread-local data may allocate: there, call this once in every thread before it can fault.
    ///
    /// In the child of a fork the cached value is the parent's, unless [`ThreadId::follow_forks`] was called.
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        match NonZeroU32::new(CACHED.get()) {
            Some(id) => Self(id),
            None => Self::refresh(),
        }
    }

    /// Asks the kernel anew and renews the cached value. Async-signal-safe as [`ThreadId::current`] is.
    pub fn refresh() -> Self {
        let id = rustix::thread::gettid().as_raw_nonzero().unsigned_abs();
        CACHED.set(id.get());
        Self(id)
    }

    /// From now on the child of a `fork` of the C library asks the kernel anew (`pthread_atfork(3)`); so does the
    /// calling thread, once. For processes whose children write their identifiers where others read them.
    ///
    /// # Errors
    /// [`Errno::NOMEM`].
    pub fn follow_forks() -> Result<(), Errno> {
        static FOLLOWED: AtomicBool = AtomicBool::new(false);
        if !FOLLOWED.swap(true, Ordering::Relaxed) {
            // SAFETY: the handler writes a word of the calling thread's own.
            let error = unsafe { libc::pthread_atfork(None, None, Some(forget)) };
            if error != 0 {
                FOLLOWED.store(false, Ordering::Relaxed);
                return Err(Errno::from_raw_os_error(error));
            }
        }
        Self::refresh();
        Ok(())
    }

    /// The identifier `raw`; `None` if it is not positive.
    #[must_use]
    pub fn from_raw(raw: i32) -> Option<Self> {
        u32::try_from(raw).ok().and_then(NonZeroU32::new).map(Self)
    }

    /// The identifier as the kernel counts it.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The identifier as `pid_t`.
    pub(crate) const fn as_pid(self) -> libc::pid_t {
        self.0.get().cast_signed()
    }
}

/// In the child of a fork, whose only thread is the calling one.
extern "C" fn forget() {
    CACHED.set(0);
}
