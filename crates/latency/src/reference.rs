//! An idle thread on the measured CPU that tells stalls of the machine from the rest.
//!
//! It is due a moment after the measured thread and one priority below it. Where it is late too, something held up the
//! whole CPU: the hypervisor, or interrupts that were off.

use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};

use crate::probe_thread::Plan;

/// How much later it is due: when the measured thread has gone to sleep again.
const AFTER: Duration = Duration::from_micros(50);

/// How late the reference was at each time of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Lateness(Vec<(MonotonicTime, u64)>);

impl Lateness {
    /// Room for `plan`, every page of it there.
    pub(crate) fn room(plan: &Plan) -> Self {
        let mut room = vec![(MonotonicTime::from_nanos(u64::MAX), u64::MAX); plan.count()];
        room.clear();
        Self(room)
    }

    /// Sleeps through `plan`, on the calling thread.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        for &due in plan.times() {
            let own = due.saturating_add(AFTER);
            if clock::now() < own {
                clock::sleep_until(own);
            }
            let late = clock::now().as_nanos().saturating_sub(own.as_nanos());
            self.0.push((due, late));
        }
    }

    /// How late it was when the other thread was due at `due`, in nanoseconds; none where it does not know.
    pub(crate) fn at(&self, due: MonotonicTime) -> Option<u64> {
        let place = self.0.binary_search_by_key(&due, |(time, _)| *time).ok()?;
        self.0.get(place).map(|(_, late)| *late)
    }
}

#[cfg(test)]
mod tests {
    use super::{Lateness, MonotonicTime};

    #[test]
    fn lateness_is_found_by_when_the_other_was_due() {
        let time = MonotonicTime::from_nanos;
        let lateness = Lateness(vec![(time(10), 1), (time(20), 5000), (time(30), 2)]);
        assert_eq!(lateness.at(time(20)), Some(5000));
        assert_eq!(lateness.at(time(25)), None);
    }
}
