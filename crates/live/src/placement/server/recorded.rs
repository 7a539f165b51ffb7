//! What a server of the run's own tells of it.

use freehold_report::recorded::{
    RecordedDocument, RecordedEviction, RecordedFault, RecordedHold, RecordedSample, RecordedTransfer,
};
use freehold_report::reservation::ReservationCounts;
use freehold_scenario::recording::{Eviction, FaultSpan, LockHold, Sample, Transfer, TransferKind};

use crate::recording::{Happened, RunClock, TaskHappened};

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

/// In the scenario's terms and the run's time. What was before time 0, and what is of nobody in the scenario, is
/// left out.
pub(crate) fn happened(recorded: &RecordedDocument, called: Called<'_>, clock: RunClock) -> Happened {
    let names = Names {
        tasks: Positions::new(&recorded.tasks, called.tasks),
        regions: Positions::new(&recorded.objects, called.regions),
        reservations: Positions::new(&recorded.reservations, called.reservations),
        clock,
    };
    let mut tasks: Vec<TaskHappened> = called.tasks.iter().map(|_| TaskHappened::default()).collect();
    for fault in &recorded.faults {
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
    let mut transfers: Vec<Transfer> = recorded
        .transfers
        .iter()
        .filter_map(|row| names.transfer(row))
        .collect();
    transfers.sort_by_key(|transfer| transfer.from_ns);
    let widths = (called.reservations.len(), called.regions.len());
    Happened {
        tasks,
        evictions: recorded
            .evictions
            .iter()
            .filter_map(|row| names.eviction(row))
            .collect(),
        transfers,
        lock_holds: recorded.holds.iter().filter_map(|row| names.hold(row)).collect(),
        samples: recorded
            .samples
            .iter()
            .filter_map(|row| names.sample(row, widths))
            .collect(),
        lost: recorded.lost,
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

    fn fault(&self, fault: &RecordedFault) -> Option<(u16, FaultSpan)> {
        let RecordedFault(task, from, to, object, page, kind) = fault;
        let span = FaultSpan {
            from_ns: self.during(*from)?,
            to_ns: self.clock.at(*to),
            region: self.regions.at(*object)?,
            page: *page,
            kind: *kind,
        };
        Some((self.tasks.at(*task)?, span))
    }

    fn eviction(&self, row: &RecordedEviction) -> Option<Eviction> {
        let RecordedEviction(at, object, page, reservation, reason, write_back) = row;
        Some(Eviction {
            at_ns: self.during(*at)?,
            region: self.regions.at(*object)?,
            page: *page,
            reservation: reservation.and_then(|slot| self.reservations.at(slot)),
            reason: *reason,
            write_back: *write_back,
        })
    }

    fn transfer(&self, row: &RecordedTransfer) -> Option<Transfer> {
        let RecordedTransfer(from, to, object, page, written, failed, task) = row;
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

    fn hold(&self, row: &RecordedHold) -> Option<LockHold> {
        let RecordedHold(from, to, waited) = row;
        Some(LockHold {
            from_ns: self.during(*from)?,
            to_ns: self.clock.at(*to),
            waited_ns: *waited,
            task: None,
        })
    }

    fn sample(&self, row: &RecordedSample, (reservations, regions): (usize, usize)) -> Option<Sample> {
        let mut sample = Sample {
            at_ns: self.during(row.at)?,
            reservations: vec![ReservationCounts::default(); reservations],
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
