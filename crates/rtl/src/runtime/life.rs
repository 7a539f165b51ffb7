//! Threads' beginning and end.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use freehold_linux::{ThreadId, clock, futex};

use super::call::Call;
use super::thread::{ENDED, FREE, LIVE, MAGIC, Thread, current, set_current};
use super::{cpus, exclusion, held, modules, nudge, waiting};

/// The greatest priority that programs can give.
pub(crate) const GREATEST_PRIORITY: i64 = 1_000_000;

/// The greatest one that Linux is asked for: above it are the kernel's own threads, and the ceiling of exclusion.
const GREATEST_SYSTEM_PRIORITY: i64 = 90;

/// A thread's stack holds at least this: what the C library's own functions need.
const LEAST_STACK: usize = 256 * 1024;

/// What of a stack is touched before the program's function begins, so that no fault comes later.
const TOUCHED_STACK: usize = 64 * 1024;

/// How long a thread that is deleted may take to end.
pub(crate) const DELETE_WITHIN: Duration = Duration::from_secs(1);

/// How often who joins a thread that is to end asks it again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a program wants of a new thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) priority: i64,
    pub(crate) cpu: Option<u32>,
    pub(crate) stack: usize,
    pub(crate) detached: bool,
}

/// The priority that Linux gets for a program's own.
pub(crate) fn system_priority(priority: i64) -> i32 {
    i32::try_from((priority + 1).min(GREATEST_SYSTEM_PRIORITY)).unwrap_or(1)
}

/// A new thread, whose pointer is at `place` before it runs. The error is a number of `errno`.
///
/// # Safety
/// `place` can be written; `start` is a function that takes `argument`.
pub(crate) unsafe fn create(
    place: *mut *mut Thread,
    wanted: Wanted,
    start: *mut libc::c_void,
    argument: *mut libc::c_void,
) -> i32 {
    // A thread that is deleted meanwhile leaves no half-made one behind, nor a lock of the C library's.
    let _call = Call::enter();
    let Some(thread) = Thread::claim() else {
        return libc::EAGAIN;
    };
    let life = &thread.life;
    life.start.store(start, Ordering::Relaxed);
    life.argument.store(argument, Ordering::Relaxed);
    life.detached.store(wanted.detached, Ordering::Relaxed);
    life.module.store(modules::current(), Ordering::Relaxed);
    thread.schedule.priority.store(wanted.priority, Ordering::Relaxed);
    let cpu = wanted.cpu.unwrap_or_else(cpus::default);
    thread.schedule.cpu.store(cpu, Ordering::Relaxed);
    if wanted.priority + 1 > GREATEST_SYSTEM_PRIORITY {
        modules::say_once_that_order_is_lost();
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(thread.pointer()) };
    // SAFETY: `thread` lives for ever, and `run` takes it.
    let refused = unsafe { spawn(thread, &wanted, cpu) };
    if refused != 0 {
        thread.magic.store(0, Ordering::Release);
        life.state.store(FREE, Ordering::Release);
        if refused == libc::EPERM {
            modules::say(
                "real-time scheduling is refused: run as root or allow it with ulimit -r; see freehold doctor\n",
            );
        }
    }
    refused
}

/// # Safety
/// `thread` is claimed, its start is a function that takes its argument.
unsafe fn spawn(thread: &'static Thread, wanted: &Wanted, cpu: u32) -> i32 {
    let mut library: libc::pthread_t = 0;
    // SAFETY: attributes and sets are initialised before use and destroyed after it.
    let refused = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(
            &raw mut attributes,
            wanted.stack.max(LEAST_STACK).next_multiple_of(4096),
        );
        libc::pthread_attr_setinheritsched(&raw mut attributes, libc::PTHREAD_EXPLICIT_SCHED);
        libc::pthread_attr_setschedpolicy(&raw mut attributes, libc::SCHED_OTHER);
        let none = libc::sched_param { sched_priority: 0 };
        libc::pthread_attr_setschedparam(&raw mut attributes, &raw const none);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(cpu).unwrap_or(0).min(1023), &mut set);
        libc::pthread_attr_setaffinity_np(&raw mut attributes, size_of::<libc::cpu_set_t>(), &raw const set);
        let argument = std::ptr::from_ref(thread).cast_mut().cast();
        let refused = libc::pthread_create(&raw mut library, &raw const attributes, run, argument);
        libc::pthread_attr_destroy(&raw mut attributes);
        refused
    };
    if refused != 0 {
        return refused;
    }
    thread.life.library.store(library, Ordering::Release);
    // It begins on the time-sharing side and is raised: Linux puts a raised thread behind those of its priority, and
    // one that is lowered, as a new thread of a more urgent one would be, in front of them.
    let parameters = libc::sched_param {
        sched_priority: system_priority(wanted.priority),
    };
    // SAFETY: the thread waits at its gate, so it has not ended; valid parameters.
    let refused = unsafe { libc::pthread_setschedparam(library, libc::SCHED_FIFO, &raw const parameters) };
    let gate = &thread.life.gate;
    gate.store(if refused == 0 { 1 } else { 2 }, Ordering::Release);
    futex::wake(gate, 1);
    if refused != 0 {
        // SAFETY: a joinable thread that ends now.
        unsafe { libc::pthread_join(library, std::ptr::null_mut()) };
    }
    refused
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `create` hands over a thread of the table, which lives for ever.
    let thread: &'static Thread = unsafe { &*argument.cast_const().cast() };
    set_current(thread);
    nudge::set_mask();
    while thread.life.gate.load(Ordering::Acquire) == 0 {
        // However it ends, the gate is looked at again.
        let _ = futex::wait(&thread.life.gate, 0, None);
    }
    if thread.life.gate.load(Ordering::Acquire) == 2 {
        return std::ptr::null_mut();
    }
    touch_stack();
    let kernel = ThreadId::current().get();
    thread.life.kernel.store(kernel, Ordering::Release);
    // Whoever asks something of it sees that it runs, or it sees what is asked.
    fence(Ordering::SeqCst);
    modules::with_row(thread, |row| {
        row.cpu
            .store(thread.schedule.cpu.load(Ordering::Relaxed), Ordering::Relaxed);
        row.priority
            .store(thread.schedule.priority.load(Ordering::Relaxed), Ordering::Relaxed);
        row.period_ns
            .store(thread.release.period.load(Ordering::Relaxed), Ordering::Relaxed);
        row.periods.store(0, Ordering::Relaxed);
        row.missed.store(0, Ordering::Relaxed);
        row.thread.store(kernel, Ordering::Release);
    });
    if nudge::has_something(thread) {
        nudge::attend(thread);
    }
    let start = thread.life.start.load(Ordering::Relaxed);
    // SAFETY: the program's start function, as `create` was promised.
    let start: extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void = unsafe { std::mem::transmute(start) };
    let result = start(thread.life.argument.load(Ordering::Relaxed));
    finish(thread, result, false);
    std::ptr::null_mut()
}

fn touch_stack() {
    let mut bytes = [0_u8; TOUCHED_STACK];
    for place in bytes.iter_mut().step_by(freehold_linux::PAGE_SIZE) {
        // SAFETY: a reference to a byte of the array.
        unsafe { std::ptr::write_volatile(place, 1) };
    }
    std::hint::black_box(&mut bytes);
}

/// Ends the calling thread, wherever it is. It does not unwind: nothing of the runtime is on its stack that would have
/// to be dropped, and the C library's join waits for the kernel's own word.
pub(crate) fn end(thread: &'static Thread, result: *mut libc::c_void) -> ! {
    leave(thread, result, false)
}

/// As [`end`], of a thread that was cancelled.
pub(crate) fn end_cancelled(thread: &'static Thread) -> ! {
    // PTHREAD_CANCELED.
    leave(thread, std::ptr::without_provenance_mut(usize::MAX), true)
}

fn leave(thread: &'static Thread, result: *mut libc::c_void, cancelled: bool) -> ! {
    finish(thread, result, cancelled);
    // SAFETY: ends this thread only. Its structures are freed by who joins it.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("a thread that has ended")
}

/// `struct rtl_cleanup` of the header.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Cleanup {
    pub(crate) routine: Option<extern "C" fn(*mut libc::c_void)>,
    pub(crate) argument: *mut libc::c_void,
    pub(crate) previous: *mut Cleanup,
}

fn finish(thread: &Thread, result: *mut libc::c_void, cancelled: bool) {
    // From here on nothing interrupts it.
    thread.wake.depth.fetch_add(1, Ordering::Relaxed);
    waiting::abandon(thread, cancelled);
    loop {
        let cleanup: *mut Cleanup = thread.life.cleanup.load(Ordering::Relaxed).cast();
        if cleanup.is_null() {
            break;
        }
        // SAFETY: pushed by this thread, and on its stack, which is still there.
        let Cleanup {
            routine,
            argument,
            previous,
        } = unsafe { cleanup.read() };
        thread.life.cleanup.store(previous.cast(), Ordering::Relaxed);
        if let Some(routine) = routine {
            routine(argument);
        }
    }
    exclusion::release_all();
    held::release_all(thread);
    modules::with_row(thread, |row| row.thread.store(0, Ordering::Release));
    thread.life.result.store(result, Ordering::Relaxed);
    thread.life.kernel.store(0, Ordering::Release);
    thread.life.state.store(ENDED, Ordering::Release);
    futex::wake(&thread.life.state, u32::MAX);
}

/// Waits until `thread` has ended and frees what it had; its result. None when it did not end within `most`.
pub(crate) fn join(thread: &'static Thread, most: Option<Duration>) -> Option<*mut libc::c_void> {
    let until = most.map(|most| clock::now().saturating_add(most));
    while thread.life.state.load(Ordering::Acquire) == LIVE {
        if let Some(own) = current() {
            nudge::cancellation_point(own);
        }
        if until.is_some_and(|until| clock::now() >= until) {
            return None;
        }
        let look = clock::now().saturating_add(LOOK_AGAIN);
        let until = until.map_or(look, |until| until.min(look));
        // However it ends, the state is looked at again.
        let _ = futex::wait(&thread.life.state, LIVE, Some(until));
        let signals = &thread.signals;
        if signals.delete.load(Ordering::Relaxed) || signals.cancel.load(Ordering::Relaxed) {
            // It may have been about to sleep when it was asked to end.
            nudge::nudge(thread);
        }
    }
    let result = thread.life.result.load(Ordering::Relaxed);
    reap(thread);
    Some(result)
}

/// Frees what an ended thread had. Of several that try, one does.
fn reap(thread: &Thread) {
    // Who has taken it upon itself does it, though it be deleted meanwhile.
    let _call = Call::enter();
    let library = thread.life.library.swap(0, Ordering::AcqRel);
    if library == 0 {
        return;
    }
    // SAFETY: a joinable thread of this process that has ended or is about to, joined once: the swap sees to it.
    unsafe { libc::pthread_join(library, std::ptr::null_mut()) };
    thread.magic.store(0, Ordering::Release);
    thread.life.state.store(FREE, Ordering::Release);
}

/// Frees detached threads that have ended.
pub(crate) fn reap_detached(module: usize) {
    Thread::of_module(module)
        .filter(|thread| {
            thread.life.detached.load(Ordering::Relaxed) && thread.life.state.load(Ordering::Acquire) == ENDED
        })
        .for_each(reap);
}

/// Has `thread` end, and waits for that. False when it did not within [`DELETE_WITHIN`].
pub(crate) fn delete(thread: &'static Thread) -> bool {
    ask_to_end(thread);
    join(thread, Some(DELETE_WITHIN)).is_some()
}

fn ask_to_end(thread: &'static Thread) {
    thread.signals.delete.store(true, Ordering::Release);
    nudge::nudge(thread);
}

/// Has all threads of a module end. All are asked first: one may wait for what another holds.
pub(crate) fn delete_all_of(module: usize) -> bool {
    Thread::of_module(module).for_each(ask_to_end);
    Thread::of_module(module).map(delete).filter(|ended| !ended).count() == 0
}

/// Whether the structure is one that can be used.
pub(crate) fn is_usable(thread: &Thread) -> bool {
    thread.magic.load(Ordering::Acquire) == MAGIC
}
