//! Pages of files that a client has in its page table, as far as the server has mapped them: the kernel takes each that
//! is there already for an error, after which the rest has to be asked for again.
//!
//! A hint only. A page that was taken away since faults again; then nothing is known of its mapping any more.

use super::Neighbours;
use super::bits::Bits;
use crate::engine::Engine;
use freehold_core::id::MappingId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Mappings of a client of which this is known: it may make and unmake as many as it likes.
const MAPPINGS: usize = 512;
/// Pages of a file of which it is known: the first 256 MiB.
const PAGES: u32 = 1 << 16;

/// What is known of one client.
#[derive(Debug, Default)]
pub(crate) struct Present(BTreeMap<MappingId, Bits>);

impl Present {
    fn note(&mut self, mapping: MappingId, pages: Range<u32>) {
        if self.0.len() >= MAPPINGS && !self.0.contains_key(&mapping) {
            self.0.clear();
        }
        let bits = self.0.entry(mapping).or_default();
        for page in pages.start..pages.end.min(PAGES) {
            bits.note(page);
        }
    }

    /// A page is mapped because it was faulted on: if it was thought to be there, others may have gone as well.
    fn fault(&mut self, mapping: MappingId, page: u32) {
        if self.has(mapping, page) {
            self.0.remove(&mapping);
        }
        self.note(mapping, page..page + 1);
    }

    fn has(&self, mapping: MappingId, page: u32) -> bool {
        self.0.get(&mapping).is_some_and(|bits| bits.has(page))
    }

    /// The first pages in a range that follow each other and are not known to be there.
    fn next_missing(&self, mapping: MappingId, pages: &Range<u32>) -> Option<Range<u32>> {
        match self.0.get(&mapping) {
            Some(bits) => bits.next_missing(pages),
            None => (!pages.is_empty()).then(|| pages.clone()),
        }
    }
}

impl Engine {
    pub(super) fn note_fault(&mut self, near: &Neighbours) {
        if let Some(client) = self.client_mut(near.client) {
            client.prefetch.present.fault(near.mapping, near.page);
        }
    }

    pub(super) fn note_present(&mut self, near: &Neighbours, pages: Range<u32>) {
        if let Some(client) = self.client_mut(near.client) {
            client.prefetch.present.note(near.mapping, pages);
        }
    }

    pub(super) fn next_absent(&self, near: &Neighbours, pages: &Range<u32>) -> Option<Range<u32>> {
        self.client(near.client)?
            .prefetch
            .present
            .next_missing(near.mapping, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAPPINGS, PAGES, Present};
    use freehold_core::id::MappingId;
    use std::ops::Range;

    fn mappings<const COUNT: usize>() -> [MappingId; COUNT] {
        crate::engine::objects::some_mappings()
    }

    fn missing(present: &Present, mapping: MappingId, pages: Range<u32>) -> Vec<Range<u32>> {
        let mut rest = pages;
        std::iter::from_fn(|| {
            let run = present.next_missing(mapping, &rest)?;
            rest.start = run.end;
            Some(run)
        })
        .collect()
    }

    #[test]
    fn what_was_mapped_is_not_missing_until_it_faults_again() {
        let [one, other] = mappings();
        let mut present = Present::default();
        assert_eq!(present.next_missing(one, &(10..20)), Some(10..20));
        present.note(one, 12..14);
        present.fault(one, 16);
        assert_eq!(missing(&present, one, 10..20), [10..12, 14..16, 17..20]);
        assert_eq!(present.next_missing(other, &(10..20)), Some(10..20));
        present.fault(one, 12);
        assert_eq!(missing(&present, one, 10..20), [10..12, 13..20]);
        assert!(missing(&present, one, 12..13).is_empty());
    }

    #[test]
    fn a_client_drives_it_so_far_only() {
        let mappings = mappings::<{ MAPPINGS + 1 }>();
        let mut present = Present::default();
        present.note(mappings[0], PAGES - 1..PAGES + 5);
        assert!(present.has(mappings[0], PAGES - 1) && !present.has(mappings[0], PAGES));
        for mapping in mappings {
            present.note(mapping, 0..1);
            assert!(present.0.len() <= MAPPINGS && present.has(mapping, 0));
        }
        assert_eq!(present.0.len(), 1);
    }
}
