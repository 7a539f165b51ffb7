//! Threads: `pthread.h`, `rtl_sched.h`.

use std::sync::atomic::Ordering;

use super::attributes::{Attributes, wanted};
use super::given;
use crate::runtime::life::{self, Cleanup, GREATEST_PRIORITY};
use crate::runtime::thread::{ENDED, Thread, current};
use crate::runtime::{modules, nudge, release};

/// A thread, as programs hold it.
type Pointer = *mut Thread;

// As in the system's pthread.h, from which programs have them.
const CANCEL_ENABLE: i32 = 0;
const CANCEL_DISABLE: i32 = 1;
const CANCEL_DEFERRED: i32 = 0;
const CANCEL_ASYNCHRONOUS: i32 = 1;

/// `pthread_create`: EAGAIN without memory or room for threads, EPERM where Linux refuses real-time scheduling.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_pthread_create(
    place: *mut Pointer,
    attributes: *const Attributes,
    start: *mut libc::c_void,
    argument: *mut libc::c_void,
) -> i32 {
    if place.is_null() || start.is_null() {
        return libc::EINVAL;
    }
    life::reap_detached(modules::current());
    // SAFETY: null or valid, as the C API wants it.
    match wanted(unsafe { given(attributes) }) {
        // SAFETY: `place` is not null, and `start` is the program's function.
        Ok(wanted) => unsafe { life::create(place, wanted, start, argument) },
        Err(errno) => errno,
    }
}

/// `pthread_self`; Linux in `init_module`, in `cleanup_module` and in handlers that no thread of a module runs.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_self() -> Pointer {
    current().unwrap_or_else(Thread::linux).pointer()
}

/// `pthread_linux`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_linux() -> Pointer {
    Thread::linux().pointer()
}

/// Why what a pointer names cannot be asked: Linux is no thread that a module could release, suspend or end.
pub(super) fn refusal(thread: Pointer) -> i32 {
    if Thread::is_linux(thread) {
        libc::EINVAL
    } else {
        libc::ESRCH
    }
}

/// `pthread_equal`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_equal(one: Pointer, other: Pointer) -> i32 {
    i32::from(std::ptr::eq(one, other))
}

/// `pthread_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_pthread_exit(result: *mut libc::c_void) {
    if let Some(thread) = current() {
        life::end(thread, result);
    }
    modules::say("freehold rtl: pthread_exit outside a thread of a module is ignored\n");
}

/// `pthread_join`: ESRCH, EINVAL for a detached thread, EDEADLK for the calling one. Of the result so many bytes are
/// written as the program's place holds.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_pthread_join(thread: Pointer, place: *mut u8, bytes: usize) -> i32 {
    let Some(thread) = Thread::named(thread) else {
        return refusal(thread);
    };
    if current().is_some_and(|own| std::ptr::eq(own, thread)) {
        return libc::EDEADLK;
    }
    if thread.life.detached.load(Ordering::Relaxed) {
        return libc::EINVAL;
    }
    let value = life::join(thread, None)
        .unwrap_or_default()
        .expose_provenance()
        .to_ne_bytes();
    if !place.is_null() {
        // SAFETY: not null, so valid for as many bytes as the compiler says, as the C API wants it; aligned or not.
        unsafe { place.copy_from_nonoverlapping(value.as_ptr(), bytes.min(value.len())) };
    }
    0
}

/// `pthread_detach`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_detach(thread: Pointer) -> i32 {
    match Thread::named(thread) {
        Some(thread) => {
            thread.life.detached.store(true, Ordering::Relaxed);
            0
        }
        None => refusal(thread),
    }
}

/// `pthread_cancel`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_cancel(thread: Pointer) -> i32 {
    match Thread::named(thread) {
        Some(thread) => {
            thread.signals.cancel.store(true, Ordering::Release);
            nudge::nudge(thread);
            0
        }
        None => refusal(thread),
    }
}

/// `pthread_testcancel`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_pthread_testcancel() {
    if let Some(thread) = current() {
        nudge::cancellation_point(thread);
    }
}

/// `pthread_setcancelstate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_setcancelstate(state: i32, before: *mut i32) -> i32 {
    let Some(thread) = current() else { return libc::EINVAL };
    if state != CANCEL_ENABLE && state != CANCEL_DISABLE {
        return libc::EINVAL;
    }
    let disabled = &thread.signals.cancel_disabled;
    let was = disabled.swap(state == CANCEL_DISABLE, Ordering::AcqRel);
    if !before.is_null() {
        let was = if was { CANCEL_DISABLE } else { CANCEL_ENABLE };
        // SAFETY: not null, so valid for writes, as the C API wants it.
        unsafe { before.write(was) };
    }
    0
}

/// `pthread_setcanceltype`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_setcanceltype(kind: i32, before: *mut i32) -> i32 {
    let Some(thread) = current() else { return libc::EINVAL };
    if kind != CANCEL_DEFERRED && kind != CANCEL_ASYNCHRONOUS {
        return libc::EINVAL;
    }
    let at_once = &thread.signals.cancel_at_once;
    let was = at_once.swap(kind == CANCEL_ASYNCHRONOUS, Ordering::AcqRel);
    if !before.is_null() {
        let was = if was { CANCEL_ASYNCHRONOUS } else { CANCEL_DEFERRED };
        // SAFETY: not null, so valid for writes, as the C API wants it.
        unsafe { before.write(was) };
    }
    0
}

/// `pthread_cleanup_push`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_cleanup_push(cleanup: *mut Cleanup) {
    let Some(thread) = current() else { return };
    let innermost = &thread.life.cleanup;
    // SAFETY: the macro passes a structure on the calling thread's stack.
    unsafe { (*cleanup).previous = innermost.load(Ordering::Relaxed).cast() };
    innermost.store(cleanup.cast(), Ordering::Relaxed);
}

/// `pthread_cleanup_pop`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_cleanup_pop(cleanup: *mut Cleanup, execute: i32) {
    // SAFETY: what the macro pushed, still on the stack.
    let Cleanup {
        routine,
        argument,
        previous,
    } = unsafe { cleanup.read() };
    if let Some(thread) = current() {
        thread.life.cleanup.store(previous.cast(), Ordering::Relaxed);
    }
    if let (true, Some(routine)) = (execute != 0, routine) {
        routine(argument);
    }
}

/// `pthread_setschedparam`: EINVAL outside 0 to 1,000,000. Priority p is SCHED_FIFO min(1 + p, 90).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_pthread_setschedparam(
    thread: Pointer,
    _policy: i32,
    parameters: *const libc::sched_param,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(wanted) = (unsafe { given(parameters) }) else {
        return libc::EINVAL;
    };
    let priority = i64::from(wanted.sched_priority);
    if !(0..=GREATEST_PRIORITY).contains(&priority) {
        return libc::EINVAL;
    }
    if Thread::is_linux(thread) {
        // Recorded: Linux runs when no real-time thread does.
        Thread::linux().schedule.priority.store(priority, Ordering::Relaxed);
        return 0;
    }
    let Some(thread) = Thread::named(thread).filter(|thread| thread.is_live()) else {
        return libc::ESRCH;
    };
    let parameters = libc::sched_param {
        sched_priority: life::system_priority(priority),
    };
    if parameters.sched_priority <= i32::try_from(priority).unwrap_or(i32::MAX) {
        modules::say_once_that_order_is_lost();
    }
    thread.schedule.priority.store(priority, Ordering::Relaxed);
    modules::with_row(thread, |row| row.priority.store(priority, Ordering::Relaxed));
    let own = current().is_some_and(|own| std::ptr::eq(own, thread));
    let kernel = thread.life.kernel.load(Ordering::Acquire).cast_signed();
    // SAFETY: valid parameters; the identifier is 0 for the calling thread, or of a thread of this process.
    let refused = unsafe {
        if own || kernel != 0 {
            let whom = if own { 0 } else { kernel };
            libc::sched_setscheduler(whom, libc::SCHED_FIFO, &raw const parameters)
        } else {
            // It has not begun: the library knows it.
            libc::pthread_setschedparam(
                thread.life.library.load(Ordering::Acquire),
                libc::SCHED_FIFO,
                &raw const parameters,
            )
        }
    };
    if refused == 0 { 0 } else { libc::EPERM }
}

/// `pthread_getschedparam`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_pthread_getschedparam(
    thread: Pointer,
    policy: *mut i32,
    parameters: *mut libc::sched_param,
) -> i32 {
    let linux = Thread::is_linux(thread).then(Thread::linux);
    let Some(thread) = Thread::named(thread).or(linux) else {
        return libc::ESRCH;
    };
    // SAFETY: null or valid, as the C API wants it.
    if let Some(policy) = unsafe { policy.as_mut() } {
        *policy = libc::SCHED_FIFO;
    }
    // SAFETY: null or valid, as the C API wants it.
    if let Some(parameters) = unsafe { parameters.as_mut() } {
        let priority = thread.schedule.priority.load(Ordering::Relaxed);
        parameters.sched_priority = i32::try_from(priority).unwrap_or(i32::MAX);
    }
    0
}

/// `pthread_make_periodic_np`: EINVAL for negative times, and for Linux. Period 0 is one release.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_make_periodic_np(thread: Pointer, start: i64, period: i64) -> i32 {
    let Some(thread) = Thread::named(thread) else {
        return refusal(thread);
    };
    match (u64::try_from(start.max(0)), u64::try_from(period)) {
        (Ok(start), Ok(period)) => {
            release::make_periodic(thread, start, period);
            0
        }
        _ => libc::EINVAL,
    }
}

/// `pthread_setperiod_np`: the same, by a POSIX structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rtl_pthread_setperiod_np(thread: Pointer, times: *const libc::itimerspec) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(times) = (unsafe { given(times) }) else {
        return libc::EINVAL;
    };
    let start = super::time::nanoseconds(&times.it_value);
    rtl_pthread_make_periodic_np(thread, start, super::time::nanoseconds(&times.it_interval))
}

/// `pthread_wait_np`: until the next release, or a wake-up; a thread that is not periodic until a wake-up.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_pthread_wait_np() -> i32 {
    let Some(thread) = current() else { return libc::EINVAL };
    release::wait(thread);
    0
}

/// `pthread_suspend_np`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_suspend_np(thread: Pointer) -> i32 {
    let Some(thread) = Thread::named(thread) else {
        return refusal(thread);
    };
    if current().is_some_and(|own| std::ptr::eq(own, thread)) {
        nudge::suspend_itself(thread);
    } else {
        thread.wake.suspended.store(true, Ordering::Release);
        nudge::nudge(thread);
    }
    0
}

/// `pthread_wakeup_np`. A wake-up that comes before the sleep ends it at once.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_wakeup_np(thread: Pointer) -> i32 {
    let Some(thread) = Thread::named(thread) else {
        return refusal(thread);
    };
    thread.wake.token.store(true, Ordering::Release);
    thread.rouse();
    0
}

/// `pthread_delete_np`: the thread ends wherever it is, and is gone when this returns. EBUSY when it does not end
/// within a second.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_delete_np(thread: Pointer) -> i32 {
    let Some(thread) = Thread::named(thread) else {
        return refusal(thread);
    };
    if let Some(own) = current().filter(|own| std::ptr::eq(*own, thread)) {
        life::end(own, std::ptr::null_mut());
    }
    if thread.life.state.load(Ordering::Acquire) == ENDED || life::is_usable(thread) {
        return if life::delete(thread) { 0 } else { libc::EBUSY };
    }
    libc::ESRCH
}

/// `pthread_setfp_np`: every thread may use floating point.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_setfp_np(_thread: Pointer, _flag: i32) -> i32 {
    0
}

/// `pthread_getcpu_np`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_pthread_getcpu_np(thread: Pointer) -> i32 {
    Thread::named(thread).map_or(-1, |thread| thread.schedule.cpu.load(Ordering::Relaxed).cast_signed())
}

/// `sched_get_priority_max`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_sched_get_priority_max(_policy: i32) -> i32 {
    i32::try_from(GREATEST_PRIORITY).unwrap_or(i32::MAX)
}

/// `sched_get_priority_min`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_sched_get_priority_min(_policy: i32) -> i32 {
    0
}

/// `sched_yield`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_sched_yield() -> i32 {
    // SAFETY: touches no memory.
    unsafe { libc::sched_yield() }
}

/// `RTL_MARK_SUSPENDED`: the calling thread is suspended when it next calls `rtl_schedule`, another one now.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn rtl_mark_suspended(thread: Pointer) {
    match current().filter(|own| std::ptr::eq(own.pointer(), thread)) {
        Some(own) => own.wake.marked.store(true, Ordering::Relaxed),
        // A pointer that names no thread is nobody to be suspended.
        None => drop(rtl_pthread_suspend_np(thread)),
    }
}

/// `rtl_schedule`: attends to what was asked of the calling thread, sleeps where it is marked, then yields.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_schedule() -> i32 {
    if let Some(thread) = current().filter(|thread| thread.wake.marked.swap(false, Ordering::Relaxed)) {
        nudge::suspend_itself(thread);
    }
    if let Some(thread) = current().filter(|thread| nudge::has_something(thread)) {
        nudge::attend(thread);
    }
    rtl_sched_yield()
}
