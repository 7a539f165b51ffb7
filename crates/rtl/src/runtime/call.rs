//! Calls of the runtime. A thread can be suspended, signalled or deleted at any instruction of its own, but not while
//! it holds a lock of the runtime: then when the call ends.

use std::sync::atomic::Ordering;

use super::nudge;
use super::thread::{Thread, current};

/// The calling thread is in the runtime until this is dropped.
#[derive(Debug)]
pub(crate) struct Call(Option<&'static Thread>);

impl Call {
    /// Begins a call.
    #[inline]
    pub(crate) fn enter() -> Self {
        let thread = current();
        if let Some(thread) = thread {
            // Only this thread and its own signal handler use the word.
            let depth = thread.wake.depth.load(Ordering::Relaxed);
            thread.wake.depth.store(depth + 1, Ordering::Relaxed);
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        }
        Self(thread)
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        let Some(thread) = self.0 else { return };
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        let depth = thread.wake.depth.load(Ordering::Relaxed) - 1;
        thread.wake.depth.store(depth, Ordering::Relaxed);
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if depth == 0 && nudge::has_something(thread) {
            nudge::attend(thread);
        }
    }
}
