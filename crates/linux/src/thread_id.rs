//! Kernel thread identifiers, cached per thread.

use std::cell::Cell;
use std::num::NonZeroU32;

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
    /// In the child of a fork the cached value is the parent's: call [`ThreadId::refresh`] there first.
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
