//! The modules that are loaded into this process.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::call::Call;
use super::output::Output;
use super::thread;
use crate::status::{Status, ThreadRow};

/// Modules that a process can have.
pub(crate) const MODULES: usize = 64;

/// A loaded module, as its threads know it.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) status: Status,
    pub(crate) output: Output,
    actions: [Action; 32],
}

/// What a signal does, or [`None`] where it is ignored.
#[derive(Debug, Default)]
struct Action {
    handler: AtomicPtr<libc::c_void>,
    mask: AtomicU32,
}

/// A signal's handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handler {
    function: *mut libc::c_void,
    pub(crate) mask: u32,
}

static TABLE: [AtomicPtr<Module>; MODULES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MODULES];

thread_local! {
    /// The module on whose behalf a thread that is no real-time thread calls.
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Adds a module; its place.
pub(crate) fn add(status: Status) -> Option<usize> {
    let module = Box::into_raw(Box::new(Module {
        status,
        output: Output::new(),
        actions: Default::default(),
    }));
    let free = |place: &AtomicPtr<Module>| {
        place
            .compare_exchange(std::ptr::null_mut(), module, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let index = TABLE.iter().position(free);
    if index.is_none() {
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(module) });
    }
    index
}

/// The module at a place.
pub(crate) fn at(index: usize) -> Option<&'static Module> {
    let pointer = TABLE.get(index)?.load(Ordering::Acquire);
    // SAFETY: null, or a module that is there until `remove`, which is called when nothing of it runs any more.
    unsafe { pointer.as_ref() }
}

/// Removes a module.
///
/// # Safety
/// None of its threads runs any more, nor any thread on its behalf.
pub(crate) unsafe fn remove(index: usize) {
    let Some(place) = TABLE.get(index) else { return };
    let pointer = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !pointer.is_null() {
        // SAFETY: from `Box::into_raw` in `add`, taken out once; the caller's promise.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Whose thread calls.
pub(crate) fn current() -> usize {
    thread::current().map_or_else(|| CURRENT.get(), |thread| thread.life.module.load(Ordering::Relaxed))
}

/// The descriptor of the page of status of the calling thread's module; 0 where it has none.
pub(crate) fn status_descriptor() -> u32 {
    let descriptor = at(current()).map(|module| module.status.area().descriptor());
    descriptor
        .and_then(|descriptor| u32::try_from(descriptor).ok())
        .unwrap_or(0)
}

/// Does `work` on behalf of a module.
pub(crate) fn on_behalf<R>(index: usize, work: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(index);
    let result = work();
    CURRENT.set(before);
    result
}

/// Changes the row that others see of a thread.
pub(crate) fn with_row(thread: &thread::Thread, change: impl FnOnce(&ThreadRow)) {
    if let Some(module) = at(thread.life.module.load(Ordering::Relaxed)) {
        change(module.status.row(thread.index()));
    }
}

/// Prints on behalf of the calling thread's module.
pub(crate) fn say(text: &str) {
    say_bytes(text.as_bytes());
}

/// As [`say`].
pub(crate) fn say_bytes(text: &[u8]) {
    let _call = Call::enter();
    if let Some(module) = at(current()) {
        module.output.add(text);
    }
}

/// Says once in a process that priorities above what Linux has are one.
pub(crate) fn say_once_that_order_is_lost() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        say("freehold rtl: priorities of 89 and more are all SCHED_FIFO 90: the order among them is lost\n");
    }
}

/// A signal's handler in a module; None where the signal is ignored.
pub(crate) fn action(module: usize, signal: u32) -> Option<Handler> {
    let action = at(module)?.actions.get(usize::try_from(signal).ok()?)?;
    let function = action.handler.load(Ordering::Acquire);
    // SIG_DFL and SIG_IGN are not functions.
    (function.addr() > 1).then(|| Handler {
        function,
        mask: action.mask.load(Ordering::Relaxed),
    })
}

/// Sets a signal's handler in the calling thread's module; the handler and mask before.
pub(crate) fn set_action(signal: u32, new: Option<(*mut libc::c_void, u32)>) -> Option<(*mut libc::c_void, u32)> {
    let action = at(current())?.actions.get(usize::try_from(signal).ok()?)?;
    let before = (
        action.handler.load(Ordering::Acquire),
        action.mask.load(Ordering::Relaxed),
    );
    if let Some((function, mask)) = new {
        action.mask.store(mask, Ordering::Relaxed);
        action.handler.store(function, Ordering::Release);
    }
    Some(before)
}

impl Handler {
    /// Calls it. RTLinux hands over the signal; handlers that want more get nothing.
    pub(crate) fn run(self, signal: u32) {
        // SAFETY: the program set it as a handler of signals: a function that takes a number, and may take pointers.
        let function: extern "C-unwind" fn(i32, *mut libc::c_void, *mut libc::c_void) =
            unsafe { std::mem::transmute(self.function) };
        function(signal.cast_signed(), std::ptr::null_mut(), std::ptr::null_mut());
    }
}
