//! Dense positions in the core's tables. Internal: outside, things are named by ids with generations.

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) $raw);

        #[allow(dead_code, reason = "not every index is ever absent")]
        impl $name {
            /// No position.
            pub(crate) const NONE: Self = Self(<$raw>::MAX);

            pub(crate) fn is_none(self) -> bool {
                self == Self::NONE
            }

            pub(crate) fn some(self) -> Option<Self> {
                if self.is_none() { None } else { Some(self) }
            }

            pub(crate) const fn slot(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A page, counted through all objects.
    PageNumber(u32)
}
index! {
    /// A list entry: one page on the lists of one holder.
    EntryIndex(u32)
}
index! {
    /// A task slot.
    TaskIndex(u16)
}
index! {
    /// An account of frames: the pool's, or a reservation's.
    HolderIndex(u16)
}

index! {
    /// A pinned page pool.
    PinnedIndex(u16)
}

impl HolderIndex {
    /// The account of the pool, which keeps the global lists.
    pub(crate) const POOL: Self = Self(0);

    /// The account of the reservation in this slot.
    pub(crate) fn reservation(slot: usize) -> Self {
        Self(u16::try_from(slot + 1).unwrap_or(u16::MAX))
    }
}
