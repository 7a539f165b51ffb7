//! Memory that the kernel needs where it serves no fault, and that is given back to it therefore.
//!
//! - As a thread ends the kernel goes through its list of robust mutexes, and a page that is out ends the list for it:
//!   whoever waits for one of those behind waits for ever. So the page of a robust mutex is the kernel's from when the
//!   mutex is made.
//! - It changes the word of a mutex that inherits priorities (`PTHREAD_PRIO_INHERIT`) by itself, and where the page is
//!   out, or may not be written yet, says `EFAULT`, on which the C library aborts. So that page is the kernel's too.
//! - It then clears a word in the thread's control block, for which `pthread_join` waits, and which lies on the stack
//!   that the program may have given the thread.
//! - What a program watches with a userfaultfd of its own no other can watch.
//! - What another process reads through `ptrace`. Who opens `/proc/PID/mem` is in [`memory_files`].
//!
//! [`memory_files`]: crate::kernel_paths::memory_files

use core::ffi::{c_int, c_uint, c_void};

use crate::client::Client;
use crate::client::markers;
use crate::client::userfault;
use crate::hooks;
use crate::hooks::behind::{self, behind};
use crate::hooks::locks;
use crate::process::{PAGE, whole_pages};
use crate::sys::maps;
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;

/// Gives a range of addresses back to the kernel, with the pages that it lies in. Whether that was done.
fn relinquish(start: usize, length: usize) -> bool {
    let first = start / PAGE * PAGE;
    let end = whole_pages(start.saturating_add(length).min(locks::END));
    let ask = |process| mailbox::ask(process, mailbox::RELINQUISH, [first, end.saturating_sub(first)], || ());
    length > 0 && first < end && hooks::client_process().is_some_and(ask)
}

/// The agent thread's side, once the server has given all that it knew of back: what was never touched is the kernel's
/// too, but for what marks forked children. Not before: what the server still has would be zeros.
pub(crate) fn leave_untouched(client: &Client) {
    let private = client.descriptors.private;
    maps::for_each(
        |_| false,
        |line| {
            let (start, length) = (line.start, line.end - line.start);
            let anonymous = line.private && line.file.inode == 0;
            if anonymous
                && !(line.start..line.end).contains(&markers::place())
                && userfault::is_registered(private, start, length) != Err(Errno::NOENT)
            {
                // What is not registered there stays so.
                let _ = userfault::unregister(private, start, length);
            }
        },
    );
}

/// The C library's `pthread_mutex_init`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(mutex: *mut c_void, attributes: *const c_void) -> c_int {
    const KIND: usize = 16;
    /// `PTHREAD_MUTEX_ROBUST_NORMAL_NP` and `PTHREAD_MUTEX_PRIO_INHERIT_NP`.
    const KERNEL_LOOKS: i32 = 16 | 32;
    const BYTES: usize = 40;
    let made = behind!(
        PTHREAD_MUTEX_INIT as unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int,
        mutex,
        attributes
    );
    // SAFETY: the mutex was made just now.
    if made == 0 && unsafe { mutex.byte_add(KIND).cast::<i32>().read() } & KERNEL_LOOKS != 0 {
        relinquish(mutex as usize, BYTES);
    }
    made
}

/// The program's `futex`. What the kernel changes by itself it must find: where it does not, the words are given back.
///
/// # Safety
/// As the kernel's.
pub(crate) unsafe fn futex(arguments: [usize; 6]) -> Answer {
    const OPERATION: usize = 0x7F;
    /// `WAKE_OP`, `LOCK_PI`, `UNLOCK_PI`, `TRYLOCK_PI`, `WAIT_REQUEUE_PI`, `CMP_REQUEUE_PI`, `LOCK_PI2`.
    const CHANGES: [usize; 7] = [5, 6, 7, 8, 11, 12, 13];
    const WORD: usize = 4;
    // SAFETY: the program's own call.
    let call = || unsafe { behind::call(sys::FUTEX, arguments) };
    let answer = call();
    let [first, operation, _, _, second, _] = arguments;
    if answer != Err(Errno::FAULT) || !CHANGES.contains(&(operation & OPERATION)) {
        return answer;
    }
    // Of those with one word the second is nothing, and is in no memory.
    let given = relinquish(first, WORD);
    let _ = second == 0 || relinquish(second, WORD);
    if given { call() } else { answer }
}

/// The C library's `pthread_attr_setstack`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstack(attributes: *mut c_void, stack: *mut c_void, size: usize) -> c_int {
    let set = behind!(
        PTHREAD_ATTR_SETSTACK as unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int,
        attributes,
        stack,
        size
    );
    if set == 0 {
        relinquish(stack as usize, size);
    }
    set
}

/// `struct uffdio_register`
#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// The C library's `ioctl`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int {
    // SAFETY: the caller's word.
    match unsafe { control(sys::arg(fd), request, argument) } {
        Ok(answer) => sys::descriptor(answer),
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// The program's `ioctl`. Where it wants to watch memory that is managed, the memory is given back first.
///
/// What it watches looks managed to the agent, whoever watches it. So orders about what was there before are carried
/// out first: they would take the pages that the program puts there.
///
/// # Safety
/// As the kernel's.
pub(crate) unsafe fn control(fd: usize, request: usize, argument: usize) -> Answer {
    // SAFETY: the program's own call.
    let call = || unsafe { behind::call(sys::IOCTL, [fd, request, argument, 0, 0, 0]) };
    if request != userfault::REQUEST_REGISTER {
        return call();
    }
    if let Some(process) = hooks::client_process() {
        mailbox::ask(process, mailbox::CARRY_OUT, [0; 2], || ());
    }
    let answer = call();
    if answer != Err(Errno::BUSY) {
        return answer;
    }
    // SAFETY: the kernel has read it.
    let wanted = unsafe { &*core::ptr::with_exposed_provenance::<Register>(argument) };
    let (Ok(start), Ok(length)) = (usize::try_from(wanted.start), usize::try_from(wanted.length)) else {
        return answer;
    };
    let missing = wanted.mode & userfault::MISSING != 0;
    if !relinquish(start, length) {
        return answer;
    }
    if missing {
        drop_zeros(start, length);
    }
    call()
}

/// Drops pages of zeros: those that the server has brought along, and nobody has touched, are to be missing.
fn drop_zeros(start: usize, length: usize) {
    const MINCORE: usize = 27;
    const PAGES: usize = 128;
    const DONT_NEED: usize = 4;
    let end = start.saturating_add(length);
    let mut at = start;
    while at < end {
        let step = (end - at).min(PAGES * PAGE);
        let mut there = [0_u8; PAGES];
        // SAFETY: writes a byte for each page.
        if unsafe { sys::call5(MINCORE, at, step, there.as_mut_ptr() as usize, 0, 0) }.is_err() {
            return;
        }
        for (page, there) in (at..at + step).step_by(PAGE).zip(there) {
            if there & 1 != 0 && is_zeros(page) {
                // SAFETY: it reads as zeros all the same, unless the program fills it otherwise.
                let _ = unsafe { sys::madvise(page, PAGE, DONT_NEED) };
            }
        }
        at += step;
    }
}

fn is_zeros(page: usize) -> bool {
    (page..page + PAGE).step_by(size_of::<u64>()).all(|word| {
        // SAFETY: the program's page, which is there; where it may not be read the program could not watch it.
        unsafe { core::ptr::with_exposed_provenance::<u64>(word).read_volatile() == 0 }
    })
}

/// Somebody is about to look into a process: if its memory is managed here, it is brought in first.
pub(crate) fn look_into(process: usize) {
    if let Some(own) = hooks::client_process() {
        mailbox::ask(own, mailbox::RELINQUISH_OTHER, [process, 0], || ());
    }
}

/// A process is about to be traced, if the request is one to begin with.
pub(crate) fn before_tracing(request: usize, process: usize) {
    const ATTACH: usize = 16;
    const SEIZE: usize = 0x4206;
    if matches!(request, ATTACH | SEIZE) {
        look_into(process);
    }
}

/// The C library's `ptrace`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: c_uint, process: c_int, address: usize, data: usize) -> isize {
    const PEEKS: core::ops::RangeInclusive<c_uint> = 1..=3;
    before_tracing(request as usize, sys::arg(process));
    let mut word = 0_isize;
    let peeks = PEEKS.contains(&request);
    let data = if peeks {
        core::ptr::from_mut(&mut word) as usize
    } else {
        data
    };
    // SAFETY: the program's own call.
    match unsafe { sys::call5(sys::PTRACE, request as usize, sys::arg(process), address, data, 0) } {
        Ok(_) if peeks => hooks::fail(Errno(0), word),
        Ok(answer) => answer.cast_signed(),
        Err(errno) => hooks::fail(errno, -1),
    }
}
