//! What was recorded, as a document: names once, and rows of numbers that mean them by position.

use super::json;
use crate::control::{Refused, Registry};
use crate::engine::{Engine, Events, SampleEvent};
use freehold_core::effect::Holder;
use freehold_core::fact::Request;
use freehold_driver::FaultEnd;
use freehold_protocol::message::Refusal;
use freehold_report::recorded::{
    EvictionReason, FaultKind, RecordedDocument, RecordedEviction, RecordedFault, RecordedHold, RecordedSample,
    RecordedTransfer,
};
use freehold_report::reservation::ReservationCounts;

/// Moves out what was recorded. The engine is held while names are copied, and no longer.
///
/// # Errors
/// Where nothing is recorded.
pub(super) fn take(registry: &Registry) -> Result<String, Refused> {
    let taken = {
        let mut engine = registry.shared.engine();
        engine.take_events().map(|events| (events, names(&engine)))
    };
    let Some((events, names)) = taken else {
        return Err(Refused::new(
            Refusal::State,
            "this server records nothing, or was asked before: only one that is started for a run records",
        ));
    };
    json(&document(&events, names))
}

/// Tasks, objects and reservations by their slots.
type Names = [Vec<Option<String>>; 3];

fn names(engine: &Engine) -> Names {
    [engine.task_names(), engine.object_names(), engine.reservation_names()]
}

fn document(events: &Events, [tasks, objects, reservations]: Names) -> RecordedDocument {
    let happened = &events.happened;
    let task = |slot: Option<u16>| slot.map(usize::from);
    let faults = happened.faults.iter().filter_map(|fault| {
        let (from, to, object) = (fault.from.get(), fault.to.get(), usize::from(fault.object));
        let how = match fault.end {
            FaultEnd::Resolved(how) => FaultKind::from(how),
            FaultEnd::Again | FaultEnd::Failed => FaultKind::Failed,
        };
        Some(RecordedFault(
            task(fault.task)?,
            from,
            to,
            object,
            fault.page.get(),
            how,
        ))
    });
    let evictions = happened.evictions.iter().map(|eviction| {
        let (object, page) = (usize::from(eviction.object), eviction.page.get());
        let holder = match eviction.holder {
            Holder::Reservation(id) => Some(id.index()),
            Holder::Pool => None,
        };
        let (at, why) = (eviction.at.get(), EvictionReason::from(eviction.reason));
        RecordedEviction(at, object, page, holder, why, eviction.write_back)
    });
    let transfers = happened.transfers.iter().map(|transfer| {
        let (from, to, object) = (transfer.from.get(), transfer.to.get(), usize::from(transfer.object));
        let (page, written) = (transfer.page.get(), transfer.kind == Request::Evict);
        RecordedTransfer(from, to, object, page, written, transfer.failed, task(transfer.task))
    });
    let holds = happened.lock_holds.iter();
    RecordedDocument {
        tasks,
        objects,
        reservations,
        faults: faults.collect(),
        evictions: evictions.collect(),
        transfers: transfers.collect(),
        holds: holds
            .map(|hold| RecordedHold(hold.from.get(), hold.to.get(), hold.waited.get()))
            .collect(),
        samples: events.samples.iter().map(sample).collect(),
        lost: happened.lost,
    }
}

fn sample(sample: &SampleEvent) -> RecordedSample {
    let reservations = sample.reservations.iter();
    let objects = sample.objects.iter();
    RecordedSample {
        at: sample.at,
        pool_free: u64::from(sample.pool_free),
        pool_used: u64::from(sample.pool_used),
        reservations: reservations
            .map(|(id, view)| (id.index(), ReservationCounts::from(view)))
            .collect(),
        objects: objects
            .map(|(id, resident)| (id.index(), u64::from(*resident)))
            .collect(),
    }
}
