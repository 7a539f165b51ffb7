//! Names of things the core manages. An id carries a generation: an id kept after its thing is gone is refused as
//! stale, and never names what took its place.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            index: u16,
            generation: u16,
        }

        impl $name {
            pub(crate) const fn new(index: u16, generation: u16) -> Self {
                Self { index, generation }
            }

            /// The slot in the core's table: dense from zero, used again after removal. For tables kept beside the
            /// core, one row for each slot.
            #[must_use]
            pub const fn index(self) -> usize {
                self.index as usize
            }

            #[allow(dead_code, reason = "not every kind of id is looked up by generation alone")]
            pub(crate) const fn generation(self) -> u16 {
                self.generation
            }
        }
    };
}

id! {
    /// A memory reservation.
    ReservationId
}
id! {
    /// A memory object: a sequence of pages that tasks map.
    ObjectId
}
id! {
    /// A task: one thread of control, which can wait for one page at a time.
    TaskId
}
id! {
    /// One task's mapping of one memory object.
    MappingId
}
id! {
    /// A pinned page pool: of one soft-real-time task, or of the threads of one program.
    PinnedPoolId
}
