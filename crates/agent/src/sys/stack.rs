//! A stack of this library's own, for what it does on the program's threads.
//!
//! A program may call `fork`, or make memory, on a stack that it has made as small as it may: an alternative stack for
//! a signal handler, a thread's of 16 KiB. Of that the hooks and fork handlers use little; what needs more, such as
//! packets to the server, is done on a stack that lies beside the table of the process. One thread at a time has it,
//! with all signals blocked: whoever has the mailbox's lock, or whoever connects.

use core::arch::asm;
use core::mem::{ManuallyDrop, MaybeUninit};

use crate::process::Process;

/// Bytes of the stack.
pub(crate) const BYTES: usize = 128 << 10;

struct Call<F, T> {
    function: ManuallyDrop<F>,
    answer: MaybeUninit<T>,
}

/// Runs `function` on the stack of this process.
///
/// # Safety
/// The caller has the stack: it holds the mailbox's lock of a client, or is the one that connects. All signals of the
/// calling thread are blocked, and `function` does not unwind.
pub(crate) unsafe fn run<F: FnOnce() -> T, T>(process: &Process, function: F) -> T {
    // SAFETY: the caller's word.
    unsafe { run_at(process.stack_top(), function) }
}

/// The same on the stack that ends at `top`.
///
/// # Safety
/// As for [`run`]; `top` is 16-byte aligned, with enough memory below it that is the caller's alone.
pub(crate) unsafe fn run_at<F: FnOnce() -> T, T>(top: usize, function: F) -> T {
    let mut call = Call {
        function: ManuallyDrop::new(function),
        answer: MaybeUninit::uninit(),
    };
    // SAFETY: the caller's word about the stack; `step` is given what it is made for.
    unsafe { switch(top, step::<F, T>, (&raw mut call).expose_provenance()) };
    // SAFETY: `step` has written it.
    unsafe { call.answer.assume_init() }
}

extern "C" fn step<F: FnOnce() -> T, T>(address: usize) {
    // SAFETY: `run` has made this structure, and waits.
    let call = unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Call<F, T>>(address) };
    // SAFETY: taken once.
    let function = unsafe { ManuallyDrop::take(&mut call.function) };
    call.answer.write(function());
}

/// Calls `function(argument)` with the stack pointer at `top`.
///
/// # Safety
/// `top` is 16-byte aligned with enough memory below that nobody else uses.
#[inline(never)]
unsafe fn switch(top: usize, function: extern "C" fn(usize), argument: usize) {
    // SAFETY: the stack pointer is back before the compiler's code goes on; a function keeps r12.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}
