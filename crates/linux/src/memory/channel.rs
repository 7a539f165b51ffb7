//! The memory that a server and a client's agent both map for orders and answers.

use super::{Access, LockError, MapError, Memfd, SharedMapping};
use crate::{Errno, PAGE_SIZE, PageRange};
use freehold_protocol::channel::{BYTES, Channel};
use std::ops::Deref;

/// Pages of a channel.
const PAGES: usize = BYTES / PAGE_SIZE;

/// A mapped [`Channel`], unmapped on drop. All its pages are present.
#[derive(Debug)]
pub struct ChannelMapping {
    mapping: SharedMapping,
}

impl ChannelMapping {
    /// The pages that a channel's memory object must have.
    #[must_use]
    pub const fn pages() -> usize {
        PAGES
    }

    /// Maps the channel in `object`.
    ///
    /// # Errors
    /// [`MapError::OutOfBounds`] where the object is too short, or the kernel's refusal.
    pub fn new(object: &Memfd) -> Result<Self, MapError> {
        let mapping = SharedMapping::new(object, PageRange::new(0, PAGES), Access::ReadWrite)?;
        mapping.populate(mapping.whole()).or_else(|errno| match errno {
            // Older than 5.14: pages come at the first touch.
            Errno::INVAL => Ok(()),
            errno => Err(MapError::System(errno)),
        })?;
        Ok(Self { mapping })
    }

    /// Locks its pages, so that no order ever waits for one.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn lock(&mut self) -> Result<(), LockError> {
        self.mapping.lock_on_fault()
    }
}

impl Deref for ChannelMapping {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        // SAFETY: the mapping has at least `BYTES` bytes, is aligned to a page and lives as long as this value. A
        // channel is made of atomics only, for which every content is valid, whoever else writes it meanwhile.
        unsafe { &*self.mapping.base().cast::<Channel>() }
    }
}

#[cfg(test)]
mod tests {
    use super::ChannelMapping;
    use crate::memory::{Memfd, SharedMapping};
    use freehold_protocol::channel::{Action, Order, Position};
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let object = Memfd::create(c"channel", ChannelMapping::pages()).unwrap();
        let server = ChannelMapping::new(&object).unwrap();
        let agent = ChannelMapping::new(&object).unwrap();
        assert_ne!(std::ptr::from_ref(&*server), std::ptr::from_ref(&*agent));
        let order = Order {
            sequence: 7,
            action: Action::Zap,
            pages: 3,
            slot: 0,
            address: 0x7000,
        };
        let (mut written, mut read) = (Position::default(), Position::default());
        assert!(server.orders.push(&mut written, order));
        server.doorbell.fetch_add(1, Ordering::SeqCst);
        assert_eq!(agent.orders.pop(&mut read), Ok(Some(order)));
        assert_eq!(agent.orders.pop::<Order>(&mut read), Ok(None));
        assert_eq!(agent.doorbell.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_object_that_is_too_short_is_refused() {
        let object = Memfd::create(c"short", ChannelMapping::pages() - 1).unwrap();
        assert!(ChannelMapping::new(&object).is_err());
        assert!(SharedMapping::of_whole(&object, crate::memory::Access::Read).is_ok());
    }
}
