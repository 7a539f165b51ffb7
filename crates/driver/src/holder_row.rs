//! Holders by number.

use freehold_core::effect::Holder;

/// The row of a holder in tables kept beside the core: the pool first, then the reservation slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HolderRow(u32);

impl HolderRow {
    /// The pool's.
    pub const POOL: Self = Self(0);

    /// The row with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Its number, as a place in a table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<Holder> for HolderRow {
    fn from(holder: Holder) -> Self {
        match holder {
            Holder::Pool => Self::POOL,
            Holder::Reservation(id) => Self(u32::try_from(id.index() + 1).unwrap_or(u32::MAX)),
        }
    }
}
