//! Where the mount's own pages are: a map of blocks of pages that follow one another in a file, so that a read in order
//! finds most of its pages by one search.

use crate::own::PageKey;
use std::collections::BTreeMap;

/// Pages of a block.
const BLOCK: u32 = 64;
const NONE: u32 = u32::MAX;

/// Where each page is. A place is any number but the largest.
#[derive(Debug, Default)]
pub(crate) struct PageIndex {
    blocks: BTreeMap<(u64, u32), Block>,
    pages: usize,
}

#[derive(Debug)]
struct Block {
    places: Box<[u32; BLOCK as usize]>,
    pages: usize,
}

impl PageIndex {
    /// How many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.pages
    }

    /// Where a page is.
    pub(crate) fn get(&self, key: PageKey) -> Option<u32> {
        let (block, at) = split(key);
        let place = self.blocks.get(&block)?.places[at];
        (place != NONE).then_some(place)
    }

    /// Notes where a page is that was nowhere.
    pub(crate) fn insert(&mut self, key: PageKey, place: u32) {
        let (block, at) = split(key);
        let block = self.blocks.entry(block).or_insert_with(|| Block {
            places: Box::new([NONE; BLOCK as usize]),
            pages: 0,
        });
        if std::mem::replace(&mut block.places[at], place) == NONE {
            block.pages += 1;
            self.pages += 1;
        }
    }

    /// A page is nowhere any more.
    pub(crate) fn remove(&mut self, key: PageKey) {
        let (number, at) = split(key);
        let Some(block) = self.blocks.get_mut(&number) else {
            return;
        };
        if std::mem::replace(&mut block.places[at], NONE) != NONE {
            block.pages -= 1;
            self.pages -= 1;
        }
        if block.pages == 0 {
            self.blocks.remove(&number);
        }
    }

    /// Where the pages of a file are, in order.
    pub(crate) fn of_file(&self, file: u64) -> Vec<u32> {
        let blocks = self.blocks.range((file, 0)..=(file, u32::MAX));
        let places = blocks.flat_map(|(_, block)| block.places.iter().copied());
        places.filter(|place| *place != NONE).collect()
    }
}

/// A page's block, and its place in that.
fn split(key: PageKey) -> ((u64, u32), usize) {
    ((key.file, key.page / BLOCK), (key.page % BLOCK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_where_a_plain_map_has_them() {
        let (mut index, mut plain, mut state) = (PageIndex::default(), BTreeMap::new(), 3_u64);
        for place in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let file = (state >> 60) % 3;
            // Both ends of the numbers, too.
            let low = u32::try_from((state >> 33) % 300).unwrap();
            let page = if low % 2 == 0 { low } else { u32::MAX - low };
            let key = PageKey { file, page };
            assert_eq!(index.get(key), plain.get(&(file, page)).copied());
            if plain.remove(&(file, page)).is_some() {
                index.remove(key);
            } else {
                plain.insert((file, page), place);
                index.insert(key, place);
            }
            assert_eq!(index.len(), plain.len());
            if place % 500 == 0 {
                let of_file: Vec<u32> = plain.range((file, 0)..=(file, u32::MAX)).map(|(_, at)| *at).collect();
                assert_eq!(index.of_file(file), of_file);
            }
        }
        plain.keys().for_each(|(file, page)| {
            index.remove(PageKey {
                file: *file,
                page: *page,
            })
        });
        assert!(index.len() == 0 && index.blocks.is_empty(), "no empty block stays");
    }
}
