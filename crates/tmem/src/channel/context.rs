//! One context in the memory of a channel.

use super::ARGUMENTS;
use crate::pi_word::PiWord;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nobody calls.
pub(super) const IDLE: u32 = 0;
/// A request is there, or is being served.
pub(super) const CALLED: u32 = 1;
/// The result is there.
pub(super) const DONE: u32 = 2;

/// Zeros are a context without a callee.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Context {
    /// Whose turn it is among the callers.
    pub(super) claim: PiWord,
    /// The callee's thread owns it from before the request until after the result.
    pub(super) call: PiWord,
    /// Counts requests; the callee's thread sleeps on it.
    pub(super) bell: AtomicU32,
    pub(super) state: AtomicU32,
    /// The callee's thread; 0 where there is none.
    pub(super) callee: AtomicU32,
    function: AtomicU32,
    arguments: [AtomicU64; ARGUMENTS],
    result: AtomicU64,
}

impl Context {
    pub(super) fn put_request(&self, function: u32, arguments: [u64; ARGUMENTS]) {
        self.function.store(function, Ordering::Relaxed);
        for (cell, argument) in self.arguments.iter().zip(arguments) {
            cell.store(argument, Ordering::Relaxed);
        }
        self.state.store(CALLED, Ordering::Release);
        self.bell.fetch_add(1, Ordering::Release);
    }

    pub(super) fn request(&self) -> (u32, [u64; ARGUMENTS]) {
        let arguments = std::array::from_fn(|at| self.arguments[at].load(Ordering::Relaxed));
        (self.function.load(Ordering::Relaxed), arguments)
    }

    pub(super) fn put_result(&self, result: i64) {
        self.result.store(result.cast_unsigned(), Ordering::Relaxed);
        self.state.store(DONE, Ordering::Release);
    }

    /// What a callee that has died leaves: nobody to wait for. Another may have taken its place already. For who has
    /// the claim.
    pub(super) fn bury(&self, callee: u32) {
        self.call.reset();
        if self
            .callee
            .compare_exchange(callee, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            self.state.store(IDLE, Ordering::Release);
        }
    }

    pub(super) fn result(&self) -> i64 {
        self.result.load(Ordering::Relaxed).cast_signed()
    }
}
