//! RTLinux's own signals between threads.

use std::sync::atomic::Ordering;

use super::{failed, given};
use crate::runtime::thread::{Thread, current};
use crate::runtime::{lines, modules, nudge};

/// `RTL_SIGIRQMIN` of the header: from here on a signal is a line's.
const FIRST_LINE: i32 = 64;
/// `RTL_LINUX_MIN_SIGNAL` of the header: from here on a signal to Linux is an interrupt.
const FIRST_LINUX: i32 = 256;
/// `SA_FOCUS` of the header.
const FOCUS: libc::c_ulong = 0x4000_0000;

/// `struct rtl_sigaction` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    handler: *mut libc::c_void,
    mask: libc::c_ulong,
    flags: libc::c_ulong,
    focus: i32,
}

const NONE: Action = Action {
    handler: std::ptr::null_mut(),
    mask: 0,
    flags: 0,
    focus: 0,
};

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
    if Thread::is_linux(thread) {
        return kill_linux(number);
    }
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

/// A signal to Linux is an interrupt, which a soft line's handler attends to.
fn kill_linux(number: i32) -> i32 {
    match number.checked_sub(FIRST_LINUX) {
        Some(line @ 0..) => lines::pend(line),
        _ if number == 0 => {}
        _ => return libc::EINVAL,
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

/// The handler of a line instead of `rtl_request_irq`: it is called with the signal's number.
fn line_action(line: u32, number: u32, new: Option<&Action>) -> Result<*mut libc::c_void, i32> {
    let handler = lines::own_handler(line);
    if let Some(new) = new {
        if handler.is_some() {
            lines::free(line)?;
        }
        // SIG_DFL and SIG_IGN are not functions.
        if new.handler.addr() > 1 {
            // SAFETY: the program set it as a handler: a function that takes a number, and may take pointers.
            let function: lines::Handler = unsafe { std::mem::transmute(new.handler) };
            lines::request(line, function, number)?;
            if new.flags & FOCUS != 0 {
                lines::focus(line, Some(u64::from(new.focus.cast_unsigned())))?;
            }
        }
    }
    Ok(handler.map_or(std::ptr::null_mut(), |handler| handler as *mut libc::c_void))
}

/// `sigaction`: for all threads of the module. EINVAL for the signals that do something by themselves, and for lines
/// that do not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigaction(number: i32, new: *const Action, before: *mut Action) -> i32 {
    if (FIRST_LINE..FIRST_LINUX).contains(&number) {
        let (line, number) = ((number - FIRST_LINE).unsigned_abs(), number.unsigned_abs());
        // SAFETY: null or valid, as the C API wants it.
        let (new, before) = unsafe { (given(new), before.as_mut()) };
        return match line_action(line, number, new) {
            Ok(handler) => {
                if let Some(before) = before {
                    *before = Action { handler, ..NONE };
                }
                0
            }
            Err(errno) => failed(-errno),
        };
    }
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
            ..NONE
        };
    }
    0
}

/// `sigprocmask`, `pthread_sigmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sigprocmask(how: i32, set: *const libc::c_ulong, before: *mut libc::c_ulong) -> i32 {
    let thread = current().unwrap_or_else(Thread::linux);
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
