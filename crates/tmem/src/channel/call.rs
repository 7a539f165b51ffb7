//! The caller's side.

use super::protocol::{self, CallError, Request};
use super::system::System;
use super::{ARGUMENTS, Channel};
use crate::job;
use freehold_linux::ThreadId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The caller's side of a channel, for threads of one process.
#[derive(Debug)]
pub struct Caller {
    channel: Channel,
    bound: Duration,
    /// The context that the next one waits for where all are in use.
    next: AtomicUsize,
}

impl Caller {
    /// A caller whose calls end after `bound` at the latest.
    #[must_use]
    pub fn new(channel: Channel, bound: Duration) -> Self {
        Self {
            channel,
            bound,
            next: AtomicUsize::new(0),
        }
    }

    /// Calls a function, and waits for its result, which runs with this thread's priority or deadline. Real-time safe:
    /// two system calls, and a bounded wait.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call(&self, function: u32, arguments: [u64; ARGUMENTS]) -> Result<i64, CallError> {
        let (contexts, thread) = (self.channel.all(), ThreadId::current().get());
        let request = Request { function, arguments };
        let place = || self.next.fetch_add(1, Ordering::Relaxed) % contexts.len();
        let kernel = System::until_after(self.bound);
        protocol::call(contexts, place, thread, (request, job::current()), &kernel)
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
