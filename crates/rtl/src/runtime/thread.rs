//! The structure of a thread, and the table of all of them. Programs hold pointers into the table, which stays where it
//! is: a pointer to a thread that has ended is still one that can be looked at.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use freehold_linux::futex;

use super::held::Held;
use crate::status::THREADS;

/// What `thread->magic` is while a thread can be used.
pub(crate) const MAGIC: i32 = 0x5254_4c54;

/// A thread of a module. The first field is what programs see.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) magic: AtomicI32,
    /// Where `hrt2ts` puts a time.
    pub(crate) time: Scratch,
    pub(crate) life: Life,
    pub(crate) wake: Wake,
    pub(crate) signals: Signals,
    pub(crate) release: Release,
    pub(crate) schedule: Schedule,
    pub(crate) held: Held,
}

/// A time that only the thread itself writes and reads.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) UnsafeCell<libc::timespec>);

// SAFETY: only the thread that the structure belongs to uses it.
unsafe impl Sync for Scratch {}

/// From creation to the end.
#[derive(Debug)]
pub(crate) struct Life {
    /// [`FREE`], [`LIVE`] or [`ENDED`]; a futex for joiners.
    pub(crate) state: AtomicU32,
    /// The kernel's identifier; 0 before the thread runs and after it.
    pub(crate) kernel: AtomicU32,
    /// The C library's identifier.
    pub(crate) library: AtomicU64,
    pub(crate) start: AtomicPtr<libc::c_void>,
    pub(crate) argument: AtomicPtr<libc::c_void>,
    pub(crate) result: AtomicPtr<libc::c_void>,
    pub(crate) detached: AtomicBool,
    /// 0 until the thread has its priority, then 1; 2 when it cannot have it. A futex.
    pub(crate) gate: AtomicU32,
    pub(crate) module: AtomicUsize,
    /// The innermost `pthread_cleanup_push`.
    pub(crate) cleanup: AtomicPtr<libc::c_void>,
    /// The innermost wait, see [`super::waiting`].
    pub(crate) waiting: AtomicPtr<libc::c_void>,
}

/// Nobody uses the structure.
pub(crate) const FREE: u32 = 0;
/// The thread runs, or will.
pub(crate) const LIVE: u32 = 1;
/// The thread has ended and is not yet joined.
pub(crate) const ENDED: u32 = 2;

/// What a sleeping thread looks at.
#[derive(Debug)]
pub(crate) struct Wake {
    /// Changes with everything that may end a sleep; a futex.
    pub(crate) events: AtomicU32,
    /// A wake-up that nobody has used.
    pub(crate) token: AtomicBool,
    pub(crate) suspended: AtomicBool,
    /// The thread sleeps for being suspended.
    pub(crate) parked: AtomicBool,
    /// The thread is to be suspended when it next asks for scheduling.
    pub(crate) marked: AtomicBool,
    /// Calls of the runtime that the thread is in.
    pub(crate) depth: AtomicU32,
}

/// Signals of RTLinux's own, and requests to end.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(crate) pending: AtomicU32,
    pub(crate) blocked: AtomicU32,
    /// Handlers that have run.
    pub(crate) handled: AtomicU32,
    /// To end as soon as possible.
    pub(crate) delete: AtomicBool,
    /// To end at the next cancellation point.
    pub(crate) cancel: AtomicBool,
    pub(crate) cancel_disabled: AtomicBool,
    pub(crate) cancel_at_once: AtomicBool,
    /// The thread is where it may be cancelled, also in a handler.
    pub(crate) at_cancellation_point: AtomicBool,
}

/// When a thread is released.
#[derive(Debug)]
pub(crate) struct Release {
    /// 0 when not periodic.
    pub(crate) period: AtomicU64,
    /// The next release; `u64::MAX` when there is none.
    pub(crate) next: AtomicU64,
    /// Releases so far.
    pub(crate) periods: AtomicU64,
    pub(crate) missed: AtomicU64,
}

/// Where and how urgently.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) priority: AtomicI64,
    pub(crate) cpu: AtomicU32,
}

impl Thread {
    const fn new() -> Self {
        Self {
            magic: AtomicI32::new(0),
            time: Scratch(UnsafeCell::new(libc::timespec { tv_sec: 0, tv_nsec: 0 })),
            life: Life {
                state: AtomicU32::new(FREE),
                kernel: AtomicU32::new(0),
                library: AtomicU64::new(0),
                start: AtomicPtr::new(std::ptr::null_mut()),
                argument: AtomicPtr::new(std::ptr::null_mut()),
                result: AtomicPtr::new(std::ptr::null_mut()),
                detached: AtomicBool::new(false),
                gate: AtomicU32::new(0),
                module: AtomicUsize::new(0),
                cleanup: AtomicPtr::new(std::ptr::null_mut()),
                waiting: AtomicPtr::new(std::ptr::null_mut()),
            },
            wake: Wake {
                events: AtomicU32::new(0),
                token: AtomicBool::new(false),
                suspended: AtomicBool::new(false),
                parked: AtomicBool::new(false),
                marked: AtomicBool::new(false),
                depth: AtomicU32::new(0),
            },
            signals: Signals {
                pending: AtomicU32::new(0),
                blocked: AtomicU32::new(0),
                handled: AtomicU32::new(0),
                delete: AtomicBool::new(false),
                cancel: AtomicBool::new(false),
                cancel_disabled: AtomicBool::new(false),
                cancel_at_once: AtomicBool::new(false),
                at_cancellation_point: AtomicBool::new(false),
            },
            release: Release {
                period: AtomicU64::new(0),
                next: AtomicU64::new(u64::MAX),
                periods: AtomicU64::new(0),
                missed: AtomicU64::new(0),
            },
            schedule: Schedule {
                priority: AtomicI64::new(0),
                cpu: AtomicU32::new(0),
            },
            held: Held::new(),
        }
    }

    const fn of_linux() -> Self {
        let mut thread = Self::new();
        thread.magic = AtomicI32::new(MAGIC);
        thread
    }

    /// Linux, which is one thread to programs: `init_module`, `cleanup_module` and handlers of the time-sharing side.
    /// Nothing but its priority and its blocked signals is used, and none of the table.
    pub(crate) fn linux() -> &'static Self {
        &LINUX
    }

    /// Whether a program's pointer names Linux.
    pub(crate) fn is_linux(pointer: *const Self) -> bool {
        std::ptr::eq(pointer, &raw const LINUX)
    }

    /// Takes a free structure, as new.
    pub(crate) fn claim() -> Option<&'static Self> {
        let free = |thread: &&Self| {
            let state = &thread.life.state;
            state
                .compare_exchange(FREE, LIVE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let thread = TABLE.iter().find(free)?;
        thread.reset();
        Some(thread)
    }

    fn reset(&self) {
        for pointer in [
            &self.life.start,
            &self.life.argument,
            &self.life.result,
            &self.life.cleanup,
            &self.life.waiting,
        ] {
            pointer.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        self.life.kernel.store(0, Ordering::Relaxed);
        self.life.library.store(0, Ordering::Relaxed);
        let Signals {
            pending,
            blocked,
            handled,
            delete,
            cancel,
            cancel_disabled,
            cancel_at_once,
            at_cancellation_point,
        } = &self.signals;
        for word in [pending, blocked, handled, &self.wake.depth, &self.life.gate] {
            word.store(0, Ordering::Relaxed);
        }
        let Wake {
            token,
            suspended,
            parked,
            marked,
            ..
        } = &self.wake;
        for flag in [
            delete,
            cancel,
            cancel_disabled,
            cancel_at_once,
            at_cancellation_point,
            token,
            suspended,
            parked,
            marked,
        ] {
            flag.store(false, Ordering::Relaxed);
        }
        for count in [&self.release.period, &self.release.periods, &self.release.missed] {
            count.store(0, Ordering::Relaxed);
        }
        self.release.next.store(u64::MAX, Ordering::Relaxed);
        self.held.reset();
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// The thread that a program's pointer names, if there is one.
    pub(crate) fn named(pointer: *const Self) -> Option<&'static Self> {
        let index = Self::index_of(pointer)?;
        let thread = TABLE.get(index)?;
        (thread.magic.load(Ordering::Acquire) == MAGIC).then_some(thread)
    }

    fn index_of(pointer: *const Self) -> Option<usize> {
        let offset = pointer.addr().checked_sub(TABLE.as_ptr().addr())?;
        offset
            .is_multiple_of(size_of::<Self>())
            .then(|| offset / size_of::<Self>())
    }

    /// Its place in the table, and in its module's page of status.
    pub(crate) fn index(&self) -> usize {
        Self::index_of(self).unwrap_or(0)
    }

    /// What the program holds.
    pub(crate) fn pointer(&self) -> *mut Self {
        std::ptr::from_ref(self).cast_mut()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.life.state.load(Ordering::Acquire) == LIVE
    }

    /// Has a sleeping thread look again.
    pub(crate) fn rouse(&self) {
        self.wake.events.fetch_add(1, Ordering::Release);
        futex::wake(&self.wake.events, u32::MAX);
    }

    /// Every thread of a module that is not joined.
    pub(crate) fn of_module(module: usize) -> impl Iterator<Item = &'static Self> {
        TABLE.iter().filter(move |thread| {
            thread.life.state.load(Ordering::Acquire) != FREE && thread.life.module.load(Ordering::Relaxed) == module
        })
    }
}

static LINUX: Thread = Thread::of_linux();

static TABLE: [Thread; THREADS] = [const { Thread::new() }; THREADS];

thread_local! {
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
}

/// The calling thread, if it is a module's. Async-signal-safe once the thread has called [`set_current`].
#[inline]
pub(crate) fn current() -> Option<&'static Thread> {
    CURRENT.get()
}

/// Says which thread the calling one is.
pub(crate) fn set_current(thread: &'static Thread) {
    CURRENT.set(Some(thread));
}
