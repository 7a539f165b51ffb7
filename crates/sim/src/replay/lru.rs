//! Pages numbered as they first appear, and LRU lists of them.

use freehold_core::units::PageIndex;

const NONE: u32 = u32::MAX;

/// Numbers for pages: open addressing, at most half full.
#[derive(Debug)]
pub(super) struct Numbers {
    keys: Vec<(u64, u32)>,
    table: Vec<u32>,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self {
            keys: Vec::new(),
            table: vec![NONE; 1 << 10],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The page with this number.
    pub(super) fn page(&self, number: u32) -> (u64, PageIndex) {
        let (file, page) = self.keys[number as usize];
        (file, PageIndex::new(page))
    }

    /// The number of a page, the next one where it has none.
    pub(super) fn number(&mut self, file: u64, page: u32) -> u32 {
        if self.keys.len() * 2 >= self.table.len() {
            self.grow();
        }
        let mut at = home(file, page, self.table.len());
        loop {
            match self.table[at] {
                NONE => break,
                found if self.keys[found as usize] == (file, page) => return found,
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
        let number = u32::try_from(self.keys.len()).unwrap_or(NONE);
        self.keys.push((file, page));
        self.table[at] = number;
        number
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        let mut table = vec![NONE; size];
        for (number, (file, page)) in (0_u32..).zip(&self.keys) {
            let mut at = home(*file, *page, size);
            while table[at] != NONE {
                at = (at + 1) & (size - 1);
            }
            table[at] = number;
        }
        self.table = table;
    }
}

fn home(file: u64, page: u32, size: usize) -> usize {
    let key = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(page).wrapping_mul(0xd134_2543_de82_ef95);
    let mixed = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    usize::try_from(mixed).unwrap_or(usize::MAX) & (size - 1)
}

/// A page's links in a list, or nowhere.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: u32,
    older: u32,
    listed: bool,
}

/// One LRU list of at most so many pages.
#[derive(Debug)]
pub(super) struct Lru {
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
    len: usize,
    capacity: usize,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            links: Vec::new(),
            newest: NONE,
            oldest: NONE,
            len: 0,
            capacity,
        }
    }

    pub(super) fn has(&self, page: u32) -> bool {
        self.links.get(page as usize).is_some_and(|links| links.listed)
    }

    /// Uses a page; whether it was there.
    pub(super) fn touch(&mut self, page: u32) -> bool {
        let there = self.has(page);
        if there && page != self.newest {
            self.unlink(page);
            self.link(page);
        }
        there
    }

    /// Adds a page that is not there; returns the one that makes room.
    pub(super) fn add(&mut self, page: u32) -> Option<u32> {
        if self.capacity == 0 {
            return Some(page);
        }
        let gone = (self.len == self.capacity).then_some(self.oldest);
        if let Some(gone) = gone {
            self.unlink(gone);
        }
        if self.links.len() <= page as usize {
            let vacant = Links {
                newer: NONE,
                older: NONE,
                listed: false,
            };
            self.links.resize(page as usize + 1, vacant);
        }
        self.link(page);
        gone
    }

    /// Takes a page out, if it is there.
    pub(super) fn remove(&mut self, page: u32) {
        if self.has(page) {
            self.unlink(page);
        }
    }

    fn link(&mut self, page: u32) {
        self.links[page as usize] = Links {
            newer: NONE,
            older: self.newest,
            listed: true,
        };
        match self.newest {
            NONE => self.oldest = page,
            newest => self.links[newest as usize].newer = page,
        }
        self.newest = page;
        self.len += 1;
    }

    fn unlink(&mut self, page: u32) {
        let Links { newer, older, .. } = self.links[page as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[page as usize].listed = false;
        self.len -= 1;
    }
}
