//! How a pool is made, and what its first page says of that.

use crate::id::MOST_UNITS;
use crate::layout::{Header, MAGIC};
use crate::sync::Ordering;
use freehold_linux::PAGE_SIZE;
use freehold_linux::memory::{MapError, MemfdError};
use freehold_linux::pi_word::Scope;
use std::time::Duration;

/// Bytes of a unit, at most.
const MOST_UNIT: usize = 1 << 30;

/// How a pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The component whose pool it is, above 0: it is a part of the names of its buffers.
    pub component: u16,
    /// Units, from 1 on.
    pub units: usize,
    /// Bytes of a unit, rounded up to whole pages.
    pub unit_bytes: usize,
    /// Units that the pool always keeps, from 1 to `units`; a thread that has so many does not wait for another.
    pub minimum: usize,
    /// Pages at the beginning of each unit that nobody may touch: for stacks, which grow towards them. They are a part
    /// of the unit's bytes and never in memory.
    pub guard_pages: usize,
    /// How long a request waits at most.
    pub bound: Duration,
    /// Threads of which processes take units.
    pub scope: Scope,
}

/// A pool cannot be made or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The caller's mistake: a number outside its range.
    #[error(
        "a pool has 1 to 2^24 units of at most 1 GiB (all 16 TiB), a minimum of 1 to its units, a component above 0"
    )]
    Settings,
    /// The sender's mistake: the descriptor is not of a pool.
    #[error("the memory is not that of a pool")]
    NotAPool,
    /// No memory object.
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    /// No mapping.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The settings with whole pages, if they are sound.
pub(crate) fn checked(settings: PoolSettings) -> Result<PoolSettings, PoolError> {
    let fits = (1..MOST_UNITS).contains(&settings.units)
        && (1..=MOST_UNIT).contains(&settings.unit_bytes)
        && (1..=settings.units).contains(&settings.minimum)
        && settings.component > 0
        && settings.guard_pages < settings.unit_bytes.div_ceil(PAGE_SIZE)
        && settings.units.saturating_mul(settings.unit_bytes.div_ceil(PAGE_SIZE)) < u32::MAX as usize;
    if !fits {
        return Err(PoolError::Settings);
    }
    Ok(PoolSettings {
        unit_bytes: settings.unit_bytes.next_multiple_of(PAGE_SIZE),
        ..settings
    })
}

/// Writes what [`read_header`] reads.
pub(crate) fn write_header(header: &Header, settings: &PoolSettings) {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    header.units.store(small(settings.units), Ordering::Relaxed);
    let unit_pages = settings.unit_bytes / PAGE_SIZE;
    header.unit_pages.store(small(unit_pages), Ordering::Relaxed);
    header.minimum.store(small(settings.minimum), Ordering::Relaxed);
    header.guard_pages.store(small(settings.guard_pages), Ordering::Relaxed);
    header.component.store(settings.component.into(), Ordering::Relaxed);
    let nanos = u64::try_from(settings.bound.as_nanos()).unwrap_or(u64::MAX);
    header.bound_nanos.store(nanos, Ordering::Relaxed);
    header.magic.store(MAGIC, Ordering::Release);
}

/// What another process has written at the beginning of its pool.
pub(crate) fn read_header(header: &Header) -> Result<PoolSettings, PoolError> {
    if header.magic.load(Ordering::Acquire) != MAGIC {
        return Err(PoolError::NotAPool);
    }
    let settings = PoolSettings {
        component: u16::try_from(header.component.load(Ordering::Relaxed)).map_err(|_| PoolError::NotAPool)?,
        units: header.units.load(Ordering::Relaxed) as usize,
        unit_bytes: header.unit_pages.load(Ordering::Relaxed) as usize * PAGE_SIZE,
        minimum: header.minimum.load(Ordering::Relaxed) as usize,
        guard_pages: header.guard_pages.load(Ordering::Relaxed) as usize,
        bound: Duration::from_nanos(header.bound_nanos.load(Ordering::Relaxed)),
        scope: Scope::Shared,
    };
    checked(settings).map_err(|_| PoolError::NotAPool)
}
