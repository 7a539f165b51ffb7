//! The kernel's part of a call, by the kernel.

use super::protocol::Kernel;
use crate::pi_word::PiWord;
use crate::wait::lock_patiently;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_word::{LockWordError, Scope, unlock};
use freehold_linux::{futex, sched};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Until when a thread waits for words; for ever if `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct System(Option<MonotonicTime>);

impl System {
    pub(super) fn until_after(bound: Duration) -> Self {
        Self(Some(clock::now().saturating_add(bound)))
    }

    /// For a callee's thread, which waits for no word here.
    pub(super) const fn without_bound() -> Self {
        Self(None)
    }
}

impl Kernel for System {
    fn lock(&self, word: &PiWord) -> Result<(), LockWordError> {
        lock_patiently(word.raw(), Scope::Shared, self.0)
    }

    fn unlock(&self, word: &PiWord) {
        // The only refusal is of a word that was overwritten.
        let _ = unlock(word.raw(), Scope::Shared);
    }

    fn wake(&self, doorbell: &AtomicU32) {
        futex::wake_shared(doorbell, 1);
    }

    fn sleep(&self, doorbell: &AtomicU32, asleep: u32) {
        // Its end has no other cause than a ring, a signal, or memory that is gone with the process.
        let _ = futex::wait_shared(doorbell, asleep, None);
    }

    fn is_late(&self) -> bool {
        self.0.is_some_and(|until| clock::now() >= until)
    }

    fn cpu(&self) -> u32 {
        sched::current_cpu()
    }
}
