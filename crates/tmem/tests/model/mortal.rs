//! The model's counterpart of the crate's module `sync` for threads that may die: before any access to a word that is
//! shared, a thread can be at its end.

use loom::sync::atomic;
use std::cell::Cell;

pub(crate) use loom::sync::atomic::Ordering;

loom::thread_local! {
    /// How many steps the thread has left; `None` is for ever.
    static LEFT: Cell<Option<u32>> = Cell::new(None);
}

/// What a thread that has died unwinds with.
pub(crate) struct Death;

/// Runs as a thread that dies after so many steps, if it does; whether it died.
pub(crate) fn mortal(steps: Option<u32>, work: impl FnOnce()) -> bool {
    LEFT.with(|left| left.set(steps));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    LEFT.with(|left| left.set(None));
    match ended {
        Ok(()) => false,
        Err(cause) if cause.is::<Death>() => true,
        Err(cause) => std::panic::resume_unwind(cause),
    }
}

/// What the kernel does for a thread is done even if that has no step left.
pub(crate) fn in_the_kernel<T>(work: impl FnOnce() -> T) -> T {
    let left = LEFT.with(|left| left.take());
    let result = work();
    LEFT.with(|cell| cell.set(left));
    result
}

/// One step of the calling thread, its last perhaps.
pub(crate) fn step() {
    let dies = LEFT.with(|left| match left.get() {
        Some(0) => true,
        Some(more) => {
            left.set(Some(more - 1));
            false
        }
        None => false,
    });
    if dies {
        LEFT.with(|left| left.set(None));
        std::panic::resume_unwind(Box::new(Death));
    }
}

macro_rules! atomic {
    ($name:ident, $number:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(atomic::$name);

        #[allow(dead_code, reason = "one of the two has no need of all")]
        impl $name {
            pub(crate) fn new(value: $number) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $number {
                step();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $number, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            pub(crate) fn swap(&self, value: $number, order: Ordering) -> $number {
                step();
                self.0.swap(value, order)
            }

            pub(crate) fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                step();
                self.0.fetch_add(value, order)
            }

            pub(crate) fn fetch_and(&self, value: $number, order: Ordering) -> $number {
                step();
                self.0.fetch_and(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                from: $number,
                to: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                step();
                self.0.compare_exchange(from, to, success, failure)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
