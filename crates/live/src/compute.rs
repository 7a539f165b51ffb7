//! Computation that is really spent: CPU time, not time on the clock.

use std::time::Duration;

use freehold_linux::clock;

/// Shorter computation is saved up, because looking at the thread's CPU clock costs a third of a microsecond.
const LEAST: Duration = Duration::from_micros(20);

/// Spends CPU time in small portions, exactly over a job.
#[derive(Debug, Default)]
pub(crate) struct Computation {
    /// Owed and not spent yet.
    owed: Duration,
    /// Spent too much, the last time.
    ahead: Duration,
}

impl Computation {
    /// Owes some more, and spends what is worth it.
    pub(crate) fn add(&mut self, span: Duration) {
        self.owed += span;
        if self.owed >= LEAST {
            self.finish();
        }
    }

    /// Spends what is owed.
    pub(crate) fn finish(&mut self) {
        let settled = self.owed.min(self.ahead);
        self.owed -= settled;
        self.ahead -= settled;
        if self.owed.is_zero() {
            return;
        }
        let begun = clock::thread_cpu_time();
        loop {
            let spent = clock::thread_cpu_time().saturating_sub(begun);
            if spent >= self.owed {
                self.ahead += spent - self.owed;
                break;
            }
            std::hint::spin_loop();
        }
        self.owed = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::Computation;
    use freehold_linux::clock;
    use std::time::Duration;

    #[test]
    fn what_is_owed_is_spent() {
        let begun = clock::thread_cpu_time();
        let mut computation = Computation::default();
        for _ in 0..1_000 {
            computation.add(Duration::from_micros(3));
        }
        computation.finish();
        assert!(clock::thread_cpu_time() - begun >= Duration::from_millis(3));
    }
}
