//! The rules for a holder of frames: how its pages are replaced, and which of its frames are reclaimed, lent and
//! recalled.

use crate::limits::ReservationKind;

/// The rules for one holder of frames. Everything that differs between holders is asked here; the pool's index stands
/// elsewhere only where the pool itself is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderPolicy {
    /// The pool with its global lists: promised nothing, and everybody with a better claim takes from it.
    Pool,
    /// A hard reservation: never more than its frames, and nobody takes any of them.
    Hard,
    /// A firm reservation: it may borrow, and what it borrowed is recalled.
    Firm,
}

impl HolderPolicy {
    /// Of a reservation of this kind.
    pub(crate) const fn of(kind: ReservationKind) -> Self {
        match kind {
            ReservationKind::Hard => Self::Hard,
            ReservationKind::Firm => Self::Firm,
        }
    }

    /// Its frames are promised to it: its pages are its own for sharing (law 2), it conserves frames, can be owed some,
    /// and locks within its capacity.
    pub(crate) const fn is_promised(self) -> bool {
        !matches!(self, Self::Pool)
    }

    /// Its pages are replaced by the rules of the global lists: refault ages, pinned page pools, read-ahead. The others
    /// are replaced by second chance over their own lists.
    pub(crate) const fn uses_global_lists(self) -> bool {
        matches!(self, Self::Pool)
    }

    /// Its pages leave for whoever has a better claim to frames: debts, admissions.
    pub(crate) const fn is_reclaimed(self) -> bool {
        matches!(self, Self::Pool)
    }

    /// It lends what it has free, and recalls that.
    pub(crate) const fn lends(self) -> bool {
        matches!(self, Self::Pool)
    }

    /// It may have more than its capacity, until that is recalled.
    pub(crate) const fn borrows(self) -> bool {
        matches!(self, Self::Firm)
    }
}
