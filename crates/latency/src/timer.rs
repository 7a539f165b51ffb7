//! What the timer of a CPU does: its interrupt, and the timers that expire in it.

use freehold_linux::tracepoints::{Trace, TraceError, Tracepoint};

/// The kernel's first instruction that can be seen, and a timer whose time has come.
const TRACEPOINTS: [Tracepoint; 2] = [
    Tracepoint {
        system: "irq_vectors",
        name: "local_timer_entry",
    },
    Tracepoint {
        system: "timer",
        name: "hrtimer_expire_entry",
    },
];
/// Room for ten thousand timers in a slice.
const PAGES: usize = 256;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The interrupt.
    Interrupt,
    /// A timer.
    Expiry,
}

/// One of them, and when, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trigger {
    pub(crate) time: u64,
    pub(crate) step: Step,
}

/// Both, as they are recorded.
#[derive(Debug)]
pub(crate) struct Timers(Trace);

impl Timers {
    pub(crate) fn of(cpu: usize) -> Result<Self, TraceError> {
        Trace::open(&[cpu], &TRACEPOINTS, PAGES).map(Self)
    }

    /// Appends what has come.
    pub(crate) fn take(&mut self, triggers: &mut Vec<Trigger>) {
        self.0.take(|sample| {
            triggers.push(Trigger {
                time: sample.time.as_nanos(),
                step: if sample.which == 0 {
                    Step::Interrupt
                } else {
                    Step::Expiry
                },
            });
        });
    }
}

/// The last of a step from `due` to `until`: what made a thread ready at `until` that was due at `due`.
pub(crate) fn last(triggers: &[Trigger], step: Step, due: u64, until: u64) -> Option<u64> {
    let end = triggers.partition_point(|trigger| trigger.time <= until);
    let earlier = triggers[..end].iter().rev().take_while(|trigger| trigger.time >= due);
    let mut found = earlier.filter(|trigger| trigger.step == step);
    found.next().map(|trigger| trigger.time)
}

#[cfg(test)]
mod tests {
    use super::{Step, Trigger, last};

    #[test]
    fn the_last_interrupt_before_a_timer_is_the_one_that_found_it() {
        let trigger = |time, step| Trigger { time, step };
        let triggers = [
            trigger(90, Step::Interrupt),
            trigger(110, Step::Interrupt),
            trigger(112, Step::Expiry),
            trigger(115, Step::Expiry),
            trigger(130, Step::Interrupt),
        ];
        assert_eq!(last(&triggers, Step::Expiry, 100, 120), Some(115));
        assert_eq!(last(&triggers, Step::Interrupt, 100, 115), Some(110));
        assert_eq!(last(&triggers, Step::Interrupt, 112, 120), None);
        assert_eq!(last(&triggers, Step::Expiry, 116, 129), None);
    }
}
