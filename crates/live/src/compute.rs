//! Computation that is really spent: CPU time, not time on the clock.

use std::time::Duration;

use freehold_linux::clock;

/// Shorter computation is saved up, because looking at the thread's CPU clock costs a third of a microsecond.
const LEAST: Duration = Duration::from_micros(20);
/// Time without a CPU between two looks at the clocks is a preemption from here on.
pub(crate) const LEAST_PREEMPTION: u64 = 20_000;

/// Some time without a CPU, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Spends CPU time in small portions, exactly over a job.
#[derive(Debug, Default)]
pub(crate) struct Computation {
    /// Owed and not spent yet.
    owed: Duration,
    /// Spent too much, the last time.
    ahead: Duration,
    /// While it spends, it can tell when it had no CPU.
    preemptions: Option<Preemptions>,
}

/// Where preemptions are written down.
#[derive(Debug)]
struct Preemptions {
    seen: Vec<Preemption>,
    lost: u64,
    /// The monotonic clock and the thread's CPU time when last looked at.
    last: (u64, Duration),
}

impl Computation {
    /// From now on preemptions are written down, so many at most. Allocates all it needs.
    pub(crate) fn note_preemptions(&mut self, room: usize) {
        let mut seen = vec![Preemption { from: 0, to: 0 }; room];
        seen.clear();
        self.preemptions = Some(Preemptions {
            seen,
            lost: 0,
            last: (0, Duration::ZERO),
        });
    }

    /// The preemptions seen, ascending, and how many more found no room.
    pub(crate) fn into_preemptions(self) -> (Vec<Preemption>, u64) {
        self.preemptions
            .map_or((Vec::new(), 0), |preemptions| (preemptions.seen, preemptions.lost))
    }

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
        if let Some(preemptions) = &mut self.preemptions {
            preemptions.last = (clock::now().as_nanos(), begun);
        }
        loop {
            let cpu = clock::thread_cpu_time();
            if let Some(preemptions) = &mut self.preemptions {
                preemptions.look(clock::now().as_nanos(), cpu);
            }
            let spent = cpu.saturating_sub(begun);
            if spent >= self.owed {
                self.ahead += spent - self.owed;
                break;
            }
            std::hint::spin_loop();
        }
        self.owed = Duration::ZERO;
    }
}

impl Preemptions {
    /// A thread that has just got a CPU back looks at the clocks soon: what is missing was before that.
    fn look(&mut self, now: u64, cpu: Duration) {
        let (then, cpu_then) = self.last;
        self.last = (now, cpu);
        let ran = u64::try_from(cpu.saturating_sub(cpu_then).as_nanos()).unwrap_or(u64::MAX);
        let without = now.saturating_sub(then).saturating_sub(ran);
        if without < LEAST_PREEMPTION {
            return;
        }
        if self.seen.len() < self.seen.capacity() {
            let from = now - without;
            self.seen.push(Preemption { from, to: now });
        } else {
            self.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Computation, Preemption, Preemptions};
    use freehold_linux::clock;
    use std::time::Duration;

    #[test]
    fn what_is_owed_is_spent() {
        for room in [None, Some(0), Some(1000)] {
            let begun = clock::thread_cpu_time();
            let mut computation = Computation::default();
            if let Some(room) = room {
                computation.note_preemptions(room);
            }
            for _ in 0..1_000 {
                computation.add(Duration::from_micros(3));
            }
            computation.finish();
            assert!(clock::thread_cpu_time() - begun >= Duration::from_millis(3));
        }
    }

    #[test]
    fn time_on_the_clock_without_cpu_time_is_a_preemption() {
        let mut preemptions = Preemptions {
            seen: Vec::with_capacity(1),
            lost: 0,
            last: (0, Duration::ZERO),
        };
        preemptions.look(10_000, Duration::from_nanos(9_000));
        preemptions.look(110_000, Duration::from_nanos(10_000));
        preemptions.look(310_000, Duration::from_nanos(11_000));
        let expected = Preemption {
            from: 11_000,
            to: 110_000,
        };
        assert_eq!((preemptions.seen, preemptions.lost), (vec![expected], 1));
    }
}
