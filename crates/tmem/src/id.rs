//! Names of buffers that components pass to each other.

use crate::unit::SEQUENCE;

/// Names one use of one buffer: component (16 bits), unit (24 bits), sequence number of the use (24 bits). Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BufferId(u64);

/// Units of a pool, at most.
pub(crate) const MOST_UNITS: usize = 1 << 24;

impl BufferId {
    pub(crate) fn new(component: u16, unit: usize, sequence: u32) -> Self {
        Self(u64::from(component) << 48 | (unit as u64) << 24 | u64::from(sequence & SEQUENCE))
    }

    /// The name as somebody passed it: a claim.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The name as a number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The component whose buffer it is; 0 is none.
    #[must_use]
    pub const fn component(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The unit of its pool.
    #[must_use]
    pub const fn unit(self) -> usize {
        (self.0 >> 24) as usize & (MOST_UNITS - 1)
    }

    pub(crate) fn sequence(self) -> u32 {
        u32::try_from(self.0 & u64::from(SEQUENCE)).unwrap_or(0)
    }
}
