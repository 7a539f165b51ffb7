//! Why a wake-up was late.

use freehold_linux::sched_events::{Happening, Record};
use serde::Serialize;

use crate::probe_thread::Wake;
use crate::reference::Lateness;

/// What held a wake-up up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The thread waited for a page to be read.
    PageFault,
    /// The thread touched a page that was there but not mapped.
    SoftFault,
    /// It ran, and another thread was preferred. Known with events only.
    Preempted,
    /// It was told late that its time had come: the timer's interrupt came late. Known with events only.
    Irq,
    /// The reference thread was late at that moment too.
    Host,
    /// None of these.
    Unknown,
}

/// The cause of `wake` being late, which lasted long enough to look for one.
pub(crate) fn of(wake: &Wake, reference: &Lateness, records: &[Record]) -> Cause {
    let late = wake.latency();
    if wake.faults.major > 0 {
        return Cause::PageFault;
    }
    if wake.faults.minor > 0 {
        return Cause::SoftFault;
    }
    if reference.at(wake.due).is_some_and(|other| other > late / 4) {
        return Cause::Host;
    }
    let during = records.partition_point(|record| record.time < wake.due);
    let during = records[during..].iter().take_while(|record| record.time <= wake.woke);
    let mut woken = None;
    for record in during {
        match record.what {
            Happening::Preempted => return Cause::Preempted,
            Happening::Woken => woken = Some(record.time.as_nanos().saturating_sub(wake.due.as_nanos())),
            _ => {}
        }
    }
    if woken.is_some_and(|after| after > late / 2) {
        Cause::Irq
    } else {
        Cause::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Happening, Lateness, Record, Wake, of};
    use crate::probe_thread::Plan;
    use crate::settings::Interval;
    use freehold_linux::clock::MonotonicTime;
    use freehold_linux::faults::Faults;
    use std::time::Duration;

    fn wake(late: u64, minor: u64, major: u64) -> Wake {
        Wake {
            due: MonotonicTime::from_nanos(1000),
            woke: MonotonicTime::from_nanos(1000 + late),
            faults: Faults { minor, major },
        }
    }

    fn record(time: u64, what: Happening) -> Record {
        Record {
            time: MonotonicTime::from_nanos(time),
            what,
        }
    }

    #[test]
    fn faults_come_before_what_others_do() {
        let none = nobody();
        assert_eq!(of(&wake(500, 1, 1), &none, &[]), Cause::PageFault);
        assert_eq!(of(&wake(500, 1, 0), &none, &[]), Cause::SoftFault);
        assert_eq!(of(&wake(500, 0, 0), &none, &[]), Cause::Unknown);
    }

    #[test]
    fn records_tell_a_late_timer_from_another_thread() {
        let none = nobody();
        let late = [record(900, Happening::Preempted), record(1400, Happening::Woken)];
        assert_eq!(of(&wake(500, 0, 0), &none, &late), Cause::Irq);
        let early = [record(1010, Happening::Woken), record(1200, Happening::On)];
        assert_eq!(of(&wake(500, 0, 0), &none, &early), Cause::Unknown);
        let other = [record(1010, Happening::Woken), record(1200, Happening::Preempted)];
        assert_eq!(of(&wake(500, 0, 0), &none, &other), Cause::Preempted);
    }

    /// A reference that knows nothing.
    fn nobody() -> Lateness {
        let interval = Interval::fixed(Duration::from_secs(1)).unwrap();
        Lateness::room(&Plan::new(MonotonicTime::from_nanos(0), Duration::ZERO, interval, 0))
    }
}
