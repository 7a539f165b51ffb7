//! Huge pages that lie behind one another, chosen among many: for machines that have no page of 1 GiB to spare.
//!
//! Fresh huge pages lie anywhere, but of some hundred a good part are neighbours. A run of neighbours stays, the others
//! go back. The pool of huge pages is last in, first out: so the run is given up in descending order, and whoever takes
//! huge pages next has it in ascending order.

use freehold_linux::memory::{Chunk, HUGE_PAGES, Window};
use freehold_linux::{Errno, PAGE_SIZE, PageRange, physical};

/// Huge pages that one process holds, all with memory.
#[derive(Debug)]
pub(crate) struct Held {
    chunk: Chunk,
    window: Window,
    /// Where each lies: its first frame.
    frames: Vec<u64>,
}

impl Held {
    /// Takes so many out of the pool.
    ///
    /// # Errors
    /// The pool has fewer, or the page map does not tell where they lie.
    pub(crate) fn take(count: usize) -> Result<Self, Errno> {
        let pages = count * HUGE_PAGES;
        let chunk = Chunk::create(c"freehold-adjacent", pages, true).map_err(|_| Errno::NOMEM)?;
        let window = Window::reserve(pages)?;
        window.place(0, &chunk)?;
        let whole = PageRange::new(0, pages);
        window.populate(whole)?;
        let addresses = window.addresses(whole).ok_or(Errno::NOMEM)?;
        debug_assert_eq!(addresses.length(), pages * PAGE_SIZE);
        let frames = physical::frames(addresses, HUGE_PAGES)?;
        let frames: Option<Vec<u64>> = frames.into_iter().collect();
        Ok(Self {
            chunk,
            window,
            frames: frames.ok_or(Errno::PERM)?,
        })
    }

    /// Gives back to the pool all but a run of so many neighbours, and returns the places of that.
    ///
    /// # Errors
    /// How long the longest run is; all are held still.
    pub(crate) fn keep_run(&self, wanted: usize) -> Result<Vec<usize>, usize> {
        let run = choose(&self.frames, wanted)?;
        let others = (0..self.frames.len()).filter(|place| !run.contains(place));
        others.for_each(|place| self.give_back(place));
        Ok(run)
    }

    /// Gives a run back, so that the next who takes huge pages has it in order.
    pub(crate) fn give_back_run(self, run: &[usize]) {
        run.iter().rev().for_each(|place| self.give_back(*place));
    }

    fn give_back(&self, place: usize) {
        // What is refused goes with the last descriptor, in whatever order.
        let _ = self.chunk.punch_part(PageRange::new(place * HUGE_PAGES, HUGE_PAGES));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.window.vacate(PageRange::new(0, self.window.pages()));
    }
}

/// Places of `wanted` huge pages whose frames follow one another, in that order: out of the shortest run that has as
/// many. Else how long the longest is.
fn choose(frames: &[u64], wanted: usize) -> Result<Vec<usize>, usize> {
    let mut places: Vec<usize> = (0..frames.len()).collect();
    places.sort_unstable_by_key(|place| frames[*place]);
    let follows = |one: &usize, next: &usize| frames[*one] + HUGE_PAGES as u64 == frames[*next];
    let runs = || places.chunk_by(follows);
    let fitting = runs().filter(|run| run.len() >= wanted).min_by_key(|run| run.len());
    match fitting {
        Some(run) => Ok(run[..wanted].to_vec()),
        None => Err(runs().map(<[usize]>::len).max().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn the_shortest_run_that_is_long_enough_is_chosen_in_order() {
        let frames = [9, 4, 30, 3, 31, 5, 32, 33, 6, 20].map(|frame| frame * 512);
        assert_eq!(choose(&frames, 2), Ok(vec![3, 1]));
        assert_eq!(choose(&frames, 4), Ok(vec![3, 1, 5, 8]));
        assert_eq!(choose(&frames, 5), Err(4));
        assert_eq!(choose(&frames[..1], 1), Ok(vec![0]));
        assert_eq!(choose(&[], 1), Err(0));
        assert_eq!(choose(&[0, 511, 1024], 2), Err(1), "neighbours are 512 frames apart");
    }
}
