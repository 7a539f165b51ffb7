//! Where the region is cut into chunks, so that every opening is made of whole ones.

use std::collections::BTreeSet;

/// At most so many chunks where devices can be opened in part.
const MOST_CHUNKS: u32 = 512;
/// Pages of a chunk, where the devices' sizes allow: a huge page.
const USUAL: u32 = 512;

/// Chunks of a region, each a range of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// The first page of each, and the end.
    starts: Vec<u32>,
    granule: u32,
}

impl Cuts {
    /// Cuts for devices of these sizes behind one another, in multiples of `unit` pages; `None` where a size is no
    /// multiple of it.
    pub(crate) fn new(sizes: &[u32], unit: u32) -> Option<Self> {
        let frames: u32 = sizes.iter().sum();
        if frames == 0 || sizes.iter().any(|size| !size.is_multiple_of(unit)) {
            return None;
        }
        let common = sizes.iter().fold(0, |common, size| divisor(common, *size));
        let fits = |granule: &u32| common.is_multiple_of(*granule) && frames / granule <= MOST_CHUNKS;
        let smallest = USUAL.min(common).max(unit);
        let granule = (1..=common / unit)
            .map(|units| units * unit)
            .filter(|granule| *granule >= smallest)
            .find(fits);
        Some(match granule {
            Some(granule) => Self {
                starts: (0..=frames / granule).map(|place| place * granule).collect(),
                granule,
            },
            // Sizes with nothing in common: chunks between all places where a device can begin or end, and each device
            // is opened whole.
            None => Self {
                starts: sums(sizes),
                granule: u32::MAX,
            },
        })
    }

    /// What is opened in part is rounded up to a multiple of this.
    pub(crate) fn granule(&self) -> u32 {
        self.granule
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn frames(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The pages of a chunk: the first, and how many. Empty past the last.
    pub(crate) fn pages(&self, chunk: usize) -> (u32, u32) {
        match (self.starts.get(chunk), self.starts.get(chunk + 1)) {
            (Some(first), Some(end)) => (*first, end - first),
            _ => (self.frames(), 0),
        }
    }

    /// The chunk that a page is in.
    pub(crate) fn chunk_of(&self, page: u32) -> usize {
        if self.alike() {
            return usize::try_from(page / self.granule).unwrap_or(usize::MAX);
        }
        self.starts.partition_point(|start| *start <= page).saturating_sub(1)
    }

    /// The chunks that a range of pages is made of, if it is made of whole ones.
    pub(crate) fn chunks(&self, first: u32, count: u32) -> Option<std::ops::Range<usize>> {
        let end = first.checked_add(count)?;
        let from = self.starts.binary_search(&first).ok()?;
        let upto = self.starts.binary_search(&end).ok()?;
        Some(from..upto)
    }

    /// Whether all are alike, so that one can take another's place.
    pub(crate) fn alike(&self) -> bool {
        self.granule != u32::MAX
    }
}

fn divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// The sums of all subsets.
fn sums(sizes: &[u32]) -> Vec<u32> {
    let mut sums = BTreeSet::from([0]);
    for size in sizes {
        let more: Vec<u32> = sums.iter().map(|sum| sum + size).collect();
        sums.extend(more);
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::Cuts;

    #[test]
    fn the_papers_devices_are_cut_into_huge_pages() {
        let sizes = [36, 34, 12, 8].map(|mebibytes| mebibytes * 256);
        for unit in [1, 512] {
            let cuts = Cuts::new(&sizes, unit).unwrap();
            assert_eq!((cuts.granule(), cuts.count(), cuts.frames()), (512, 45, 23_040));
            assert_eq!(cuts.chunks(512, 1024), Some(1..3));
            assert_eq!(cuts.chunks(512, 1023), None);
            assert_eq!([0, 511, 512, 23_039].map(|page| cuts.chunk_of(page)), [0, 0, 1, 44]);
        }
    }

    #[test]
    fn large_regions_have_larger_chunks() {
        let cuts = Cuts::new(&[36 * 25_600, 54 * 25_600], 512).unwrap();
        assert!(
            cuts.count() <= 512
                && (36_u32 * 25_600).is_multiple_of(cuts.granule())
                && cuts.granule().is_multiple_of(512)
        );
    }

    #[test]
    fn sizes_with_nothing_in_common_are_cut_where_devices_can_begin() {
        assert_eq!(Cuts::new(&[5, 3], 512), None);
        let cuts = Cuts::new(&[5000, 1], 1).unwrap();
        assert_eq!((cuts.count(), cuts.granule()), (3, u32::MAX));
        assert_eq!(
            (cuts.pages(0), cuts.pages(1), cuts.pages(2)),
            ((0, 1), (1, 4999), (5000, 1))
        );
        assert_eq!([0, 1, 4999, 5000].map(|page| cuts.chunk_of(page)), [0, 1, 1, 2]);
        let small = Cuts::new(&[6, 4], 1).unwrap();
        assert_eq!((small.granule(), small.count()), (2, 5));
    }
}
