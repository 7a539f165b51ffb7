//! The caller's side.

use super::context::{Context, DONE, IDLE};
use super::{ARGUMENTS, Channel};
use crate::job;
use crate::pi_word::{State, is_thread};
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_word::{LockWordError, Scope, lock, unlock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Why a call has no result. The callee may have worked on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The callee did not end it until the bound, or every context stayed in use so long.
    #[error("the callee did not answer until the bound")]
    TimedOut,
    /// The callee has died, or never was.
    #[error("the callee has died")]
    CalleeDied,
    /// The caller waits for itself: it serves a call of the callee.
    #[error("the call would wait for itself")]
    Circle,
    /// The channel's memory was overwritten, or the kernel refuses to wait.
    #[error("the channel was overwritten, or the kernel refuses to wait")]
    Refused,
}

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
        let thread = ThreadId::current().get();
        let until = clock::now().saturating_add(self.bound);
        let context = self.claim(thread, until)?;
        let callee = context.callee.load(Ordering::Acquire);
        let result = call_in(context, callee, thread, until, (function, arguments));
        if result == Err(CallError::CalleeDied) {
            context.bury(callee);
        }
        context.end_claim();
        if !context.claim.release(thread) {
            // Somebody waits for it. The claim is this thread's, so the refusal is of overwritten memory only.
            let _ = unlock(context.claim.raw(), Scope::Shared);
        }
        result
    }

    fn claim(&self, thread: u32, until: MonotonicTime) -> Result<&Context, CallError> {
        let contexts = self.channel.all();
        if let Some(free) = contexts.iter().find(|context| context.claim.take(thread).is_ok()) {
            return Ok(free);
        }
        let context = &contexts[self.next.fetch_add(1, Ordering::Relaxed) % contexts.len()];
        loop {
            let before = context.claimed();
            match lock(context.claim.raw(), Scope::Shared, Some(until)) {
                Ok(()) => {
                    context.arrived();
                    return Ok(context);
                }
                // A caller that died with it, or a claim that came free before the kernel looked.
                Err(LockWordError::OwnerGone) => {
                    let taken = match before {
                        Some(seen) => context.take_claim_from_dead(seen, thread),
                        None => context.claim.take(thread).is_ok(),
                    };
                    if taken {
                        return Ok(context);
                    }
                    if clock::now() >= until {
                        return Err(CallError::TimedOut);
                    }
                }
                Err(error) => return Err(refusal(error)),
            }
        }
    }
}

/// One call, in a context that this thread has claimed.
fn call_in(
    context: &Context,
    callee: u32,
    thread: u32,
    until: MonotonicTime,
    (function, arguments): (u32, [u64; ARGUMENTS]),
) -> Result<i64, CallError> {
    if !is_thread(callee) {
        return Err(CallError::CalleeDied);
    }
    if callee == thread {
        return Err(CallError::Circle);
    }
    settle(context, callee, thread, until)?;
    // The word is this caller's, and nobody waits for it: hand it to the callee without a system call.
    if !context.call.hand_to(callee) {
        return Err(CallError::CalleeDied);
    }
    context.put_request(function, arguments, job::current());
    context.ring();
    own_call_word(context, thread, until)?;
    let result = context.result();
    context.state.store(IDLE, Ordering::Relaxed);
    Ok(result)
}

/// Ends what an earlier caller that died or gave up has left: its request, which the callee may not even have been told
/// of, or a result with which the callee has not released the word yet.
fn settle(context: &Context, callee: u32, thread: u32, until: MonotonicTime) -> Result<(), CallError> {
    if context.state.load(Ordering::Acquire) == IDLE {
        return Ok(());
    }
    context.ring();
    if context.call.take(thread).is_ok() {
        return Ok(());
    }
    match lock(context.call.raw(), Scope::Shared, Some(until)) {
        Ok(()) => match context.call.state() {
            State::Owned(owner) if owner.dead_before => Err(CallError::CalleeDied),
            _ => Ok(()),
        },
        // The callee, or the earlier caller, which had its result. Whoever has the claim needs nobody's leave then.
        Err(LockWordError::OwnerGone) if !context.call.is_owned_by(callee) => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

/// Waits until the callee has released the call word, which is this thread's then.
fn own_call_word(context: &Context, thread: u32, until: MonotonicTime) -> Result<(), CallError> {
    if context.call.take(thread).is_err() {
        lock(context.call.raw(), Scope::Shared, Some(until)).map_err(refusal)?;
    }
    // A callee that dies releases the word without a result.
    if context.state.load(Ordering::Acquire) == DONE {
        Ok(())
    } else {
        Err(CallError::CalleeDied)
    }
}

fn refusal(error: LockWordError) -> CallError {
    match error {
        LockWordError::TimedOut => CallError::TimedOut,
        LockWordError::OwnerGone => CallError::CalleeDied,
        LockWordError::Deadlock => CallError::Circle,
        LockWordError::System(_) => CallError::Refused,
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
