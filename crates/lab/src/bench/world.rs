//! Pagers to measure.

use freehold_core::id::{ObjectId, ReservationId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{Duration, FrameCount, PageCount};
use freehold_pager::{Config, Pager, StoreShape};

use super::rounds::refused;
use freehold_command::exit_status::Failure;

/// Words in a page.
pub(super) const WORDS: usize = 512;

/// Tables for a few tasks; every page may be under `none`.
pub(super) fn limits(frames: u32, pages: u32) -> Limits {
    Limits {
        frames: FrameCount::new(frames),
        pages: PageCount::new(pages),
        reservations: 8,
        objects: 8,
        tasks: 8,
        mappings: 16,
        compared_pages: PageCount::new(pages),
        shared_locks: PageCount::ZERO,
    }
}

/// A pager with a memory store without latency.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn pager(frames: u32, pages: u32) -> Result<Pager, Failure> {
    let mut config = Config::new(limits(frames, pages));
    config.store = StoreShape {
        latency: Duration::ZERO,
        parallel: 1,
    };
    Pager::new(config).map_err(refused)
}

/// A hard reservation.
///
/// # Errors
/// No frames.
pub(super) fn reserve(pager: &Pager, frames: u32) -> Result<ReservationId, Failure> {
    let spec = ReservationSpec {
        capacity: FrameCount::new(frames),
        kind: ReservationKind::Hard,
    };
    pager.reserve(spec).map_err(refused)
}

/// A memory object.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn object(pager: &Pager, kind: ObjectKind, pages: u32, regime: Regime) -> Result<ObjectId, Failure> {
    let pages = PageCount::new(pages);
    pager.create_object(ObjectSpec { kind, pages, regime }).map_err(refused)
}

/// The measurement measured what it says.
///
/// # Errors
/// It did not: the count is another.
pub(super) fn expect(what: &str, found: u64, wanted: u64) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let text = format!("the benchmark did not measure what it says: {found} {what}, not {wanted}");
    Err(Failure::Run(text))
}
