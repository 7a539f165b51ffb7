//! Ranges of pages in an object or mapping, and ranges of addresses.

use crate::PAGE_SIZE;

/// A half-open range of pages, `first .. first + count`, in an object or a mapping. May be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRange {
    first: usize,
    count: usize,
}

impl PageRange {
    /// The `count` pages from `first` on.
    #[must_use]
    pub const fn new(first: usize, count: usize) -> Self {
        Self { first, count }
    }

    /// The single page `page`.
    #[must_use]
    pub const fn single(page: usize) -> Self {
        Self::new(page, 1)
    }

    /// The first page.
    #[must_use]
    pub const fn first(self) -> usize {
        self.first
    }

    /// How many pages.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// Whether the range lies within an object or mapping of `pages` pages.
    #[must_use]
    pub const fn fits(self, pages: usize) -> bool {
        match self.first.checked_add(self.count) {
            Some(end) => end <= pages,
            None => false,
        }
    }

    /// Offset and length in bytes, if they can be expressed as file positions.
    pub(crate) fn bytes(self) -> Option<(u64, u64)> {
        let offset = self.first.checked_mul(PAGE_SIZE)?;
        let length = self.count.checked_mul(PAGE_SIZE)?;
        let end = offset.checked_add(length)?;
        i64::try_from(end).ok()?;
        Some((u64::try_from(offset).ok()?, u64::try_from(length).ok()?))
    }
}

/// A half-open, page-aligned, non-empty range of addresses of this process.
///
/// It is a claim: nothing says that memory is mapped there. [`crate::memory::SharedMapping::addresses`] makes ranges
/// that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    start: usize,
    length: usize,
}

impl AddressRange {
    /// The range of `length` bytes at `start`; `None` unless both are page multiples, `length` is positive and the
    /// end does not overflow.
    #[must_use]
    pub const fn new(start: usize, length: usize) -> Option<Self> {
        if !start.is_multiple_of(PAGE_SIZE) || !length.is_multiple_of(PAGE_SIZE) || length == 0 {
            return None;
        }
        match start.checked_add(length) {
            Some(_) => Some(Self { start, length }),
            None => None,
        }
    }

    /// The first address.
    #[must_use]
    pub const fn start(self) -> usize {
        self.start
    }

    /// The length in bytes, a positive multiple of [`PAGE_SIZE`].
    #[must_use]
    pub const fn length(self) -> usize {
        self.length
    }

    /// The first address past the range.
    #[must_use]
    pub const fn end(self) -> usize {
        self.start + self.length
    }

    /// Whether `address` lies in the range.
    #[must_use]
    pub const fn contains(self, address: usize) -> bool {
        self.start <= address && address < self.end()
    }

    /// What is left after the first `done` bytes; `None` if nothing is, or `done` is no page multiple.
    #[must_use]
    pub const fn after(self, done: usize) -> Option<Self> {
        if done >= self.length {
            return None;
        }
        Self::new(self.start + done, self.length - done)
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressRange, PageRange};
    use crate::PAGE_SIZE;

    #[test]
    fn page_ranges_are_half_open_and_checked() {
        assert!(PageRange::new(2, 3).fits(5));
        assert!(!PageRange::new(2, 3).fits(4));
        assert!(!PageRange::new(usize::MAX, 2).fits(usize::MAX));
        assert!(PageRange::new(usize::MAX, 1).bytes().is_none());
        assert_eq!(PageRange::new(1, 2).bytes(), Some((4096, 8192)));
    }

    #[test]
    fn address_ranges_refuse_what_the_kernel_would() {
        assert!(AddressRange::new(1, PAGE_SIZE).is_none());
        assert!(AddressRange::new(PAGE_SIZE, 0).is_none());
        assert!(AddressRange::new(PAGE_SIZE, 5).is_none());
        let range = AddressRange::new(PAGE_SIZE, 2 * PAGE_SIZE).unwrap();
        assert!(range.contains(range.end() - 1) && !range.contains(range.end()));
        assert_eq!(range.after(PAGE_SIZE), AddressRange::new(2 * PAGE_SIZE, PAGE_SIZE));
        assert_eq!(range.after(2 * PAGE_SIZE), None);
    }
}
