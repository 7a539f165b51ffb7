//! Which pages of a slab nobody has, and which of these have a frame.

use crate::memory::HUGE_PAGES;
use std::ops::Range;

/// Pages that are handed out together where many are asked for: a device reads into pieces of 64 KiB nearly as fast as
/// into one of 1 MiB.
const GROUP: usize = 16;
const ALL: u16 = u16::MAX;

/// Pages that nobody has.
#[derive(Debug)]
pub(super) struct Free {
    /// All pages, by the group.
    groups: Vec<Group>,
    /// Pages before the first group's first that are in no slab: groups lie as huge pages do.
    offset: usize,
    /// Groups of warm pages only; the last is handed out first.
    whole: Vec<usize>,
    /// Groups of which some pages are warm, and some that were so.
    parts: Vec<usize>,
    warm: usize,
    /// Without a frame, in blocks whose pages come one by one; the last is handed out first.
    cold: Vec<usize>,
    /// First pages of blocks that may be huge pages, without a frame; the last is handed out first.
    blocks: Vec<usize>,
    /// The pages that lie in blocks.
    aligned: Range<usize>,
    /// Blocks whose pages come one by one, in order of address.
    broken: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Warm pages: free, with a frame.
    warm: u16,
    /// It is in the list of parts.
    is_listed: bool,
}

impl Free {
    /// All of so many pages without a frame; `number` is the first one's address in pages.
    pub(super) fn new(pages: usize, number: usize) -> Self {
        let first = (number.wrapping_neg() % HUGE_PAGES).min(pages);
        let count = (pages - first) / HUGE_PAGES;
        let aligned = first..first + count * HUGE_PAGES;
        let offset = number % GROUP;
        Self {
            groups: vec![Group::default(); (pages + offset).div_ceil(GROUP)],
            offset,
            whole: Vec::new(),
            parts: Vec::new(),
            warm: 0,
            cold: (0..first).chain(aligned.end..pages).rev().collect(),
            blocks: aligned.clone().step_by(HUGE_PAGES).rev().collect(),
            broken: vec![false; count],
            aligned,
        }
    }

    pub(super) fn with_frame(&self) -> usize {
        self.warm
    }

    pub(super) fn without_frame(&self) -> usize {
        self.cold.len() + self.blocks.len() * HUGE_PAGES
    }

    /// A page with a frame is nobody's.
    pub(super) fn put(&mut self, at: usize) {
        let (group, bit) = self.place(at);
        self.warm += 1;
        self.groups[group].warm |= 1 << bit;
        self.list(group);
    }

    /// All pages of a block have frames, and are nobody's.
    pub(super) fn put_block(&mut self, first: usize) {
        let (group, _) = self.place(first);
        self.warm += HUGE_PAGES;
        for group in (group..group + HUGE_PAGES / GROUP).rev() {
            self.groups[group].warm = ALL;
            self.whole.push(group);
        }
    }

    /// Takes pages with a frame, at most so many: where they are many, whole groups of them.
    pub(super) fn take_warm(&mut self, most: usize) -> Vec<usize> {
        let mut taken = Vec::with_capacity(most);
        while taken.len() + GROUP <= most
            && let Some(group) = self.whole.pop()
        {
            self.take_of(group, GROUP, &mut taken);
        }
        while taken.len() < most
            && let Some(group) = self.next_part().or_else(|| self.whole.pop())
        {
            self.take_of(group, most - taken.len(), &mut taken);
            self.list(group);
        }
        taken
    }

    /// Takes pages without one, at most so many, that come one by one.
    pub(super) fn take_cold(&mut self, most: usize) -> Vec<usize> {
        self.cold.split_off(self.cold.len() - most.min(self.cold.len()))
    }

    /// Takes a block without frames; its first page.
    pub(super) fn take_block(&mut self) -> Option<usize> {
        self.blocks.pop()
    }

    /// The pages, in order of address, have no frame, and are nobody's. Each comes by itself from now on.
    pub(super) fn put_cold(&mut self, pages: impl DoubleEndedIterator<Item = usize>) {
        self.cold.extend(pages.rev());
    }

    /// From now on the pages of this page's block come one by one. Returns the block's first page where they did not.
    pub(super) fn break_block(&mut self, at: usize) -> Option<usize> {
        let block = self.block_of(at)?;
        let was = std::mem::replace(&mut self.broken[block], true);
        (!was).then(|| self.aligned.start + block * HUGE_PAGES)
    }

    /// Takes so many pages with a frame, in order of address: of broken blocks first, then of as few others as will do.
    pub(super) fn take_to_cool(&mut self, many: usize) -> Vec<usize> {
        let mut groups = std::mem::take(&mut self.parts);
        for group in &groups {
            self.groups[*group].is_listed = false;
        }
        groups.retain(|group| self.groups[*group].warm != ALL);
        groups.append(&mut self.whole);
        groups.sort_unstable_by_key(|group| (!self.is_broken(*group), *group));
        let mut taken = Vec::with_capacity(many);
        for group in groups {
            self.take_of(group, many - taken.len(), &mut taken);
            self.list(group);
        }
        taken.sort_unstable();
        taken
    }

    /// The group of a page, and its place there.
    fn place(&self, at: usize) -> (usize, usize) {
        ((at + self.offset) / GROUP, (at + self.offset) % GROUP)
    }

    /// The block that a page is in; `None` where it is in none.
    fn block_of(&self, at: usize) -> Option<usize> {
        let inside = self.aligned.contains(&at);
        inside.then(|| (at - self.aligned.start) / HUGE_PAGES)
    }

    fn is_broken(&self, group: usize) -> bool {
        let first = (group * GROUP).saturating_sub(self.offset);
        self.block_of(first).is_none_or(|block| self.broken[block])
    }

    /// Takes warm pages of a group, at most so many.
    fn take_of(&mut self, group: usize, most: usize, taken: &mut Vec<usize>) {
        let enough = taken.len() + most;
        for bit in 0..GROUP {
            let mask = 1 << bit;
            if taken.len() < enough && self.groups[group].warm & mask != 0 {
                self.groups[group].warm &= !mask;
                self.warm -= 1;
                taken.push(group * GROUP + bit - self.offset);
            }
        }
    }

    /// Lists a group by what is warm of it.
    fn list(&mut self, group: usize) {
        match self.groups[group].warm {
            0 => {}
            ALL => self.whole.push(group),
            _ if self.groups[group].is_listed => {}
            _ => {
                self.groups[group].is_listed = true;
                self.parts.push(group);
            }
        }
    }

    /// The last group of which some pages are warm.
    fn next_part(&mut self) -> Option<usize> {
        loop {
            let group = self.parts.pop()?;
            self.groups[group].is_listed = false;
            if !matches!(self.groups[group].warm, 0 | ALL) {
                return Some(group);
            }
        }
    }
}
