//! Running a function on another stack.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Result as Caught;

/// Runs `work` on the stack that ends at `top`, and returns what it returns. A panic goes on on the calling stack.
///
/// # Safety
/// The memory below `top` is a stack that is long enough, aligned to 16 bytes, with a guard below, and nobody else's
/// until this returns. The thread must not be made to unwind from outside meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn on_stack<T, F: FnOnce() -> T>(top: *mut u8, work: F) -> T {
    let mut task: Task<T, F> = Task {
        work: Some(work),
        result: None,
    };
    let entry: unsafe extern "C" fn(*mut Task<T, F>) = run::<T, F>;
    // SAFETY: the stack is the caller's to use; r12 is preserved by the function that is called, and holds the present
    // stack meanwhile. The task lives on that one until after the call.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {entry}",
            "mov rsp, r12",
            top = in(reg) top,
            entry = in(reg) entry,
            in("rdi") &raw mut task,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    match task.result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the function has run"),
    }
}

struct Task<T, F> {
    work: Option<F>,
    result: Option<Caught<T>>,
}

/// # Safety
/// `task` is a live task that nobody else uses.
unsafe extern "C" fn run<T, F: FnOnce() -> T>(task: *mut Task<T, F>) {
    // SAFETY: the caller's.
    let task = unsafe { &mut *task };
    // Nothing can be unwound through the switch.
    task.result = task.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
}
