//! The lists at many instants, taken by the thread that watches the run.
//!
//! The core's lock is held for each sample, so faults wait meanwhile; each of these holds is recorded, however short.

use std::time::Duration;

use freehold_core::Memory;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{Capacity, LockHold, ReservationCounts, Sample};

use crate::placement::embedded::Machine;
use crate::recording::RunClock;

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    next: MonotonicTime,
    end: MonotonicTime,
    step: Duration,
    sampled: Sampled,
}

/// What a sampler has taken.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) clock: RunClock,
    pub(crate) capacity: Capacity,
    pub(crate) samples: Vec<Sample>,
    pub(crate) holds: Vec<LockHold>,
    pub(crate) lost: u64,
}

impl Sampler {
    pub(crate) fn new(scenario: &Scenario, origin: MonotonicTime, capacity: Capacity) -> Self {
        let duration = Duration::from_nanos(scenario.duration.get());
        Self {
            next: origin,
            end: origin.saturating_add(duration),
            step: Duration::from_nanos(capacity.sample_step_ns(scenario.duration.get())),
            sampled: Sampled {
                clock: RunClock::new(scenario, origin),
                capacity,
                samples: Vec::with_capacity(capacity.samples),
                holds: Vec::with_capacity(capacity.samples),
                lost: 0,
            },
        }
    }

    /// When the next sample is due; none after the end of the run.
    pub(crate) fn next(&self) -> Option<MonotonicTime> {
        (self.next <= self.end).then_some(self.next)
    }

    /// Takes a sample if one is due. Those that were due meanwhile are left out.
    pub(crate) fn look(&mut self, machine: &Machine, now: MonotonicTime) {
        if self.next().is_none_or(|next| next > now) || now > self.end {
            return;
        }
        while self.next <= now {
            self.next = self.next.saturating_add(self.step);
        }
        if self.sampled.samples.len() < self.sampled.capacity.samples {
            self.sampled.take(machine);
        } else {
            self.sampled.lost += 1;
        }
    }

    pub(crate) fn finish(self) -> Sampled {
        self.sampled
    }
}

impl Sampled {
    fn take(&mut self, machine: &Machine) {
        // Allocated before the lock is taken.
        let mut sample = Sample {
            reservations: Vec::with_capacity(machine.reservations.len()),
            regions_resident: Vec::with_capacity(machine.objects.len()),
            ..Sample::default()
        };
        let asked = clock::now();
        let (taken, released) = machine.pager.inspect(|core| {
            let taken = clock::now();
            fill(&mut sample, machine, core);
            (taken, clock::now())
        });
        sample.at_ns = self.clock.at(taken.as_nanos());
        self.samples.push(sample);
        self.holds.push(LockHold {
            from_ns: self.clock.at(taken.as_nanos()),
            to_ns: self.clock.at(released.as_nanos()),
            waited_ns: nanos(taken.saturating_since(asked)),
            task: None,
        });
    }
}

/// Getters only.
fn fill(sample: &mut Sample, machine: &Machine, core: &Memory) {
    for &id in &machine.reservations {
        let view = core.reservation(id).unwrap_or_default();
        sample.reservations.push(ReservationCounts::from(&view));
    }
    for &id in &machine.objects {
        let resident = core.resident(id).unwrap_or_default();
        sample.regions_resident.push(u64::from(resident.get()));
    }
    let pool = core.pool_view();
    sample.pool_free = u64::from(pool.free.get());
    sample.pool_used = u64::from(pool.memory_used.get());
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
