//! Memory objects (memfds), their shared mappings, pages lent for a transfer, and pages of zeros.

mod anonymous;
mod backed;
mod channel;
mod chunk;
mod document;
mod filler;
mod lease;
mod lock_all;
mod locked_frames;
mod locked_pages;
mod mapping;
mod memfd;
mod racing;
mod served;
mod slab;
mod window;
mod zeroed;
mod zeros;

pub use backed::{Backed, BackedError};
pub use channel::ChannelMapping;
pub use chunk::{Chunk, HUGE_PAGES};
pub use document::{DocumentError, is_sealed, read_document, seal_document};
pub use filler::Filler;
pub use lease::{LeaseCell, PageLease};
pub use lock_all::{lock_all_current, lock_all_on_fault};
pub use locked_frames::{LockedFrames, LockedFramesError};
pub use locked_pages::{LockedPages, LockedPagesError};
pub use mapping::{Access, LockError, MapError, SharedMapping};
use memfd::reopen_read_only;
pub use memfd::{Memfd, MemfdError, Residency, ResidencyError, ResidencySource};
pub use served::{ServeError, ServedMapping};
pub use slab::{Slab, SlabPage, pieces as slab_pieces};
pub use window::Window;
pub use zeroed::{Zeroed, zeroed};
pub use zeros::Zeros;
