//! Core files: what is out is brought in before the kernel writes one, because it serves no fault then.
//!
//! Signals whose default is a core file have a handler while the program has the default for them. It has the server
//! give everything back to the kernel, restores the default and sends the signal to its thread once more, as it came:
//! what dies, and how, is as without. The C library's `sigaction` is replaced, so that the program finds the default.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;
use crate::{hooks, report};

/// SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
const SIGNALS: [c_int; 10] = [3, 4, 5, 6, 7, 8, 11, 24, 25, 31];
const DEFAULT: usize = 0;
const SA_SIGINFO: usize = 4;
const SA_ONSTACK: usize = 0x0800_0000;
const SA_RESTORER: usize = 0x0400_0000;

/// Whether the handlers are in place: in a forked child as in its parent.
static READY: AtomicBool = AtomicBool::new(false);

/// What the kernel keeps of a signal.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kept {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

/// The C library's `struct sigaction`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

core::arch::global_asm!(
    // What a handler returns to. Debuggers know it by these bytes.
    ".globl freehold_return_from_signal",
    ".hidden freehold_return_from_signal",
    ".type freehold_return_from_signal, @function",
    "nop",
    "freehold_return_from_signal:",
    "mov rax, 15",
    "syscall",
);

unsafe extern "C" {
    fn freehold_return_from_signal();
}

fn restorer() -> usize {
    freehold_return_from_signal as *const () as usize
}

fn own() -> Kept {
    Kept {
        handler: died as *const () as usize,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
        restorer: restorer(),
        mask: 0,
    }
}

const PLAIN: Kept = Kept {
    handler: DEFAULT,
    flags: 0,
    restorer: 0,
    mask: 0,
};

fn set(signal: c_int, new: Option<&Kept>, old: Option<&mut Kept>) -> Answer {
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    let old = old.map_or(0, |old| core::ptr::from_mut(old) as usize);
    // SAFETY: the two structures of this call. What the handler does is the program's word, or `died`.
    unsafe { sys::call5(sys::SIGACTION, sys::arg(signal), new, old, size_of::<u64>(), 0) }
}

fn is_own(kept: &Kept) -> bool {
    kept.handler == own().handler
}

/// Puts the handlers in place, where the program has the default.
pub(crate) fn begin() {
    READY.store(true, Ordering::Relaxed);
    for signal in SIGNALS {
        let mut kept = PLAIN;
        if set(signal, None, Some(&mut kept)).is_ok() && kept.handler == DEFAULT {
            let _ = set(signal, Some(&own()), None);
        }
    }
}

/// Takes them away: the program sets up a filter of system calls, and this library makes no calls of its own then.
pub(crate) fn end() {
    if !READY.swap(false, Ordering::Relaxed) {
        return;
    }
    for signal in SIGNALS {
        let mut kept = PLAIN;
        if set(signal, None, Some(&mut kept)).is_ok() && is_own(&kept) {
            let _ = set(signal, Some(&PLAIN), None);
        }
    }
}

/// Gives a signal its default meaning, for the end of a program that has no thread left.
pub(crate) fn end_by(signal: usize) {
    if let Ok(signal) = c_int::try_from(signal) {
        let _ = set(signal, Some(&PLAIN), None);
    }
}

/// In place of `sigaction`.
///
/// # Safety
/// As the C library's.
pub(crate) unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // Two of the kernel's are the C library's own.
    if !(1..=64).contains(&signal) || matches!(signal, 32 | 33) {
        return hooks::fail(Errno::INVAL, -1);
    }
    // SAFETY: the caller's word.
    let new = unsafe { new.as_ref() }.map(|new| wanted(signal, new));
    let mut kept = PLAIN;
    if let Err(errno) = set(signal, new.as_ref(), Some(&mut kept)) {
        return hooks::fail(errno, -1);
    }
    let kept = if is_own(&kept) { PLAIN } else { kept };
    // SAFETY: the caller's word.
    if let Some(old) = unsafe { old.as_mut() } {
        old.handler = kept.handler;
        old.mask[0] = kept.mask;
        old.flags = c_int::try_from(kept.flags & 0x7FFF_FFFF).unwrap_or(0);
        if kept.flags & 0x8000_0000 != 0 {
            old.flags |= c_int::MIN;
        }
        old.restorer = kept.restorer;
    }
    0
}

/// What the kernel is to keep for what the program wants.
fn wanted(signal: c_int, new: &Action) -> Kept {
    if new.handler == DEFAULT && SIGNALS.contains(&signal) && READY.load(Ordering::Relaxed) {
        return own();
    }
    let [mask, ..] = new.mask;
    Kept {
        handler: new.handler,
        flags: new.flags.cast_unsigned() as usize | SA_RESTORER,
        restorer: restorer(),
        mask,
    }
}

/// The program dies, perhaps with a core file.
extern "C" fn died(signal: c_int, information: *const c_void, _context: *const c_void) {
    const TGSIGQUEUEINFO: usize = 297;
    const GETTID: usize = 186;
    if makes_core_file()
        && let Some(process) = hooks::client_process()
        && !mailbox::ask(process, mailbox::RELINQUISH, [0, 0], || ())
    {
        report::say(&[b"the core file of this program lacks the pages that are out: the machine has no room for them"]);
    }
    let _ = set(signal, Some(&PLAIN), None);
    // SAFETY: touches no memory; the signal waits until this handler has returned.
    let _ = unsafe {
        let process = sys::call5(sys::GETPID, 0, 0, 0, 0, 0).unwrap_or(0);
        let thread = sys::call5(GETTID, 0, 0, 0, 0, 0).unwrap_or(0);
        sys::call5(
            TGSIGQUEUEINFO,
            process,
            thread,
            sys::arg(signal),
            information as usize,
            0,
        )
    };
}

/// Whether the kernel writes a core file of this process, or gives one to a program.
fn makes_core_file() -> bool {
    const GETRLIMIT: usize = 97;
    const CORE: usize = 4;
    const GET_DUMPABLE: usize = 3;
    let mut limits = [0_u64; 2];
    // SAFETY: writes the two numbers.
    let _ = unsafe { sys::call5(GETRLIMIT, CORE, limits.as_mut_ptr() as usize, 0, 0, 0) };
    // SAFETY: touches no memory.
    let dumpable = unsafe { sys::call5(sys::PRCTL, GET_DUMPABLE, 0, 0, 0, 0) } == Ok(1);
    let [soft, _] = limits;
    dumpable && (soft > 0 || is_piped())
}

/// Whether core files go to a program or a socket, whatever the limit says.
fn is_piped() -> bool {
    let Ok(fd) = sys::open(b"/proc/sys/kernel/core_pattern\0", false) else {
        return false;
    };
    let mut first = [0_u8; 1];
    let read = sys::read(fd, &mut first);
    sys::close(fd);
    read == Ok(1) && matches!(first, [b'|' | b'@'])
}
