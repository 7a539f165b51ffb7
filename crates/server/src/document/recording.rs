//! What was recorded, as a document: names once, and rows of numbers that mean them by position.

use super::json;
use crate::control::{Refused, World};
use crate::engine::{Engine, Events};
use freehold_core::effect::{Holder, Resolution, UnmapReason};
use freehold_core::fact::Request;
use freehold_core::units::{FrameCount, PageCount};
use freehold_core::view::ReservationView;
use freehold_driver::FaultEnd;
use freehold_protocol::message::Refusal;
use serde::Serialize;

/// The document. Times are nanoseconds of the monotonic clock. Names are by the server's slots, null where one is not
/// in use; events mean them by slot.
#[derive(Debug, Serialize)]
struct Document {
    tasks: Vec<Option<String>>,
    objects: Vec<Option<String>>,
    reservations: Vec<Option<String>>,
    faults: Vec<Fault>,
    evictions: Vec<Eviction>,
    transfers: Vec<Transfer>,
    holds: Vec<Hold>,
    samples: Vec<Sample>,
    lost: u64,
}

/// Task, from, to, object, page, how it ended.
#[derive(Debug, Serialize)]
struct Fault(usize, u64, u64, usize, u32, &'static str);

/// When, object, page, reservation (null: the pool's, or everybody's), why, whether it is written.
#[derive(Debug, Serialize)]
struct Eviction(u64, usize, u32, Option<usize>, &'static str, bool);

/// From, to, object, page, whether it is written, whether it failed, the task that waited.
#[derive(Debug, Serialize)]
struct Transfer(u64, u64, usize, u32, bool, bool, Option<usize>);

/// From, to, the wait before.
#[derive(Debug, Serialize)]
struct Hold(u64, u64, u64);

#[derive(Debug, Serialize)]
struct Sample {
    at: u64,
    pool_free: u32,
    pool_used: u32,
    /// Which, and its lists.
    reservations: Vec<(usize, Lists)>,
    /// Which, and its resident pages.
    objects: Vec<(usize, u32)>,
}

#[derive(Debug, Serialize)]
struct Lists {
    active: u32,
    inactive: u32,
    locked: u32,
    free: u32,
    in_flight: u32,
    owed: u32,
    borrowed: u32,
    owned: u32,
    conserved: u32,
    outside: u32,
    held: u32,
}

/// Moves out what was recorded. The engine is held while names are copied, and no longer.
///
/// # Errors
/// Where nothing is recorded.
pub(super) fn take(world: &World) -> Result<String, Refused> {
    let taken = {
        let mut engine = world.shared.engine();
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

fn document(events: &Events, [tasks, objects, reservations]: Names) -> Document {
    let happened = &events.happened;
    let task = |slot: Option<u16>| slot.map(usize::from);
    let faults = happened.faults.iter().filter_map(|fault| {
        let (from, to, object) = (fault.from.get(), fault.to.get(), usize::from(fault.object));
        let how = match fault.end {
            FaultEnd::Resolved(how) => resolution(how),
            FaultEnd::Again | FaultEnd::Failed => "failed fault",
        };
        Some(Fault(task(fault.task)?, from, to, object, fault.page.get(), how))
    });
    let evictions = happened.evictions.iter().map(|eviction| {
        let (object, page) = (usize::from(eviction.object), eviction.page.get());
        let holder = match eviction.holder {
            Holder::Reservation(id) => Some(id.index()),
            Holder::Pool => None,
        };
        let (at, why) = (eviction.at.get(), reason(eviction.reason));
        Eviction(at, object, page, holder, why, eviction.write_back)
    });
    let transfers = happened.transfers.iter().map(|transfer| {
        let (from, to, object) = (transfer.from.get(), transfer.to.get(), usize::from(transfer.object));
        let (page, written) = (transfer.page.get(), transfer.kind == Request::Evict);
        Transfer(from, to, object, page, written, transfer.failed, task(transfer.task))
    });
    let holds = happened.lock_holds.iter();
    let samples = events.samples.iter().map(|sample| Sample {
        at: sample.at,
        pool_free: sample.pool_free,
        pool_used: sample.pool_used,
        reservations: sample
            .reservations
            .iter()
            .map(|(id, view)| (id.index(), lists(view)))
            .collect(),
        objects: sample
            .objects
            .iter()
            .map(|(id, resident)| (id.index(), *resident))
            .collect(),
    });
    Document {
        tasks,
        objects,
        reservations,
        faults: faults.collect(),
        evictions: evictions.collect(),
        transfers: transfers.collect(),
        holds: holds
            .map(|hold| Hold(hold.from.get(), hold.to.get(), hold.waited.get()))
            .collect(),
        samples: samples.collect(),
        lost: happened.lost,
    }
}

fn lists(view: &ReservationView) -> Lists {
    let (pages, frames) = (PageCount::get, FrameCount::get);
    Lists {
        active: pages(view.active),
        inactive: pages(view.inactive),
        locked: pages(view.locked),
        free: frames(view.free),
        in_flight: frames(view.in_flight),
        owed: frames(view.owed),
        borrowed: frames(view.borrowed),
        owned: frames(view.owned),
        conserved: frames(view.conserved),
        outside: frames(view.outside),
        held: frames(view.held),
    }
}

const fn resolution(how: Resolution) -> &'static str {
    match how {
        Resolution::Soft | Resolution::Ahead => "soft fault",
        Resolution::ZeroFill => "zero fill",
        Resolution::SwapIn { shared: false } => "swap-in",
        Resolution::SwapIn { shared: true } => "shared swap-in",
        Resolution::FileRead => "file read",
        Resolution::Copy => "copy on write",
        Resolution::Upgrade => "write fault",
    }
}

const fn reason(why: UnmapReason) -> &'static str {
    match why {
        UnmapReason::Demotion => "demotion",
        UnmapReason::Eviction => "eviction",
        UnmapReason::TakenBack => "taken back",
        UnmapReason::Left => "left",
        UnmapReason::Copied => "copied",
    }
}
