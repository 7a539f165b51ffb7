//! Pages numbered as they first appear, and LRU lists of them.

/// No page.
pub(super) const NONE: u32 = u32::MAX;

/// Numbers for pages: open addressing, at most half full.
#[derive(Debug)]
pub(super) struct Numbers {
    keys: Vec<(u64, u32)>,
    table: Vec<u32>,
    /// The number after the one that was asked for last.
    next: usize,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            table: vec![NONE; 1 << 10],
            next: 0,
        }
    }
}

impl Numbers {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of a page, where it has one.
    pub(super) fn find(&self, file: u64, page: u32) -> Option<u32> {
        self.place(file, page).ok()
    }

    /// The number of a page, the next one where it has none. Pages are mostly used in the order in which they first
    /// were, so the page behind the last one is tried before the table.
    pub(super) fn number(&mut self, file: u64, page: u32) -> u32 {
        let number = if self.keys.get(self.next) == Some(&(file, page)) {
            u32::try_from(self.next).unwrap_or(NONE)
        } else {
            self.find_or_add(file, page)
        };
        self.next = number as usize + 1;
        number
    }

    fn find_or_add(&mut self, file: u64, page: u32) -> u32 {
        if self.keys.len() * 2 >= self.table.len() {
            self.grow();
        }
        let at = match self.place(file, page) {
            Ok(number) => return number,
            Err(at) => at,
        };
        let number = u32::try_from(self.keys.len()).unwrap_or(NONE);
        self.keys.push((file, page));
        self.table[at] = number;
        number
    }

    /// The number of a page, or the place in the table where it belongs.
    fn place(&self, file: u64, page: u32) -> Result<u32, usize> {
        let mut at = home(file, page, self.table.len());
        loop {
            match self.table[at] {
                NONE => return Err(at),
                found if self.keys[found as usize] == (file, page) => return Ok(found),
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
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

/// One LRU list.
#[derive(Debug)]
pub(super) struct Lru {
    links: Vec<Links>,
    newest: u32,
    oldest: u32,
    len: usize,
    capacity: usize,
}

impl Lru {
    /// An empty list of at most `capacity` of the pages numbered below `pages`.
    pub(super) fn new(capacity: usize, pages: usize) -> Self {
        let vacant = Links {
            newer: NONE,
            older: NONE,
            listed: false,
        };
        Self {
            links: vec![vacant; pages],
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
