//! Pages of zeros to copy from.

use super::LockedFramesError;
use super::anonymous::Anonymous;
use crate::{AddressRange, PageRange};
use rustix::mm::{Advice, ProtFlags};

/// Read-only memory whose every page is the kernel's page of zeros: copying from all of them reads the same 4 KiB,
/// which stay in the first cache, where as many pages of their own would push as much out of the second.
///
/// That page is never reclaimed, so that it needs no lock.
#[derive(Debug)]
pub struct Zeros(Anonymous);

impl Zeros {
    /// So many pages, at least one (Linux 5.14).
    ///
    /// # Errors
    /// [`LockedFramesError::Map`].
    pub fn create(pages: usize) -> Result<Self, LockedFramesError> {
        let memory = Anonymous::create(pages, ProtFlags::READ)?;
        // Not the huge page of zeros, which is as large as many: the mapping has none.
        let filled = memory.advise(memory.whole(), Advice::LinuxPopulateRead);
        filled.map_err(|errno| LockedFramesError::Map { pages, errno })?;
        Ok(Self(memory))
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.pages()
    }

    /// The addresses of so many of them; `None` for none, and for more than there are.
    pub(crate) fn addresses(&self, pages: usize) -> Option<AddressRange> {
        self.0.addresses(PageRange::new(0, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::Zeros;
    use crate::PAGE_SIZE;

    #[test]
    fn so_many_pages_can_be_copied_from() {
        let zeros = Zeros::create(70).unwrap();
        assert_eq!(zeros.pages(), 70);
        assert_eq!(zeros.addresses(70).unwrap().length(), 70 * PAGE_SIZE);
        assert!(zeros.addresses(0).is_none() && zeros.addresses(71).is_none());
        assert!(Zeros::create(0).is_err());
    }
}
