//! Memory objects (memfds) and their shared mappings.

mod mapping;
mod memfd;

pub use mapping::{Access, LockError, MapError, SharedMapping};
pub use memfd::{Memfd, MemfdError, Residency, ResidencyError, ResidencySource};
