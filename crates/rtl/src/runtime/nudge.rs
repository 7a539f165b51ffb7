//! What one thread asks of another: to run a signal's handler, to be suspended, to end. A thread that sleeps is woken;
//! one that computes is interrupted by a signal of the system's, whose handler attends to what is asked.

use std::sync::atomic::{Ordering, fence};

use freehold_linux::futex;

use super::thread::{Thread, current};
use super::{life, modules};

/// RTLinux's own signals that do something by themselves.
pub(crate) const WAKEUP: u32 = 1;
pub(crate) const CANCEL: u32 = 2;
pub(crate) const SUSPEND: u32 = 3;
/// The largest signal.
pub(crate) const LARGEST: u32 = 31;

/// The signal of the system's by which a computing thread is interrupted.
fn system_signal() -> i32 {
    libc::SIGRTMIN() + 6
}

/// Has the process attend to nudges. Once, before threads are made.
pub(crate) fn install() {
    // SAFETY: the structure is filled before use; the handler calls async-signal-safe functions, and functions of the
    // module, which the program wants to run there.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(system_signal(), &raw const action, std::ptr::null_mut());
    }
}

/// Lets nothing but nudges and faults interrupt the calling thread.
pub(crate) fn set_mask() {
    // SAFETY: the set is filled before use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for signal in [
            system_signal(),
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
        ] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Has `thread` look at what is asked of it, now if it can.
pub(crate) fn nudge(thread: &'static Thread) {
    thread.rouse();
    if current().is_some_and(|own| std::ptr::eq(own, thread)) {
        return;
    }
    fence(Ordering::SeqCst);
    let kernel = thread.life.kernel.load(Ordering::Acquire);
    if kernel != 0 {
        // SAFETY: tgkill touches no memory; a thread that has ended meanwhile is refused.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), kernel, system_signal()) };
    }
}

/// Sends a signal of RTLinux's own to another thread.
pub(crate) fn send(thread: &'static Thread, signal: u32) {
    thread.signals.pending.fetch_or(1 << signal, Ordering::AcqRel);
    nudge(thread);
}

extern "C" fn on_signal(_signal: i32) {
    let Some(thread) = current() else { return };
    if thread.wake.depth.load(Ordering::Relaxed) != 0 || thread.wake.parked.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: a valid pointer to this thread's errno, which a handler leaves as it was.
    let errno = unsafe { *libc::__errno_location() };
    attend(thread);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether anything is asked of the calling thread.
#[inline]
pub(crate) fn has_something(thread: &Thread) -> bool {
    let signals = &thread.signals;
    signals.delete.load(Ordering::Relaxed)
        || thread.wake.suspended.load(Ordering::Relaxed)
        || signals.pending.load(Ordering::Relaxed) & !signals.blocked.load(Ordering::Relaxed) != 0
        || (signals.cancel.load(Ordering::Relaxed) && signals.cancel_at_once.load(Ordering::Relaxed))
}

/// Suspends the calling thread, which may be cancelled meanwhile.
pub(crate) fn suspend_itself(thread: &'static Thread) {
    // A thread that is nudged from now on may sleep in the signal's handler, which has to know.
    let before = thread.signals.at_cancellation_point.swap(true, Ordering::Relaxed);
    thread.wake.suspended.store(true, Ordering::Release);
    attend(thread);
    thread.signals.at_cancellation_point.store(before, Ordering::Relaxed);
}

/// Does all that is asked of the calling thread; sleeps while it is suspended. May not return.
#[cold]
pub(crate) fn attend(thread: &'static Thread) {
    loop {
        if thread.signals.delete.load(Ordering::Acquire) {
            life::end(thread, std::ptr::null_mut());
        }
        if is_cancelled(thread) {
            life::end_cancelled(thread);
        }
        if let Some(signal) = take_signal(thread) {
            deliver(thread, signal);
        } else if thread.wake.suspended.load(Ordering::Acquire) {
            park(thread);
        } else {
            return;
        }
    }
}

/// Whether the calling thread was cancelled and is to end here, which may be anywhere.
fn is_cancelled(thread: &Thread) -> bool {
    let signals = &thread.signals;
    let here = signals.cancel_at_once.load(Ordering::Relaxed) || signals.at_cancellation_point.load(Ordering::Relaxed);
    here && may_cancel(thread)
}

fn may_cancel(thread: &Thread) -> bool {
    let signals = &thread.signals;
    signals.cancel.load(Ordering::Acquire) && !signals.cancel_disabled.load(Ordering::Relaxed)
}

/// Ends the calling thread if it was cancelled: at each cancellation point.
pub(crate) fn cancellation_point(thread: &'static Thread) {
    if may_cancel(thread) {
        life::end_cancelled(thread);
    }
}

/// Sleeps until something happens to a suspended thread.
fn park(thread: &Thread) {
    let seen = thread.wake.events.load(Ordering::Acquire);
    if thread.wake.token.swap(false, Ordering::AcqRel) {
        thread.wake.suspended.store(false, Ordering::Release);
        return;
    }
    if has_request(thread) || is_cancelled(thread) {
        return;
    }
    thread.wake.parked.store(true, Ordering::Relaxed);
    // However it ends, the caller looks again.
    let _ = futex::wait(&thread.wake.events, seen, None);
    thread.wake.parked.store(false, Ordering::Relaxed);
}

fn has_request(thread: &Thread) -> bool {
    let signals = &thread.signals;
    signals.delete.load(Ordering::Acquire)
        || !thread.wake.suspended.load(Ordering::Acquire)
        || signals.pending.load(Ordering::Acquire) & !signals.blocked.load(Ordering::Relaxed) != 0
}

/// Takes the lowest pending signal that is not blocked.
fn take_signal(thread: &Thread) -> Option<u32> {
    let signals = &thread.signals;
    let ready = signals.pending.load(Ordering::Acquire) & !signals.blocked.load(Ordering::Relaxed);
    if ready == 0 {
        return None;
    }
    let signal = ready.trailing_zeros();
    signals.pending.fetch_and(!(1 << signal), Ordering::AcqRel);
    Some(signal)
}

fn deliver(thread: &'static Thread, signal: u32) {
    match signal {
        WAKEUP => thread.wake.token.store(true, Ordering::Release),
        CANCEL => thread.signals.cancel.store(true, Ordering::Release),
        SUSPEND => thread.wake.suspended.store(true, Ordering::Release),
        _ => {
            if let Some(action) = modules::action(thread.life.module.load(Ordering::Relaxed), signal) {
                let blocked = &thread.signals.blocked;
                let before = blocked.fetch_or(action.mask | 1 << signal, Ordering::AcqRel);
                // A suspended thread's handler runs to its end: it would sleep in its first call otherwise.
                let suspended = thread.wake.suspended.swap(false, Ordering::AcqRel);
                action.run(signal);
                if suspended {
                    thread.wake.suspended.store(true, Ordering::Release);
                }
                blocked.store(before, Ordering::Release);
                // A signal that is ignored ends no wait.
                thread.signals.handled.fetch_add(1, Ordering::Release);
            }
        }
    }
    // A thread that was about to sleep looks again.
    thread.wake.events.fetch_add(1, Ordering::Release);
}
