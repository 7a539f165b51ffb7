//! One hard reservation alone, as plain vectors.

use std::collections::BTreeSet;

use freehold_core::memory::{DEMOTION_BATCH, EVICTION_BATCH};

/// Object and page.
pub(crate) type Page = (usize, u32);

/// One reservation with one task, alone.
#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) capacity: usize,
    pub(crate) active: Vec<Page>,
    pub(crate) inactive: Vec<Page>,
    pub(crate) locked: Vec<Page>,
    pub(crate) mapped: BTreeSet<Page>,
    pub(crate) faults: u64,
    pub(crate) evictions: Vec<Page>,
}

impl Naive {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            ..Self::default()
        }
    }

    pub(crate) fn touch(&mut self, page: Page) {
        if !self.mapped.insert(page) {
            return;
        }
        self.faults += 1;
        if self.active.contains(&page) || self.locked.contains(&page) {
            return;
        }
        if !take(&mut self.inactive, page) {
            self.make_room();
        }
        self.active.push(page);
    }

    /// The first write to a page of a view: its copy takes the place of the base's page, where that is on the lists.
    pub(crate) fn copy(&mut self, base: Page, own: Page) {
        if !take(&mut self.active, base) && !take(&mut self.inactive, base) {
            // A locked base page stays where it is; the view shows the copy from now on.
            return self.touch(own);
        }
        self.mapped.remove(&base);
        self.mapped.insert(own);
        self.faults += 1;
        self.active.push(own);
    }

    pub(crate) fn lock(&mut self, pages: impl Iterator<Item = Page>) {
        for page in pages {
            if !take(&mut self.active, page) && !take(&mut self.inactive, page) {
                self.make_room();
            }
            self.locked.push(page);
        }
    }

    pub(crate) fn unlock(&mut self, pages: impl Iterator<Item = Page>) {
        for page in pages {
            assert!(take(&mut self.locked, page), "unlocked what was locked");
            self.active.push(page);
        }
    }

    /// The only task ends: nothing is mapped any more, and all stays where it is.
    pub(crate) fn end(&mut self) {
        self.mapped.clear();
    }

    /// The pages of these objects, in this order, are no longer mapped by the task.
    pub(crate) fn leave(&mut self, objects: &[usize]) {
        for &object in objects {
            let (active, inactive) = (&mut self.active, &mut self.inactive);
            let mut left: Vec<Page> = active.iter().chain(&*inactive).copied().collect();
            left.retain(|page| page.0 == object);
            left.sort_unstable();
            active.retain(|page| page.0 != object);
            inactive.retain(|page| page.0 != object);
            inactive.splice(0..0, left);
            self.mapped.retain(|page| page.0 != object);
        }
    }

    fn make_room(&mut self) {
        if self.active.len() + self.inactive.len() + self.locked.len() < self.capacity {
            return;
        }
        let batch = (self.capacity / 32).clamp(1, EVICTION_BATCH as usize);
        for _ in 0..DEMOTION_BATCH {
            let pages = self.active.len() + self.inactive.len();
            if self.inactive.len() >= (pages / 4).max(batch.min(pages)) || self.active.is_empty() {
                break;
            }
            let page = self.active.remove(0);
            self.mapped.remove(&page);
            self.inactive.push(page);
        }
        for _ in 0..batch.min(self.inactive.len()) {
            self.evictions.push(self.inactive.remove(0));
        }
    }

    pub(crate) fn has(&self, page: Page) -> bool {
        [&self.active, &self.inactive, &self.locked]
            .iter()
            .any(|list| list.contains(&page))
    }
}

fn take(list: &mut Vec<Page>, page: Page) -> bool {
    let at = list.iter().position(|&other| other == page);
    at.map(|at| list.remove(at)).is_some()
}
