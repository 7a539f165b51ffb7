//! A thread that does nothing but wake up in time, on the CPU of a task and above it: whether the machine itself held
//! the task up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::sched::{self, Policy};

/// A tenth of the task's period: a stall that makes the task miss a release would else fall between two of the
/// reference's own, which both would be on time.
const PERIOD: Duration = Duration::from_micros(100);
/// So long the task has to be held up altogether, within [`WINDOW`], before it can miss a release.
const ON_TIME: Duration = Duration::from_micros(500);
/// Two periods of the task, in periods of the reference.
const WINDOW: usize = 20;
/// What a wake-up takes by itself, at most, however late half of them are: that much of a delay held nobody up.
const ORDINARY: u64 = 50_000;
/// Above every thread of a module.
const PRIORITY: u32 = 92;

/// The thread.
#[derive(Debug)]
pub(crate) struct Reference {
    latest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Reference {
    pub(crate) fn start(cpu: usize) -> io::Result<Self> {
        let (latest, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (own, over) = (Arc::clone(&latest), Arc::clone(&stop));
        std::thread::Builder::new().spawn(move || {
            let thread = ThreadId::current();
            let placed = sched::pin(thread, cpu).is_ok()
                && sched::set_policy(thread, Policy::Fifo { priority: PRIORITY }).is_ok();
            let mut delays = Delays::default();
            let mut next = clock::now();
            while placed && !over.load(Ordering::Relaxed) {
                next = next.saturating_add(PERIOD);
                clock::sleep_until(next);
                let now = clock::now();
                own.fetch_max(delays.add(next, now), Ordering::Relaxed);
                next = next.max(now);
            }
        })?;
        Ok(Self { latest, stop })
    }

    /// Whether it was late since it was last asked.
    pub(crate) fn was_late(&self) -> bool {
        Duration::from_nanos(self.latest.swap(0, Ordering::Relaxed)) > ON_TIME
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long the machine held the CPU up around the last releases: several short stalls are as bad as a long one.
#[derive(Debug, Default)]
struct Delays {
    each: [u64; WINDOW],
    place: usize,
}

impl Delays {
    /// Adds a release; how much the last ones were late together, in nanoseconds, each beyond what half of them were.
    fn add(&mut self, due: MonotonicTime, now: MonotonicTime) -> u64 {
        let late = u64::try_from(now.saturating_since(due).as_nanos()).unwrap_or(u64::MAX);
        self.each[self.place] = late;
        self.place = (self.place + 1) % WINDOW;
        let mut sorted = self.each;
        sorted.sort_unstable();
        let ordinary = sorted[WINDOW / 2].min(ORDINARY);
        let stalls = self.each.iter().map(|late| late.saturating_sub(ordinary));
        stalls.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many releases as a window has, each so late; what they say together.
    fn after(delays: &mut Delays, late: u64) -> u64 {
        let at = MonotonicTime::from_nanos;
        let all = (0..WINDOW).map(|_| delays.add(at(1_000), at(1_000 + late)));
        all.last().unwrap_or(0)
    }

    #[test]
    fn short_delays_add_up_and_are_forgotten_after_the_window() {
        let mut delays = Delays::default();
        let at = MonotonicTime::from_nanos;
        assert_eq!(delays.add(at(100), at(700)), 600);
        assert_eq!(delays.add(at(1000), at(1300)), 900);
        for _ in 0..WINDOW - 2 {
            assert_eq!(delays.add(at(2000), at(2000)), 900);
        }
        assert_eq!(delays.add(at(3000), at(3000)), 300);
        assert_eq!(delays.add(at(3000), at(3000)), 0);
    }

    #[test]
    fn what_every_wake_up_takes_is_no_stall() {
        let (mut delays, at) = (Delays::default(), MonotonicTime::from_nanos);
        assert_eq!(after(&mut delays, 20_000), 0);
        assert_eq!(delays.add(at(0), at(600_000)), 580_000);
        assert_eq!(delays.add(at(0), at(15_000)), 580_000);
        // A machine that is slow all the time is said to be.
        assert_eq!(after(&mut delays, ORDINARY + 1_000), 1_000 * WINDOW as u64);
    }
}
