//! The break: memory of the heap is made a little ahead, so that not every step of an allocator waits for the agent.
//!
//! The kernel's break then lies past the program's, which is what the C library keeps and the program sees. What is
//! between the two is untouched, and is given back before a mapping takes its place.
//!
//! Whoever uses the break sees to it that only one thread changes it. A mapping at a fixed place may be made by any
//! other thread meanwhile, so such a mapping and a change of the break exclude each other here.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::hooks::locks;
use crate::process::{self, PAGE, Process};
use crate::sys::{self, Errno};
use crate::threads::mailbox::Quiet;
use crate::{filters, hooks};

/// Bytes that are made ahead, at most; and never more than the heap has grown by.
const MOST: usize = 1 << 20;

/// The C library's `__curbrk`, which `sbrk` reads: the program's break.
pub(crate) static CURRENT_BREAK: AtomicPtr<usize> = AtomicPtr::new(core::ptr::null_mut());
/// The kernel's break, where it lies past the program's; else 0.
static AHEAD: AtomicUsize = AtomicUsize::new(0);
/// Bytes by which the heap has grown so far.
static GROWN: AtomicUsize = AtomicUsize::new(0);

/// A change of the break. While there is one, no other thread begins one.
#[derive(Debug)]
pub(crate) struct Change {
    process: Option<&'static Process>,
    /// Ends after the change.
    _quiet: Quiet,
}

impl Change {
    /// Waits for another thread's; `None` where this thread is in the middle of one, in a handler of signals.
    ///
    /// A forked child begins without one: the word is wiped.
    fn begin() -> Option<Self> {
        let quiet = Quiet::begin();
        let process = process::process();
        if let Some(Process { breaking, .. }) = process {
            let (me, mut spins) = (sys::thread_pointer(), 0);
            while let Err(other) = breaking.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                if other == me {
                    return None;
                }
                hooks::pause(&mut spins);
            }
        }
        Some(Self { process, _quiet: quiet })
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Some(process) = self.process {
            process.breaking.store(0, Ordering::Release);
        }
    }
}

/// In place of `brk`.
pub(crate) extern "C" fn brk(address: *mut c_void) -> c_int {
    let Some(_change) = Change::begin() else {
        return hooks::fail(Errno::NOMEM, -1);
    };
    let (wanted, before, ahead) = (address as usize, current(), ahead());
    if before != 0 && (before..=ahead).contains(&wanted) {
        set_current(wanted);
        GROWN.fetch_add(wanted - before, Ordering::Relaxed);
        return 0;
    }
    if before != 0 && wanted > before {
        return grow(wanted, before, ahead);
    }
    let now = set_kernel_break(wanted);
    // Where the kernel refuses, its break is what it was, and so is the program's.
    if now == wanted || ahead == 0 {
        set_current(now);
        AHEAD.store(0, Ordering::Relaxed);
    }
    if now < wanted { hooks::fail(Errno::NOMEM, -1) } else { 0 }
}

/// In place of the system call, which answers with where the break is, whatever has come of it.
pub(super) fn by_number(address: usize) -> usize {
    if CURRENT_BREAK.load(Ordering::Relaxed).is_null() {
        return set_kernel_break(address);
    }
    if address != 0 {
        brk(core::ptr::with_exposed_provenance_mut(address));
    }
    match ahead() {
        0 => set_kernel_break(0),
        _ => current(),
    }
}

fn grow(wanted: usize, before: usize, ahead: usize) -> c_int {
    let grown = GROWN.load(Ordering::Relaxed);
    let ahead_too = hooks::is_managed() && !locks::locks_future();
    let more = if ahead_too { grown.min(MOST) } else { 0 };
    let target = wanted.saturating_add(more) / PAGE * PAGE;
    let mut now = if target > wanted { set_kernel_break(target) } else { 0 };
    if now != target {
        // The program's own limits leave no room for more than it asks for.
        now = set_kernel_break(wanted);
    }
    if now < wanted {
        return hooks::fail(Errno::NOMEM, -1);
    }
    let (start, end) = (before.max(ahead).next_multiple_of(PAGE), now.next_multiple_of(PAGE));
    let managed = start < end && hooks::manage(start, end - start);
    if start < end && !locks::lock_new(start, end - start, sys::PROT_READ | sys::PROT_WRITE, managed) {
        set_kernel_break(before.max(ahead));
        return hooks::fail(Errno::NOMEM, -1);
    }
    set_current(wanted);
    AHEAD.store(if now > wanted { now } else { 0 }, Ordering::Relaxed);
    GROWN.store(grown.saturating_add(wanted - before), Ordering::Relaxed);
    0
}

/// A mapping is about to be made at a fixed place: what was made ahead there goes, as if it had never been,
/// and nothing is made ahead until the change is dropped, when the mapping is there.
pub(crate) fn make_way(start: usize, length: usize) -> Option<Change> {
    // A handler that maps over the heap in the middle of a change of it has what it asked for.
    let change = Change::begin()?;
    let ahead = AHEAD.load(Ordering::Relaxed);
    if ahead == 0 {
        return Some(change);
    }
    let free = current().next_multiple_of(PAGE)..ahead.next_multiple_of(PAGE);
    if start < free.end && start.saturating_add(length) > free.start {
        AHEAD.store(0, Ordering::Relaxed);
        set_kernel_break(current());
    }
    Some(change)
}

/// The kernel's break if it still is where this library has set it, past the program's; else 0. A program may move it
/// by system calls of its own.
fn ahead() -> usize {
    let ahead = AHEAD.load(Ordering::Relaxed);
    if ahead != 0 && !filters::is_there() && set_kernel_break(0) != ahead {
        AHEAD.store(0, Ordering::Relaxed);
        return 0;
    }
    ahead
}

fn current() -> usize {
    word().load(Ordering::Relaxed)
}

fn set_current(to: usize) {
    word().store(to, Ordering::Relaxed);
}

/// The C library's own variable.
fn word() -> &'static AtomicUsize {
    // SAFETY: an aligned word of the C library's data, which stays. The C library reads it in one piece and writes it
    // only in its `brk`, in whose place this one is.
    unsafe { AtomicUsize::from_ptr(CURRENT_BREAK.load(Ordering::Relaxed)) }
}

/// Asks the kernel for a break: where it is afterwards. An address that cannot be one, such as 0, changes nothing.
fn set_kernel_break(to: usize) -> usize {
    let call = || {
        // SAFETY: memory past the program's break is nobody's; what is below it goes only where the program itself
        // asks.
        unsafe { sys::call5(sys::BRK, to, 0, 0, 0, 0) }
    };
    hooks::giving_away(call).unwrap_or(0)
}
