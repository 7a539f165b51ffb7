//! Where one mapping of a file ends and another begins: a library's text beside its read-only data. The kernel takes
//! nothing of a range that reaches over such a border, and every program that maps the file has it at the same page.

/// Borders of one file that are remembered.
const BORDERS: usize = 16;

/// Pages at which mappings of a file begin behind others.
#[derive(Debug, Default)]
pub(crate) struct Borders(Vec<u32>);

impl Borders {
    pub(super) fn note(&mut self, page: u32) {
        if self.0.len() < BORDERS && !self.0.contains(&page) {
            self.0.push(page);
        }
    }

    /// Of so many pages from one on, those before the first border.
    pub(super) fn before(&self, first: u32, count: usize) -> usize {
        let beyond = self.0.iter().filter_map(|border| border.checked_sub(first));
        let nearest = beyond.filter(|pages| *pages > 0).min();
        nearest.map_or(count, |pages| count.min(pages as usize))
    }
}

/// Looks for the border that a range of pages reached over which the kernel did not take.
#[derive(Debug, Default)]
pub(super) struct Search(Option<(usize, usize)>);

impl Search {
    /// The kernel takes nothing of these.
    pub(super) fn refused(&mut self, start: usize, count: usize) {
        self.0 = Some((start, start + count));
    }

    /// It takes these, as all from the last refused range's beginning up to them: `start`, where they begin behind the
    /// border.
    pub(super) fn taken(&mut self, start: usize, count: usize) -> Option<usize> {
        self.0
            .take_if(|(first, end)| start > *first && start + count >= *end)
            .map(|_| start)
    }
}

#[cfg(test)]
mod tests {
    use super::{BORDERS, Borders, Search};

    #[test]
    fn ranges_end_at_the_next_border() {
        let mut borders = Borders::default();
        assert_eq!(borders.before(3, 9), 9);
        for page in [20, 5, 20, 11] {
            borders.note(page);
        }
        assert_eq!(borders.0.len(), 3);
        assert_eq!((borders.before(3, 9), borders.before(3, 1)), (2, 1));
        assert_eq!((borders.before(5, 30), borders.before(11, 9)), (6, 9));
        assert_eq!(borders.before(20, 7), 7);
        for page in 100..200 {
            borders.note(page);
        }
        assert_eq!(borders.0.len(), BORDERS);
    }

    /// Pages up to 64 with a border, halved where they reach over it and doubled again: what is found.
    fn look(border: usize) -> Option<usize> {
        let (mut search, mut done, mut most) = (Search::default(), 0, 64);
        while done < 64 {
            let count = most.min(64 - done);
            if done < border && border < done + count {
                search.refused(done, count);
                most = count / 2;
                continue;
            }
            if let Some(found) = search.taken(done, count) {
                return Some(found);
            }
            done += count;
            most = 2 * count;
        }
        None
    }

    #[test]
    fn a_border_is_found_where_a_range_reaches_over_it() {
        for border in 1..64 {
            assert_eq!(look(border), Some(border));
        }
        assert_eq!(look(64), None);
    }
}
