//! The functions of the C library that make memory, and what takes their place.
//!
//! The entries of `mmap` and `brk` are overwritten in the C library itself, so that its own callers (the allocator and
//! its arenas, buffered files) are seen as well as the program's. New anonymous private memory is registered before its
//! address is known to anybody. Of what takes memory away the kernel tells the server; the calls are counted here
//! (`frees`).

pub mod advice;
pub(super) mod behind;
pub(super) mod brk_ahead;
pub mod by_number;
pub(super) mod frees;
pub(super) mod linker;
pub(super) mod locks;
pub(super) mod mmap_ahead;
pub(super) mod patch;
pub(super) mod remap;
pub mod shared_segments;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::client::attach;
use crate::filters;
use crate::process::{self, Process, whole_pages};
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;

const MAP_TYPE: usize = 0x0F;
/// `MAP_FIXED` and `MAP_FIXED_NOREPLACE`.
const MAP_FIXED: usize = 0x10_0010;
const MAP_GROWSDOWN: usize = 0x100;
const MAP_LOCKED: usize = 0x2000;
const MAP_POPULATE: usize = 0x8000;
const MAP_STACK: usize = 0x2_0000;
const MAP_HUGETLB: usize = 0x4_0000;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Leaves an error for the program.
pub(crate) fn fail<T>(errno: Errno, answer: T) -> T {
    // SAFETY: the calling thread is the program's, whose `errno` this is.
    unsafe { *__errno_location() = errno.0 };
    answer
}

/// What a function of the C library has left.
fn error() -> Errno {
    // SAFETY: as above.
    Errno(unsafe { *__errno_location() })
}

/// In place of `mmap` and `mmap64`.
pub(crate) extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let failed = core::ptr::without_provenance_mut(usize::MAX);
    let flags = usize::try_from(flags).unwrap_or(usize::MAX);
    let protection = sys::arg(protection);
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let wanted = manages(flags);
    let raw_flags = if wanted {
        flags & !(MAP_POPULATE | MAP_LOCKED)
    } else {
        flags
    };
    let way = (flags & MAP_FIXED != 0).then(|| make_way(address as usize, length));
    if way.is_none()
        && !locks::locks_future()
        && mmap_ahead::suits(address as usize, length, protection, flags)
        && let Some(made) = client_process().and_then(|process| mmap_ahead::take(process, length))
    {
        return core::ptr::with_exposed_provenance_mut(made);
    }
    let arguments = [address as usize, length, protection, raw_flags, sys::arg(fd), offset];
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::call(sys::MMAP, arguments) }
    };
    // At a fixed place something else may go.
    let answer = if flags & MAP_FIXED == 0 {
        call()
    } else {
        giving_away(call)
    };
    let made = match answer {
        Ok(made) => made,
        Err(errno) => return fail(errno, failed),
    };
    drop(way);
    let managed = wanted && manage(made, whole_pages(length));
    let asked = wanted && flags & MAP_LOCKED != 0;
    if !locks::lock_new(made, whole_pages(length), protection, managed) || asked && !locks::lock_asked(made, length) {
        // It was made just now, and nobody knows of it.
        let _ = unmap(made, length);
        return fail(Errno::AGAIN, failed);
    }
    if wanted {
        if flags & MAP_POPULATE != 0 {
            populate(made, length, protection);
        }
    } else if flags & sys::MAP_ANONYMOUS != 0 {
        wait_for_moves();
    }
    core::ptr::with_exposed_provenance_mut(made)
}

/// In place of `munmap`.
pub(crate) extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    match unmap(address as usize, length) {
        Ok(_) => 0,
        Err(errno) => fail(errno, -1),
    }
}

/// Unmaps what the program has unmapped, or nobody has been given.
pub(crate) fn unmap(start: usize, length: usize) -> Answer {
    giving_away(|| {
        // SAFETY: the caller's word.
        unsafe { sys::call5(sys::MUNMAP, start, length, 0, 0, 0) }
    })
}

/// Makes a call that may give addresses away.
pub(crate) fn giving_away<T>(call: impl FnOnce() -> T) -> T {
    match process::process() {
        Some(process) => process.frees.during(call),
        None => call(),
    }
}

/// A mapping is about to be made at a fixed place, where memory may have been made ahead. None is made for the heap
/// until what this returns is dropped.
#[must_use]
pub(crate) fn make_way(start: usize, length: usize) -> Option<brk_ahead::Change> {
    let way = brk_ahead::make_way(start, length);
    if let Some(process) = client_process() {
        mmap_ahead::make_way(process, start, length);
    }
    way
}

/// In place of `_dl_debug_state`, which the dynamic linker calls before and after its list of objects changes.
pub(crate) extern "C" fn objects_changed() {
    const ADDING: u32 = 1;
    static LAST: AtomicU32 = AtomicU32::new(0);
    let state = linker::state();
    if LAST.swap(state, Ordering::Relaxed) == ADDING
        && state == 0
        && !filters::is_there()
        && let Some(process) = process::process()
        && is_client(process)
        && let Some(client) = attach::client_of(process)
    {
        mailbox::ask(process, mailbox::TEXT, [0; 2], || attach::note_links(client));
        locks::lock_loaded(process);
    }
}

/// Whether a mapping made with these flags is one that the server can manage.
fn manages(flags: usize) -> bool {
    let unsuited = MAP_GROWSDOWN | MAP_STACK | MAP_HUGETLB;
    flags & MAP_TYPE == sys::MAP_PRIVATE && flags & sys::MAP_ANONYMOUS != 0 && flags & unsuited == 0
}

/// Whether this process is a client; a child of one that was made past the C library becomes one here, with its first
/// call that makes, moves or locks memory, or says what is to become of it.
fn is_client(process: &Process) -> bool {
    loop {
        match process.phase.load(Ordering::Acquire) {
            process::READY => return true,
            process::NOTHING if attach::descends_from_client() => attach::join_forked(process),
            process::CONNECTING => sys::futex_wait(&process.phase, process::CONNECTING),
            _ => return false,
        }
    }
}

/// Whether new memory of this process is managed.
pub(crate) fn is_managed() -> bool {
    client_process().is_some()
}

/// This process, if new memory of it is managed.
pub(crate) fn client_process() -> Option<&'static Process> {
    process::process().filter(|process| !filters::is_there() && is_client(process))
}

/// Has the server manage new memory, of whole pages: whether it does. Where it cannot, the memory stays the kernel's.
pub(crate) fn manage(start: usize, length: usize) -> bool {
    const NO_HUGE_PAGE: usize = 15;
    let Some(process) = process::process() else {
        return false;
    };
    if filters::is_there() || !is_client(process) || is_outside(process) {
        wait_for_moves();
        return false;
    }
    // SAFETY: pages of 4 KiB instead of larger ones; the content is the same.
    let _ = unsafe { sys::madvise(start, length, NO_HUGE_PAGE) };
    // The agent thread has the descriptor; the program's own table has nothing of this library's.
    let done = mailbox::ask(process, mailbox::REGISTER, [start, length], || ());
    if !done {
        wait_for_moves();
    }
    done
}

/// New memory that is not managed may lie where managed memory was, whose pages the agent thread has just been told to
/// move out: waits until no move is under way that began before. The next finds that the memory is not managed.
pub(crate) fn wait_for_moves() {
    let Some(process) = process::process() else { return };
    let mut spins = 0;
    while process.moves.is_going_out() {
        pause(&mut spins);
    }
}

/// Waits a little for what another thread is about to have done: `spins` is how often this was called.
pub(crate) fn pause(spins: &mut u32) {
    const SPINS: u32 = 1_000;
    *spins = spins.saturating_add(1);
    if *spins < SPINS || filters::is_there() {
        core::hint::spin_loop();
    } else {
        // A millisecond: the other thread may need this CPU.
        let mask = mailbox::block_signals();
        sys::sleep_for_agent(1);
        mailbox::restore_signals(mask);
    }
}

/// Whether all of the program's private memory is the kernel's for good: somebody reads it where no fault is served.
fn is_outside(process: &Process) -> bool {
    let client = attach::client_of(process);
    client.is_some_and(|client| client.channel().outside.load(Ordering::Relaxed) != 0)
}

/// What `MAP_POPULATE` would have done, after the registration.
pub(crate) fn populate(start: usize, length: usize, protection: usize) {
    const POPULATE_READ: usize = 22;
    const POPULATE_WRITE: usize = 23;
    let advice = if protection & sys::PROT_WRITE != 0 {
        POPULATE_WRITE
    } else {
        POPULATE_READ
    };
    // SAFETY: brings pages in; like the flag, it may fail without harm.
    let _ = unsafe { sys::madvise(start, length, advice) };
}

/// The C library's `prctl`, which may set up a filter.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // SAFETY: the caller's word.
    match unsafe { set_process(sys::arg(option), [a, b, c, d]) } {
        Ok(answer) => cut(answer),
        Err(errno) => fail(errno, -1),
    }
}

/// What the C library makes of an answer that is longer than its own.
fn cut(answer: usize) -> c_int {
    u32::try_from(answer & 0xffff_ffff).map_or(-1, u32::cast_signed)
}

/// A call of `prctl`. What hands a thread's system calls to a handler of its own is refused, as by a kernel before
/// 5.11: only one area of code can be excepted, and the agent's calls in the thread would be handed over too.
///
/// # Safety
/// As `prctl` asks for.
unsafe fn set_process(option: usize, rest: [usize; 4]) -> Answer {
    const SET_SECCOMP: usize = 22;
    const SET_SYSCALL_USER_DISPATCH: usize = 59;
    let [a, b, c, d] = rest;
    // The kernel looks at these bits of it only.
    match option & 0xffff_ffff {
        SET_SYSCALL_USER_DISPATCH if a != 0 => return Err(Errno::INVAL),
        SET_SECCOMP => filters::before_prctl(a, b),
        _ => {}
    }
    // SAFETY: the program's own call.
    unsafe { sys::call5(sys::PRCTL, option, a, b, c, d) }
}
