//! Memory that the server grants.

use crate::field::record;

record! {
    /// Memory that the server grants to a connection, which holds it until it gives it up or ends: pages of an object,
    /// or of the region of devices. What it takes of a quota is charged to the connection's user until then.
    Grant {
        /// Its first page, in the object or region.
        first: u32,
        /// How many pages.
        pages: u32,
        /// The memory objects that hold them, in order of address: so many descriptors come with it.
        descriptors: u32,
    }
}
