//! Failures to inject, for tests and drills.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is to go wrong. All of it may be changed while transfers are under way.
#[derive(Debug, Default)]
pub struct Faults {
    /// Reads until one fails, that one included; 0 for none.
    read_in: AtomicU64,
    /// Writes until one fails, that one included; 0 for none.
    write_in: AtomicU64,
    all_reads: AtomicBool,
    all_writes: AtomicBool,
}

impl Faults {
    /// The `n`th read from now on fails with `EIO` (1 is the next); 0 takes the order back.
    pub fn fail_read(&self, n: u64) {
        self.read_in.store(n, Ordering::Relaxed);
    }

    /// The `n`th write from now on fails with `EIO` (1 is the next); 0 takes the order back.
    pub fn fail_write(&self, n: u64) {
        self.write_in.store(n, Ordering::Relaxed);
    }

    /// Every read fails with `EIO`, until told otherwise.
    pub fn fail_all_reads(&self, fail: bool) {
        self.all_reads.store(fail, Ordering::Relaxed);
    }

    /// Every write fails with `EIO`, until told otherwise.
    pub fn fail_all_writes(&self, fail: bool) {
        self.all_writes.store(fail, Ordering::Relaxed);
    }

    /// Whether the read now submitted is to fail.
    pub(crate) fn strike_read(&self) -> bool {
        count_down(&self.read_in) || self.all_reads.load(Ordering::Relaxed)
    }

    /// Whether the write now submitted is to fail.
    pub(crate) fn strike_write(&self) -> bool {
        count_down(&self.write_in) || self.all_writes.load(Ordering::Relaxed)
    }
}

/// Counts down to zero and stays there; true when it arrives.
fn count_down(counter: &AtomicU64) -> bool {
    if counter.load(Ordering::Relaxed) == 0 {
        return false;
    }
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok_and(|left| left == 1)
}

#[cfg(test)]
mod tests {
    use super::Faults;

    #[test]
    fn the_nth_transfer_is_struck_once() {
        let faults = Faults::default();
        faults.fail_read(2);
        assert_eq!([(); 4].map(|()| faults.strike_read()), [false, true, false, false]);
        assert!(!faults.strike_write());
        faults.fail_all_writes(true);
        assert!(faults.strike_write() && faults.strike_write());
    }
}
