//! Calls that the agent's threads make while they carry out orders, or wait for some, and that are never the program's.
//!
//! One instruction makes them all: a filter of system calls that binds those threads lets them pass, and knows them by
//! where they are made ([`own_calls`](crate::filters::own_calls)).

use super::{Answer, MADVISE};

unsafe extern "C" {
    /// One system call, made by the one instruction before [`freehold_agent_called`].
    fn freehold_agent_call(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize) -> isize;
    /// Where that goes on.
    fn freehold_agent_called();
}

core::arch::global_asm!(
    ".hidden freehold_agent_call, freehold_agent_called",
    ".globl freehold_agent_call, freehold_agent_called",
    "freehold_agent_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "xor r9d, r9d",
    "syscall",
    "freehold_agent_called:",
    "ret",
);

/// One call.
///
/// # Safety
/// As the call asks for.
pub(crate) unsafe fn call(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize) -> Answer {
    // SAFETY: the caller's word.
    super::answer(unsafe { freehold_agent_call(number, a, b, c, d, e) })
}

/// Where the kernel sees such a call made.
pub(crate) fn place() -> usize {
    freehold_agent_called as *const () as usize
}

/// Advice about memory of this library, or of the program where an order says so.
///
/// # Safety
/// Nobody relies on what the advice takes away.
pub(crate) unsafe fn madvise(address: usize, length: usize, advice: usize) -> Answer {
    // SAFETY: the caller's word.
    unsafe { call(MADVISE, address, length, advice, 0, 0) }
}
