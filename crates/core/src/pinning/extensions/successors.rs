//! Which page was faulted on after which, beyond the paper: programs that go round come by in the same order again.
//!
//! A table of guesses, shared by all pools that restore: of pages whose numbers collide, the latest is known.

use alloc::vec::Vec;

use crate::index::PageNumber;

/// Pages of which the successor is known, at most.
const MOST: u32 = 1 << 16;

/// A page, and the one after it.
#[derive(Clone, Copy, Debug)]
struct Row {
    page: PageNumber,
    after: PageNumber,
}

/// The table. A look-up and a change are O(1).
#[derive(Debug)]
pub(crate) struct Successors {
    /// A power of two of them.
    rows: Vec<Row>,
}

impl Successors {
    /// For so many pages; `None` without memory for it.
    pub(crate) fn for_pages(pages: u32) -> Option<Self> {
        let count = pages.clamp(1, MOST).next_power_of_two() as usize;
        let mut rows = Vec::new();
        rows.try_reserve_exact(count).ok()?;
        let nothing = Row {
            page: PageNumber::NONE,
            after: PageNumber::NONE,
        };
        rows.resize(count, nothing);
        Some(Self { rows })
    }

    /// `after` was faulted on right after `page`.
    pub(crate) fn note(&mut self, page: PageNumber, after: PageNumber) {
        let place = self.place(page);
        self.rows[place] = Row { page, after };
    }

    /// What was faulted on after `page`, the last time.
    pub(crate) fn after(&self, page: PageNumber) -> Option<PageNumber> {
        let row = self.rows[self.place(page)];
        (row.page == page).then_some(row.after)?.some()
    }

    fn place(&self, page: PageNumber) -> usize {
        page.0 as usize & (self.rows.len() - 1)
    }
}
