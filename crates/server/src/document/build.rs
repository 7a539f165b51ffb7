//! From the engine's snapshot to the status document.

use super::Snapshot;
use crate::control::Unmanaged;
use crate::engine::{ClientRole, Membership};
use crate::view::{ClientView, EngineView, ObjectView, ReservationRow, TaskView};
use freehold_core::id::ReservationId;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::FrameCount;
use freehold_report::reservation::{ReservationFrames, ReservationLists};
use freehold_report::status::{
    ClientStatus, IdentityStatus, MapperStatus, MemberStatus, MemoryStatus, ObjectStatus, OrdersStatus, RangeStatus,
    ReservationStatus, ShareStatus, StatusDocument, StoreStatus, TaskStatus, UnmanagedStatus,
};
use std::time::Duration;

fn frames(count: FrameCount) -> u64 {
    u64::from(count.get())
}

/// Nanoseconds, the most there are where there are more.
pub(super) fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// An address as it is written.
pub(super) fn address(address: u64) -> String {
    format!("{address:#x}")
}

/// `hard` or `firm`.
pub(super) const fn kind_name(kind: ReservationKind) -> &'static str {
    match kind {
        ReservationKind::Hard => "hard",
        ReservationKind::Firm => "firm",
    }
}

/// The name of a reservation of the snapshot.
pub(super) fn reservation_name(view: &EngineView, id: ReservationId) -> String {
    let row = view.reservations.iter().find(|row| row.id == id);
    row.map_or_else(|| "a reservation that has ended".to_owned(), |row| row.name.clone())
}

/// The whole document.
pub(super) fn status(snapshot: &Snapshot) -> StatusDocument {
    let view = &*snapshot.view;
    let mut server = snapshot.server.clone();
    server.shortfalls.extend(view.backing.shortfall.clone());
    server.shortfalls.extend(view.shortages.iter().cloned());
    StatusDocument {
        server,
        memory: memory(view),
        reservations: view.reservations.iter().map(reservation).collect(),
        pinned_pools: super::pools::of(view),
        pinning: view.pinning,
        clients: view.clients.iter().map(|client| self::client(view, client)).collect(),
        unmanaged: Vec::new(),
        objects: view.objects.iter().map(|object| self::object(view, object)).collect(),
        store: store(view),
        orders: orders(view),
        pagers: view.pagers.clone(),
        steps_ns: view.steps,
        victim_cache: None,
        devices: Vec::new(),
        partial: false,
    }
}

/// Programs that run unmanaged.
pub(super) fn unmanaged(snapshot: &Snapshot, strangers: Vec<(Unmanaged, u64)>) -> Vec<UnmanagedStatus> {
    let row = |(stranger, begun): (Unmanaged, u64)| UnmanagedStatus {
        program: stranger.name,
        why: stranger.why.text().to_owned(),
        begun,
        pid: (stranger.pid != 0).then_some(stranger.pid),
        reservation: stranger.membership.and_then(|membership| match membership {
            Membership::Reservation(id) => Some(reservation_name(&snapshot.view, id)),
            Membership::Pinned(_) => None,
        }),
    };
    strangers.into_iter().map(row).collect()
}

fn memory(view: &EngineView) -> MemoryStatus {
    let pool = &view.pool;
    MemoryStatus {
        pool: frames(pool.total),
        used: frames(pool.memory_used),
        peak: frames(pool.memory_peak),
        resident_measured: view.resident_measured,
        reserve_due: view.backing.due,
        reserve: view.backing.resident,
        headroom: view.backing.headroom,
        free: frames(pool.free),
        committed: frames(pool.committed),
        outside: frames(pool.outside),
        pool_pages: frames(pool.used),
        in_flight: frames(pool.in_flight),
    }
}

fn reservation(row: &ReservationRow) -> ReservationStatus {
    let lists = &row.lists;
    let member = |member: &crate::view::MemberView| MemberStatus {
        pid: member.pid,
        task: member.name.clone(),
    };
    ReservationStatus {
        name: row.name.clone(),
        kind: kind_name(row.kind).to_owned(),
        lists: ReservationLists::from(lists),
        frames: ReservationFrames::from(lists),
        taken_back: lists.taken_back,
        members: row.members.iter().map(member).collect(),
    }
}

fn client(view: &EngineView, client: &ClientView) -> ClientStatus {
    let kept = client.kept.iter().map(|range| RangeStatus {
        address: address(range.start),
        bytes: range.end - range.start,
    });
    let role = match client.role {
        ClientRole::Program => "program",
        ClientRole::Library => "library",
    };
    ClientStatus {
        client: u32::try_from(client.id.index()).unwrap_or(u32::MAX),
        pid: client.pid,
        user: client.uid,
        name: client.name.clone(),
        role: role.to_owned(),
        tasks: client.tasks.iter().map(|task| self::task(view, task)).collect(),
        private: client.private,
        kept: kept.collect(),
        unmanaged: client.unmanaged.clone(),
        faults: client.faults,
        strange_faults: client.strange_faults,
        orders: u64::from(client.orders),
        service_ns: client.service,
    }
}

fn task(view: &EngineView, task: &TaskView) -> TaskStatus {
    let counts = &task.counts;
    TaskStatus {
        name: task.name.clone(),
        reservation: task.reservation.map(|id| reservation_name(view, id)),
        pinned_pool: super::pools::find(view, task.pinned).map(|row| row.name.clone()),
        urgency: task.urgency,
        soft_faults: counts.soft_faults,
        zero_fills: counts.zero_fills,
        swap_ins: counts.swap_ins,
        shared_swap_ins: counts.shared_swap_ins,
        file_reads: counts.file_reads,
        write_faults: counts.write_faults,
        read_ahead: counts.read_ahead,
        evictions: counts.evictions,
        waited_ns: counts.waited.get(),
        jobs: task.jobs,
        misses: task.misses,
    }
}

fn object(view: &EngineView, object: &ObjectView) -> ObjectStatus {
    let kind = match object.kind {
        ObjectKind::File => "file",
        ObjectKind::Shared => "region",
        ObjectKind::Private => "private region",
    };
    let sharing = match object.regime {
        Regime::Conserve => "spc",
        Regime::Unmanaged => "none",
    };
    let identity = object
        .identity
        .map(|(device, inode, bytes, changed_s, changed_ns)| IdentityStatus {
            device,
            inode,
            bytes,
            changed_s,
            changed_ns,
        });
    let mappers = object.mappers.iter().map(|mapper| MapperStatus {
        pid: mapper.pid,
        address: address(mapper.address),
        first: u64::from(mapper.first),
        pages: u64::from(mapper.pages),
    });
    let shares = object.shares.iter().map(|share| ShareStatus {
        reservation: share.reservation.map(|id| reservation_name(view, id)),
        owned: u64::from(share.owned),
        listed: u64::from(share.listed),
        max_use: u64::from(share.sampled_max),
        avg_use: share.sampled_average,
    });
    ObjectStatus {
        name: object.name.clone(),
        kind: kind.to_owned(),
        identity,
        sharing: sharing.to_owned(),
        user: object.uid,
        pages: u64::from(object.pages),
        resident: u64::from(object.resident),
        mappers: mappers.collect(),
        shares: shares.collect(),
        changed: object.changed,
    }
}

fn store(view: &EngineView) -> StoreStatus {
    let (stats, what) = (&view.store, &view.store_description);
    StoreStatus {
        kind: what.kind.name().to_owned(),
        backend: what.backend.name().to_owned(),
        direct: what.direct,
        reads: stats.reads,
        writes: stats.writes,
        read_bytes: stats.read_bytes,
        written_bytes: stats.written_bytes,
        failed_reads: stats.failed_reads,
        failed_writes: stats.failed_writes,
        retried: stats.retried,
        pages: u64::from(view.pool.away.get()),
        pages_peak: u64::from(view.pool.away_peak.get()),
        frames: frames(stats.frames),
        stored_bytes: stats.stored_bytes,
        shortfalls: what.shortfalls.iter().map(ToString::to_string).collect(),
    }
}

fn orders(view: &EngineView) -> OrdersStatus {
    let orders = &view.orders;
    OrdersStatus {
        outstanding: u64::from(orders.outstanding),
        oldest_ns: nanoseconds(orders.oldest),
        sent: orders.sent,
        busy: orders.busy,
        stopped: orders.stopped,
    }
}
