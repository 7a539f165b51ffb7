//! Pages that come with their content: frame, content and lock by one system call.
//!
//! Populating a page and then copying to it clears a frame that is overwritten at once, and looks the page up twice.
//! UFFDIO_COPY (ioctl_userfaultfd(2)) makes the frame with its content and maps it; into a locked mapping, locked. The
//! kernel does it in registered mappings only, so a [`Filler`] registers them, for write protection, which nobody ever
//! asks for: no access to such a mapping ever waits for somebody, and absent pages of it come as in any other.

use super::{MapError, ServeError, SharedMapping};
use crate::userfault::{Features, Modes, OpenError, Stopped, Userfault};
use crate::{Errno, PAGE_SIZE};
use std::sync::Arc;

/// Fills absent pages of mappings of this process. Clones share one userfaultfd.
#[derive(Clone, Debug)]
pub struct Filler(Arc<Userfault>);

impl Filler {
    /// One for this process.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn new() -> Result<Self, OpenError> {
        let mut userfault = Userfault::open(Features::FILLING)?;
        // Nobody ever waits.
        userfault.let_sleep(true);
        Ok(Self(Arc::new(userfault)))
    }

    /// Lets pages of `mapping` be filled.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub(super) fn register(&self, mapping: &SharedMapping) -> Result<(), ServeError> {
        let addresses = mapping.addresses(mapping.whole()).ok_or(MapError::OutOfBounds)?;
        // SAFETY: a shared mapping gives out raw pointers only, and none of its pages is ever write-protected, so that
        // it behaves as before.
        unsafe { self.0.register(addresses, Modes::WRITE_PROTECT) }?;
        Ok(())
    }

    /// Gives an absent page of a registered mapping a frame with `content`.
    ///
    /// # Errors
    /// `EXIST` where the page has a frame, of which nothing is changed; `INVAL` where there is no such page; `NOMEM`
    /// where there is no frame to be had; `NOENT` where the mapping is not registered.
    pub(super) fn fill(&self, mapping: &SharedMapping, page: usize, content: &[u8; PAGE_SIZE]) -> Result<(), Errno> {
        let start = mapping.page(page).ok_or(Errno::INVAL)?.addr();
        self.0
            .copy(start, content, false)
            .map_err(|Stopped { errno, .. }| errno)
    }
}
