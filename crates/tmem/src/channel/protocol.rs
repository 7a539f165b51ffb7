//! The steps of a call, on both sides. The kernel's part is behind [`Kernel`], so that the model in `tests/` runs this
//! file with a kernel of its own.

use super::ARGUMENTS;
use super::context::{Context, DONE, IDLE};
use crate::pi_word::{PiWord, State, is_thread};
use crate::sync::{AtomicU32, Ordering};
use freehold_linux::pi_word::LockWordError;

/// Why a call has no result. The callee may have worked on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The callee did not end it until the bound, or every context stayed in use so long.
    #[error("the callee did not answer until the bound")]
    TimedOut,
    /// The callee has died, or never was.
    #[error("the callee has died")]
    CalleeDied,
    /// The caller waits for itself until the bound: it serves a call of the callee.
    #[error("the call would wait for itself")]
    Circle,
    /// The channel's memory was overwritten, or the kernel refuses to wait.
    #[error("the channel was overwritten, or the kernel refuses to wait")]
    Refused,
}

/// What a caller asks for. All of it is the caller's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The function's number.
    pub function: u32,
    /// Its arguments.
    pub arguments: [u64; ARGUMENTS],
}

/// What the kernel does for one thread.
pub(crate) trait Kernel {
    /// Waits for a word until the thread's bound.
    fn lock(&self, word: &PiWord) -> Result<(), LockWordError>;
    /// Gives a word to who waits for it. A word that is not the thread's was overwritten, and stays.
    fn unlock(&self, word: &PiWord);
    /// Wakes who sleeps on a doorbell.
    fn wake(&self, doorbell: &AtomicU32);
    /// Sleeps on a doorbell while it is `asleep`, or less long.
    fn sleep(&self, doorbell: &AtomicU32, asleep: u32);
    /// Whether the bound has passed.
    fn is_late(&self) -> bool;
    /// The CPU on which the thread runs at present.
    fn cpu(&self) -> u32;
}

/// A call of `thread` in one of the contexts, that of `place` where all are in use.
pub(crate) fn call(
    contexts: &[Context],
    place: impl FnOnce() -> usize,
    thread: u32,
    (request, job): (Request, u32),
    kernel: &impl Kernel,
) -> Result<i64, CallError> {
    let context = claim(contexts, place, thread, kernel)?;
    let callee = context.callee.load(Ordering::Acquire);
    let result = call_in(context, callee, thread, (request, job), kernel);
    match result {
        Err(CallError::CalleeDied) => context.bury(callee),
        Err(CallError::TimedOut) => context.note_late(),
        _ => {}
    }
    context.end_claim();
    if !context.claim.release(thread) {
        // Somebody waits for it. The claim is this thread's, so the refusal is of overwritten memory only.
        kernel.unlock(&context.claim);
    }
    result
}

fn claim<'a>(
    contexts: &'a [Context],
    place: impl FnOnce() -> usize,
    thread: u32,
    kernel: &impl Kernel,
) -> Result<&'a Context, CallError> {
    if let Some(free) = contexts.iter().find(|context| context.claim.take(thread).is_ok()) {
        return Ok(free);
    }
    let context = &contexts[place()];
    loop {
        let before = context.claimed();
        match kernel.lock(&context.claim) {
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
                if kernel.is_late() {
                    return Err(CallError::TimedOut);
                }
            }
            Err(error) => return Err(refusal(error)),
        }
    }
}

/// One call, in a context that this thread has claimed.
fn call_in(
    context: &Context,
    callee: u32,
    thread: u32,
    (request, job): (Request, u32),
    kernel: &impl Kernel,
) -> Result<i64, CallError> {
    if !is_thread(callee) {
        return Err(CallError::CalleeDied);
    }
    if callee == thread {
        return Err(CallError::Circle);
    }
    settle(context, callee, thread, kernel)?;
    // Whatever request stands there is nobody's: the callee must not take it for this one.
    context.state.store(IDLE, Ordering::Relaxed);
    // The word is this caller's, and nobody waits for it: hand it to the callee without a system call.
    if !context.call.hand_to(callee) {
        return Err(CallError::CalleeDied);
    }
    context.note_caller_cpu(kernel.cpu());
    context.put_request(request, job);
    ring(context, kernel);
    own_call_word(context, thread, kernel)?;
    let result = context.result();
    context.state.store(IDLE, Ordering::Relaxed);
    Ok(result)
}

/// Ends what an earlier caller that died or gave up has left: its request, which the callee may not even have been told
/// of, or a result with which the callee has not released the word yet.
fn settle(context: &Context, callee: u32, thread: u32, kernel: &impl Kernel) -> Result<(), CallError> {
    if context.state.load(Ordering::Acquire) == IDLE {
        return Ok(());
    }
    ring(context, kernel);
    if context.call.take(thread).is_ok() {
        return Ok(());
    }
    match kernel.lock(&context.call) {
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
fn own_call_word(context: &Context, thread: u32, kernel: &impl Kernel) -> Result<(), CallError> {
    // A callee on this CPU has not begun yet: to look is cheaper than to try.
    if context.call.state() != State::Free || context.call.take(thread).is_err() {
        kernel.lock(&context.call).map_err(refusal)?;
    }
    // A callee that dies releases the word without a result.
    if context.state.load(Ordering::Acquire) == DONE {
        Ok(())
    } else {
        Err(CallError::CalleeDied)
    }
}

/// Has the callee look.
fn ring(context: &Context, kernel: &impl Kernel) {
    if context.ring() {
        kernel.wake(&context.doorbell);
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

/// Serves the calls of a context as its callee `own` until `stop`.
pub(crate) fn serve(
    context: &Context,
    own: u32,
    kernel: &impl Kernel,
    stop: impl Fn() -> bool,
    mut work: impl FnMut(Request, u32) -> i64,
) {
    // A callee before this one has died: what it left is nobody's.
    context.state.store(IDLE, Ordering::Relaxed);
    context.callee.swap(own, Ordering::AcqRel);
    loop {
        let heard = context.awake();
        if context.is_called(own) {
            context.note_callee_cpu(kernel.cpu());
            let (request, job) = context.request();
            context.put_result(work(request, job));
            if !context.call.release(own) {
                // The caller waits. One that has overwritten the word waits for whom it named.
                kernel.unlock(&context.call);
            }
        } else if stop() {
            break;
        } else if let Some(asleep) = context.doze(heard) {
            kernel.sleep(&context.doorbell, asleep);
        }
    }
    context.callee.store(0, Ordering::Release);
}
