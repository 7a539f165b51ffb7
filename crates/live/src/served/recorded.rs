//! What a server of the run's own tells of it.

use freehold_scenario::recording::{
    Eviction, EvictionReason, FaultKind, FaultSpan, LockHold, ReservationSample, Sample, Transfer, TransferKind,
};
use serde::Deserialize;

use super::ServerError;
use crate::recording::{Happened, RunClock, TaskHappened};

/// The document. Events mean tasks, objects and reservations by the server's slots.
#[derive(Debug, Deserialize)]
pub(crate) struct Recorded {
    tasks: Vec<Option<String>>,
    objects: Vec<Option<String>>,
    reservations: Vec<Option<String>>,
    faults: Vec<Fault>,
    evictions: Vec<Evicted>,
    transfers: Vec<Transferred>,
    holds: Vec<Hold>,
    samples: Vec<Sampled>,
    lost: u64,
}

#[derive(Debug, Deserialize)]
struct Fault(usize, u64, u64, usize, u32, String);

#[derive(Debug, Deserialize)]
struct Evicted(u64, usize, u32, Option<usize>, String, bool);

#[derive(Debug, Deserialize)]
struct Transferred(u64, u64, usize, u32, bool, bool, Option<usize>);

#[derive(Debug, Deserialize)]
struct Hold(u64, u64, u64);

#[derive(Debug, Deserialize)]
struct Sampled {
    at: u64,
    pool_free: u64,
    pool_used: u64,
    reservations: Vec<(usize, ReservationSample)>,
    objects: Vec<(usize, u64)>,
}

/// What the server calls the scenario's tasks, regions and reservations, each in the scenario's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called<'a> {
    pub(crate) tasks: &'a [String],
    pub(crate) regions: &'a [String],
    pub(crate) reservations: &'a [String],
}

/// The scenario's positions by the server's slots.
struct Positions(Vec<Option<u16>>);

impl Positions {
    fn new(slots: &[Option<String>], called: &[String]) -> Self {
        let position = |slot: &Option<String>| {
            let at = called.iter().position(|name| Some(name) == slot.as_ref())?;
            u16::try_from(at).ok()
        };
        Self(slots.iter().map(position).collect())
    }

    fn at(&self, slot: usize) -> Option<u16> {
        self.0.get(slot).copied().flatten()
    }
}

impl Recorded {
    /// From the document's text.
    pub(crate) fn parse(text: &str) -> Result<Self, ServerError> {
        serde_json::from_str(text).map_err(ServerError::Recording)
    }

    /// In the scenario's terms and the run's time. What was before time 0, and what is of nobody in the scenario, is
    /// left out.
    pub(crate) fn happened(&self, called: Called<'_>, clock: RunClock) -> Happened {
        let names = Names {
            tasks: Positions::new(&self.tasks, called.tasks),
            regions: Positions::new(&self.objects, called.regions),
            reservations: Positions::new(&self.reservations, called.reservations),
            clock,
        };
        let mut tasks: Vec<TaskHappened> = called.tasks.iter().map(|_| TaskHappened::default()).collect();
        for fault in &self.faults {
            if let Some((task, span)) = names.fault(fault)
                && let Some(row) = tasks.get_mut(usize::from(task))
            {
                row.faults.push(span);
            }
        }
        for task in &mut tasks {
            // They are in the order in which they ended.
            task.faults.sort_by_key(|fault| fault.from_ns);
        }
        let mut transfers: Vec<Transfer> = self.transfers.iter().filter_map(|row| names.transfer(row)).collect();
        transfers.sort_by_key(|transfer| transfer.from_ns);
        let widths = (called.reservations.len(), called.regions.len());
        Happened {
            tasks,
            evictions: self.evictions.iter().filter_map(|row| names.eviction(row)).collect(),
            transfers,
            lock_holds: self.holds.iter().filter_map(|row| names.hold(row)).collect(),
            samples: self
                .samples
                .iter()
                .filter_map(|row| names.sample(row, widths))
                .collect(),
            lost: self.lost,
        }
    }
}

struct Names {
    tasks: Positions,
    regions: Positions,
    reservations: Positions,
    clock: RunClock,
}

impl Names {
    /// The time of the run; none before its time 0.
    fn during(&self, nanos: u64) -> Option<u64> {
        self.clock.has_begun(nanos).then(|| self.clock.at(nanos))
    }

    fn fault(&self, Fault(task, from, to, object, page, how): &Fault) -> Option<(u16, FaultSpan)> {
        let span = FaultSpan {
            from_ns: self.during(*from)?,
            to_ns: self.clock.at(*to),
            region: self.regions.at(*object)?,
            page: *page,
            kind: FaultKind::ALL.into_iter().find(|kind| kind.name() == how)?,
        };
        Some((self.tasks.at(*task)?, span))
    }

    fn eviction(&self, Evicted(at, object, page, reservation, why, write_back): &Evicted) -> Option<Eviction> {
        Some(Eviction {
            at_ns: self.during(*at)?,
            region: self.regions.at(*object)?,
            page: *page,
            reservation: reservation.and_then(|slot| self.reservations.at(slot)),
            reason: EvictionReason::ALL.into_iter().find(|reason| reason.name() == why)?,
            write_back: *write_back,
        })
    }

    fn transfer(&self, row: &Transferred) -> Option<Transfer> {
        let Transferred(from, to, object, page, written, failed, task) = row;
        Some(Transfer {
            from_ns: self.during(*from)?,
            to_ns: self.clock.at(*to),
            region: self.regions.at(*object)?,
            page: *page,
            kind: if *written {
                TransferKind::Write
            } else {
                TransferKind::Read
            },
            failed: *failed,
            task: task.and_then(|slot| self.tasks.at(slot)),
        })
    }

    fn hold(&self, Hold(from, to, waited): &Hold) -> Option<LockHold> {
        Some(LockHold {
            from_ns: self.during(*from)?,
            to_ns: self.clock.at(*to),
            waited_ns: *waited,
            task: None,
        })
    }

    fn sample(&self, row: &Sampled, (reservations, regions): (usize, usize)) -> Option<Sample> {
        let mut sample = Sample {
            at_ns: self.during(row.at)?,
            reservations: vec![ReservationSample::default(); reservations],
            pool_free: row.pool_free,
            pool_used: row.pool_used,
            regions_resident: vec![0; regions],
        };
        for (slot, lists) in &row.reservations {
            let position = self.reservations.at(*slot).map(usize::from);
            if let Some(place) = position.and_then(|at| sample.reservations.get_mut(at)) {
                *place = *lists;
            }
        }
        for (slot, resident) in &row.objects {
            let position = self.regions.at(*slot).map(usize::from);
            if let Some(place) = position.and_then(|at| sample.regions_resident.get_mut(at)) {
                *place = *resident;
            }
        }
        Some(sample)
    }
}
