//! The memory of a pool: a page with its numbers, then what is known of each unit, then the units.

use crate::job;
use crate::sync::{AtomicU32, AtomicU64};
use crate::unit::Unit;
use freehold_linux::PAGE_SIZE;

/// Marks the memory of a pool, with the version of its layout in the last byte.
pub(crate) const MAGIC: u64 = 0x6672_6863_6275_6602;

/// The first page. The numbers are claims to who opens the pool: copied once, and checked.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) units: AtomicU32,
    pub(crate) unit_pages: AtomicU32,
    pub(crate) minimum: AtomicU32,
    pub(crate) component: AtomicU32,
    pub(crate) guard_pages: AtomicU32,
    pub(crate) bound_nanos: AtomicU64,
    pub(crate) counts: Counts,
    pub(crate) jobs: [JobCounts; job::MOST],
}

const _: () = assert!(size_of::<Header>() <= PAGE_SIZE);

/// What threads have waited for one job.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct JobCounts {
    pub(crate) blocked_nanos: AtomicU64,
    pub(crate) waits: AtomicU32,
    /// The thread that is waited for at present; 0 is none. A claim, as every word here.
    pub(crate) waits_for: AtomicU32,
}

/// What has happened, for who decides how many units the pool has.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Counts {
    pub(crate) waiting: AtomicU32,
    pub(crate) waiting_peak: AtomicU32,
    pub(crate) contended: AtomicU64,
    pub(crate) blocked_nanos: AtomicU64,
    pub(crate) timed_out: AtomicU64,
}

/// The page at which the units begin.
pub(crate) const fn first_unit_page(units: usize) -> usize {
    1 + (units * size_of::<Unit>()).div_ceil(PAGE_SIZE)
}

/// Pages of the pool.
pub(crate) const fn pages(units: usize, unit_pages: usize) -> usize {
    first_unit_page(units) + units * unit_pages
}
