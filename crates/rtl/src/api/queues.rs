//! Message queues: `mqueue.h`. They are Linux's own, so all modules of a user's directory see the same ones. Errors
//! are `errno`.

use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};

use super::{failed, given};
use crate::directory::Directory;
use crate::runtime::call::Call;
use crate::runtime::nudge;
use crate::runtime::thread::{Thread, current};

/// How often a wait looks whether a signal's handler ran just before it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A name is no longer: Linux has room for some more.
const LONGEST_NAME: usize = 200;

/// The name under which Linux has a queue: another directory's queues are others.
fn system_name(name: *const libc::c_char) -> Result<CString, i32> {
    if name.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: not null, so a string that ends, as the C API wants it.
    let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| libc::EINVAL)?;
    let name = name.strip_prefix('/').unwrap_or(name);
    if name.is_empty() || name.contains('/') {
        return Err(libc::EINVAL);
    }
    if name.len() > LONGEST_NAME {
        return Err(libc::ENAMETOOLONG);
    }
    let directory = Directory::open().map_err(|_| libc::EACCES)?;
    // FNV-1a: only to tell directories apart.
    let place = directory.path().as_os_str().as_encoded_bytes();
    let key = place.iter().fold(0xcbf2_9ce4_8422_2325_u64, |key, byte| {
        (key ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    CString::new(format!("/freehold-rtl-{key:016x}-{name}")).map_err(|_| libc::EINVAL)
}

/// `mq_open`: EINVAL for no name. The mode is the user's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mq_open(
    name: *const libc::c_char,
    flags: i32,
    attributes: *const libc::mq_attr,
) -> libc::mqd_t {
    let _call = Call::enter();
    match system_name(name) {
        // SAFETY: a string that ends; null or valid attributes, as the C API wants it.
        Ok(name) => unsafe { libc::mq_open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o600, attributes) },
        Err(errno) => failed(errno),
    }
}

/// `mq_unlink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mq_unlink(name: *const libc::c_char) -> i32 {
    let _call = Call::enter();
    match system_name(name) {
        // SAFETY: a string that ends.
        Ok(name) => unsafe { libc::mq_unlink(name.as_ptr()) },
        Err(errno) => failed(errno),
    }
}

/// `mq_send`, and `mq_timedsend` where `until` is not null: ETIMEDOUT, EAGAIN, EMSGSIZE, EINTR, EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mq_send(
    queue: libc::mqd_t,
    message: *const libc::c_char,
    bytes: usize,
    priority: u32,
    until: *const libc::timespec,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let until = unsafe { given(until) };
    // SAFETY: the message is as long as the program says, as the C API wants it; the time lives through the call.
    let done = wait(until, |at| unsafe {
        i64::from(libc::mq_timedsend(queue, message, bytes, priority, &raw const at))
    });
    done.map_or_else(failed, |_| 0)
}

/// `mq_receive`, and `mq_timedreceive` where `until` is not null; the message's length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mq_receive(
    queue: libc::mqd_t,
    buffer: *mut libc::c_char,
    bytes: usize,
    priority: *mut u32,
    until: *const libc::timespec,
) -> isize {
    // SAFETY: null or valid, as the C API wants it.
    let until = unsafe { given(until) };
    // SAFETY: the buffer is as long as the program says, the priority's place null or valid, as the C API wants it.
    let done = wait(until, |at| unsafe {
        libc::mq_timedreceive(queue, buffer, bytes, priority, &raw const at) as i64
    });
    match done {
        Ok(length) => isize::try_from(length).unwrap_or(isize::MAX),
        Err(errno) => {
            failed(errno);
            -1
        }
    }
}

/// Tries until it is done, refused, `until` has come, or a signal's handler has run. May be cancelled meanwhile.
fn wait(until: Option<&libc::timespec>, attempt: impl Fn(libc::timespec) -> i64) -> Result<i64, i32> {
    if until.is_some_and(|until| !(0..1_000_000_000).contains(&until.tv_nsec)) {
        // A time is looked at only where it has to be waited for.
        let past = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        return match tried(attempt(past)) {
            Err(libc::ETIMEDOUT) => Err(libc::EINVAL),
            result => result,
        };
    }
    let until = until.map(|until| u64::try_from(super::time::nanoseconds(until)).unwrap_or(0));
    let until = until.map(MonotonicTime::from_nanos);
    let Some(thread) = current() else {
        return wait_in(None, until, attempt);
    };
    // A thread that is nudged from now on is ended in the signal's handler, which has to know.
    let before = thread.signals.at_cancellation_point.swap(true, Ordering::Relaxed);
    let result = wait_in(Some(thread), until, attempt);
    thread.signals.at_cancellation_point.store(before, Ordering::Relaxed);
    result
}

fn wait_in(
    thread: Option<&'static Thread>,
    until: Option<MonotonicTime>,
    attempt: impl Fn(libc::timespec) -> i64,
) -> Result<i64, i32> {
    let handlers = || thread.map(|thread| thread.signals.handled.load(Ordering::Acquire));
    let handled = handlers();
    loop {
        if let Some(thread) = thread {
            nudge::cancellation_point(thread);
        }
        let look = clock::now().saturating_add(LOOK_AGAIN);
        let errno = match tried(attempt(wall_time(until.map_or(look, |until| until.min(look))))) {
            Err(errno) => errno,
            done => return done,
        };
        if handlers() != handled {
            return Err(libc::EINTR);
        }
        match errno {
            libc::EINTR => {}
            libc::ETIMEDOUT if until.is_none_or(|until| clock::now() < until) => {}
            _ => return Err(errno),
        }
    }
}

/// What a system call has answered.
fn tried(result: i64) -> Result<i64, i32> {
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: a valid pointer to this thread's errno.
    Err(unsafe { *libc::__errno_location() })
}

/// A time of the programs' clocks on Linux's wall clock, by which its queues wait.
fn wall_time(time: MonotonicTime) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let ahead = time.as_nanos().cast_signed() - clock::now().as_nanos().cast_signed();
    super::time::timespec(super::time::nanoseconds(&now).saturating_add(ahead).max(0))
}

/// `mq_close`: EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_mq_close(queue: libc::mqd_t) -> i32 {
    // SAFETY: touches no memory of this process.
    unsafe { libc::mq_close(queue) }
}

/// `mq_getattr`, `mq_setattr`: EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_mq_attributes(
    queue: libc::mqd_t,
    new: *const libc::mq_attr,
    before: *mut libc::mq_attr,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    unsafe {
        if new.is_null() {
            libc::mq_getattr(queue, before)
        } else {
            libc::mq_setattr(queue, new, before)
        }
    }
}
