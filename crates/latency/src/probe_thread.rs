//! The measured thread: it sleeps until each time of a plan and reads the clock when it runs again.

use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::faults::{self, Faults};

use crate::settings::Interval;

/// When a thread is to wake up.
#[derive(Clone, Debug)]
pub(crate) struct Plan(Vec<MonotonicTime>);

impl Plan {
    /// Wake-ups for `span` from `first` on, the first an interval later; `turn` is that interval's number.
    pub(crate) fn new(first: MonotonicTime, span: Duration, interval: Interval, turn: u64) -> Self {
        let end = first.saturating_add(span);
        let times = (turn..).scan(first, |time, turn| {
            *time = time.saturating_add(interval.number(turn));
            (*time <= end).then_some(*time)
        });
        Self(times.collect())
    }

    /// How many wake-ups.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// When, one after the other.
    pub(crate) fn times(&self) -> &[MonotonicTime] {
        &self.0
    }
}

/// One wake-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// When it was to be.
    pub(crate) due: MonotonicTime,
    /// When the thread's first instruction read the clock.
    pub(crate) woke: MonotonicTime,
    /// Page faults since the wake-up before.
    pub(crate) faults: Faults,
}

impl Wake {
    /// How late, in nanoseconds.
    pub(crate) fn latency(&self) -> u64 {
        self.woke.as_nanos().saturating_sub(self.due.as_nanos())
    }
}

/// Room for the wake-ups of `plan`, every page of it there.
pub(crate) fn room(plan: &Plan) -> Vec<Wake> {
    let nothing = Wake {
        due: MonotonicTime::from_nanos(u64::MAX),
        woke: MonotonicTime::from_nanos(u64::MAX),
        faults: Faults::default(),
    };
    let mut room = vec![nothing; plan.count()];
    room.clear();
    room
}

/// Sleeps through `plan` and puts each wake-up into `wakes`, which has [`room`]. Times that have passed when the thread
/// would go to sleep are left out, as `cyclictest` does.
pub(crate) fn follow(plan: &Plan, wakes: &mut Vec<Wake>) {
    let mut before = faults::of_this_thread_by_kind();
    for &due in plan.times() {
        if clock::now() >= due {
            continue;
        }
        clock::sleep_until(due);
        let woke = clock::now();
        let now = faults::of_this_thread_by_kind();
        wakes.push(Wake {
            due,
            woke,
            faults: now.since(before),
        });
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Interval, MonotonicTime, Plan, clock, follow, room};

    #[test]
    fn a_plan_has_a_wake_up_in_each_interval_and_none_after_its_end() {
        let first = MonotonicTime::from_nanos(1_000_000_000);
        let interval = Interval::fixed(Duration::from_millis(1)).unwrap();
        let plan = Plan::new(first, Duration::from_millis(5), interval, 0);
        let times: Vec<_> = plan.times().iter().map(|time| time.as_nanos() / 1_000_000).collect();
        assert_eq!(times, [1001, 1002, 1003, 1004, 1005]);
    }

    #[test]
    fn a_thread_wakes_when_it_is_due_or_later_and_leaves_out_what_has_passed() {
        let interval = Interval::fixed(Duration::from_millis(1)).unwrap();
        let first = MonotonicTime::from_nanos(clock::now().as_nanos() - 3_500_000);
        let plan = Plan::new(first, Duration::from_millis(8), interval, 0);
        let mut wakes = room(&plan);
        let capacity = wakes.capacity();
        follow(&plan, &mut wakes);
        assert!((1..=5).contains(&wakes.len()), "{wakes:?}");
        assert!(wakes.iter().all(|wake| wake.woke >= wake.due), "{wakes:?}");
        assert_eq!(wakes.capacity(), capacity, "nothing is allocated on the way");
    }
}
