//! Whether a call on a lent userfaultfd is under way.
//!
//! Every such call waits for the address space that the userfaultfd is of, and who lent it may keep that for as long as
//! he likes. So somebody else can see whether a call is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Begins and ends of calls on one userfaultfd, of which one is made at a time. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<AtomicU64>);

impl Calls {
    /// Makes a call. Async-signal-safe.
    pub(super) fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = call();
        self.0.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Whether a call has begun and not ended.
    #[must_use]
    pub fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Relaxed) % 2 == 1
    }

    /// Whether the userfaultfd is gone: only clones are left.
    #[must_use]
    pub fn are_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;

    #[test]
    fn a_call_is_seen_while_it_is_under_way() {
        let calls = Calls::default();
        let watched = calls.clone();
        assert!(!watched.are_under_way() && !watched.are_over());
        calls.during(|| assert!(watched.are_under_way()));
        assert!(!watched.are_under_way());
        drop(calls);
        assert!(watched.are_over());
    }
}
