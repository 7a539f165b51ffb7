//! RTLinux's own signals between threads.

use std::sync::atomic::Ordering;

use super::{failed, given};
use crate::runtime::thread::{Thread, current};
use crate::runtime::{modules, nudge};

/// `struct rtl_sigaction` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    handler: *mut libc::c_void,
    mask: libc::c_ulong,
    flags: libc::c_ulong,
    focus: i32,
}

/// Signals above the word that threads have do not exist.
#[expect(clippy::cast_possible_truncation, reason = "what does not fit are no signals")]
fn mask(set: libc::c_ulong) -> u32 {
    set as u32
}

fn signal(number: i32) -> Option<u32> {
    u32::try_from(number).ok().filter(|signal| *signal <= nudge::LARGEST)
}

/// `pthread_kill`: EINVAL for no signal, ESRCH for no thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_kill(thread: *mut Thread, number: i32) -> i32 {
    let Some(signal) = signal(number) else {
        return libc::EINVAL;
    };
    let Some(thread) = Thread::named(thread).filter(|thread| thread.is_live()) else {
        return libc::ESRCH;
    };
    if signal == 0 {
        return 0;
    }
    nudge::send(thread, signal);
    if current().is_some_and(|own| std::ptr::eq(own, thread)) && nudge::has_something(thread) {
        nudge::attend(thread);
    }
    0
}

/// `raise`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_raise(number: i32) -> i32 {
    match current().map(|thread| rtl_pthread_kill(thread.pointer(), number)) {
        Some(0) => 0,
        Some(errno) => failed(errno),
        None => failed(libc::ESRCH),
    }
}

/// `sigaction`: for all threads of the module. EINVAL for the signals that do something by themselves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigaction(number: i32, new: *const Action, before: *mut Action) -> i32 {
    let Some(signal) = signal(number).filter(|signal| *signal > nudge::SUSPEND) else {
        return failed(libc::EINVAL);
    };
    // SAFETY: null or valid, as the C API wants it.
    let new = unsafe { given(new) }.map(|action| (action.handler, mask(action.mask)));
    let Some((handler, was)) = modules::set_action(signal, new) else {
        return failed(libc::EINVAL);
    };
    // SAFETY: null or valid, as the C API wants it.
    if let Some(before) = unsafe { before.as_mut() } {
        *before = Action {
            handler,
            mask: was.into(),
            flags: 0,
            focus: 0,
        };
    }
    0
}

/// `sigprocmask`, `pthread_sigmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigprocmask(how: i32, set: *const libc::c_ulong, before: *mut libc::c_ulong) -> i32 {
    let Some(thread) = current() else { return libc::EINVAL };
    let blocked = &thread.signals.blocked;
    let was = blocked.load(Ordering::Acquire);
    // SAFETY: null or valid, as the C API wants it.
    if let Some(set) = unsafe { given(set) } {
        let set = mask(*set);
        let now = match how {
            libc::SIG_BLOCK => was | set,
            libc::SIG_UNBLOCK => was & !set,
            libc::SIG_SETMASK => set,
            _ => return libc::EINVAL,
        };
        blocked.store(now, Ordering::Release);
    }
    // SAFETY: null or valid, as the C API wants it.
    if let Some(before) = unsafe { before.as_mut() } {
        *before = was.into();
    }
    if nudge::has_something(thread) {
        nudge::attend(thread);
    }
    0
}

/// `sigpending`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigpending(set: *mut libc::c_ulong) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match (current(), unsafe { set.as_mut() }) {
        (Some(thread), Some(set)) => {
            *set = thread.signals.pending.load(Ordering::Acquire).into();
            0
        }
        _ => failed(libc::EINVAL),
    }
}

/// `sigsuspend`: until a signal's handler has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigsuspend(set: *const libc::c_ulong) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let (Some(thread), Some(set)) = (current(), unsafe { given(set) }) else {
        return failed(libc::EINVAL);
    };
    let handled = thread.signals.handled.load(Ordering::Acquire);
    let before = thread.signals.blocked.swap(mask(*set), Ordering::AcqRel);
    loop {
        let seen = thread.wake.events.load(Ordering::Acquire);
        nudge::cancellation_point(thread);
        if nudge::has_something(thread) {
            nudge::attend(thread);
        }
        if thread.signals.handled.load(Ordering::Acquire) != handled {
            break;
        }
        // However it ends, everything is looked at again.
        let _ = freehold_linux::futex::wait(&thread.wake.events, seen, None);
    }
    thread.signals.blocked.store(before, Ordering::Release);
    failed(libc::EINTR)
}
