//! What a pager in this process tells of a run.

use freehold_core::effect::Holder;
use freehold_core::fact::Request;
use freehold_pager::{Events, FaultEnd, FaultEvent};
use freehold_scenario::recording::{Eviction, FaultKind, FaultSpan, LockHold, Transfer, TransferKind};

use crate::placement::embedded::Machine;
use crate::recording::{Happened, RunClock, TaskHappened};
use crate::sampler::Sampled;

/// The pager's events and the samples, in the scenario's terms.
pub(crate) fn happened(machine: &Machine, events: Events, sampled: Sampled) -> Happened {
    let names = Names::of(machine);
    let clock = sampled.clock;
    let mut by_slot = events.tasks;
    let tasks = names.tasks.iter().map(|slot| {
        let events = by_slot.get_mut(*slot).map(std::mem::take).unwrap_or_default();
        TaskHappened {
            faults: faults(&events.faults, &names, clock).collect(),
            waits: events.waits,
        }
    });
    let holds = events.lock_holds.iter().map(|hold| names.lock_hold(hold, clock));
    Happened {
        tasks: tasks.collect(),
        evictions: events
            .evictions
            .iter()
            .map(|eviction| names.eviction(eviction, clock))
            .collect(),
        transfers: events
            .transfers
            .iter()
            .map(|transfer| names.transfer(transfer, clock))
            .collect(),
        lock_holds: holds.chain(sampled.holds).collect(),
        samples: sampled.samples,
        lost: events.lost + sampled.lost,
    }
}

/// A fault that was let go to fault afresh is one with the next.
fn faults<'a>(events: &'a [FaultEvent], names: &'a Names, clock: RunClock) -> impl Iterator<Item = FaultSpan> + 'a {
    let mut again: Option<&FaultEvent> = None;
    events.iter().filter_map(move |event| {
        let kind = match event.end {
            FaultEnd::Again => {
                again.get_or_insert(event);
                return None;
            }
            FaultEnd::Failed => FaultKind::Failed,
            FaultEnd::Resolved(resolution) => resolution.into(),
        };
        let page = (event.object, event.page);
        let first = again.take().filter(|first| (first.object, first.page) == page);
        Some(FaultSpan {
            from_ns: clock.instant(first.unwrap_or(event).from),
            to_ns: clock.instant(event.to),
            region: names.region(event.object),
            page: event.page.get(),
            kind,
        })
    })
}

/// The scenario's positions of what the pager names by its slots.
struct Names {
    tasks: Vec<usize>,
    regions: Vec<usize>,
    reservations: Vec<usize>,
}

impl Names {
    fn of(machine: &Machine) -> Self {
        Self {
            tasks: machine.tasks.iter().map(|task| task.handle.id().index()).collect(),
            regions: machine.objects.iter().map(|object| object.index()).collect(),
            reservations: machine.reservations.iter().map(|id| id.index()).collect(),
        }
    }

    /// Of the scenario's tasks; those that only keep regions mapped have none.
    fn task(&self, slot: Option<u16>) -> Option<u16> {
        position(&self.tasks, usize::from(slot?))
    }

    fn region(&self, object: u16) -> u16 {
        // All objects are regions.
        position(&self.regions, usize::from(object)).unwrap_or(object)
    }

    fn eviction(&self, event: &freehold_pager::EvictionEvent, clock: RunClock) -> Eviction {
        Eviction {
            at_ns: clock.instant(event.at),
            region: self.region(event.object),
            page: event.page.get(),
            reservation: match event.holder {
                Holder::Reservation(id) => position(&self.reservations, id.index()),
                Holder::Pool => None,
            },
            reason: event.reason.into(),
            write_back: event.write_back,
        }
    }

    fn transfer(&self, event: &freehold_pager::TransferEvent, clock: RunClock) -> Transfer {
        Transfer {
            from_ns: clock.instant(event.from),
            to_ns: clock.instant(event.to),
            region: self.region(event.object),
            page: event.page.get(),
            kind: match event.kind {
                Request::Fill => TransferKind::Read,
                Request::Evict => TransferKind::Write,
            },
            failed: event.failed,
            task: self.task(event.task),
        }
    }

    fn lock_hold(&self, event: &freehold_pager::LockHoldEvent, clock: RunClock) -> LockHold {
        LockHold {
            from_ns: clock.instant(event.from),
            to_ns: clock.instant(event.to),
            waited_ns: event.waited.get(),
            task: self.task(event.task),
        }
    }
}

fn position(slots: &[usize], slot: usize) -> Option<u16> {
    let position = slots.iter().position(|&other| other == slot)?;
    u16::try_from(position).ok()
}
