//! Frames and contents, kept without looking into the core's books: which pages are resident, and which version of its
//! content a page's frame and its store hold. Wrong moves are returned as sentences, for the oracles to report.
//!
//! A page that is mapped writable may be written at any moment. So it counts as written when such a mapping is made and
//! once more when it is taken away; no access has to be followed one by one.

use freehold_core::effect::Source;
use freehold_scenario::{RegionKind, Scenario};

/// Where a page is, as the effects say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Absent,
    Filling,
    Resident,
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    place: Place,
    /// A version of the content was written to the store or file.
    stored: bool,
    /// Version last written by a task; 0: never.
    truth: u64,
    /// Version in the frame.
    frame: u64,
    /// Version in the store.
    store: u64,
    /// One bit for each reservation with a writing task; the last bit for all from the 64th on and for tasks without.
    writers: u64,
}

/// All pages of all regions.
#[derive(Debug)]
pub(crate) struct Physical {
    pages: Vec<Page>,
    /// First page of each region in `pages`.
    first: Vec<usize>,
    is_file: Vec<bool>,
    resident: Vec<u64>,
    /// Of the resident pages, those on their way out.
    leaving: Vec<u64>,
    frames: u64,
    pool: u64,
    version: u64,
    /// Pages in the swap store, and how many it can hold.
    stored: u64,
    capacity: Option<u64>,
}

/// What is wrong with an effect.
pub(crate) type Wrong = Option<&'static str>;

impl Physical {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut pages = Vec::new();
        let mut first = Vec::new();
        for region in &scenario.regions {
            first.push(pages.len());
            let is_file = region.kind == RegionKind::File && region.copy_of.is_none();
            let page = Page {
                place: Place::Absent,
                stored: is_file,
                truth: 0,
                frame: 0,
                store: 0,
                writers: 0,
            };
            pages.resize(pages.len() + region.pages.get() as usize, page);
        }
        let is_file = |region: &freehold_scenario::Region| region.kind == RegionKind::File && region.copy_of.is_none();
        Self {
            pages,
            first,
            is_file: scenario.regions.iter().map(is_file).collect(),
            resident: vec![0; scenario.regions.len()],
            leaving: vec![0; scenario.regions.len()],
            frames: 0,
            pool: u64::from(scenario.pool.get()),
            version: 0,
            stored: 0,
            capacity: scenario.store.capacity.map(|pages| u64::from(pages.get())),
        }
    }

    /// The number of a page among all pages.
    pub(crate) fn number(&self, region: usize, page: u32) -> u32 {
        u32::try_from(self.first[region] + page as usize).unwrap_or(u32::MAX)
    }

    /// Pages of all regions.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    fn page(&mut self, region: usize, page: u32) -> &mut Page {
        &mut self.pages[self.first[region] + page as usize]
    }

    fn get(&self, region: usize, page: u32) -> &Page {
        &self.pages[self.first[region] + page as usize]
    }

    /// The version that the file of a page holds; `None` of a page that is no file's.
    pub(crate) fn file_version(&self, region: usize, page: u32) -> Option<u64> {
        self.is_file[region].then(|| self.get(region, page).store)
    }

    /// Frames that are set aside for devices are not there for pages.
    pub(crate) fn set_aside(&mut self, frames: u64) {
        self.pool -= frames;
    }

    pub(crate) fn is_resident(&self, region: usize, page: u32) -> bool {
        self.get(region, page).place == Place::Resident
    }

    /// Resident pages of a region, those on their way out included.
    pub(crate) fn resident(&self, region: usize) -> u64 {
        self.resident[region]
    }

    /// Resident pages of a region that are not on their way out.
    pub(crate) fn staying(&self, region: usize) -> u64 {
        self.resident[region] - self.leaving[region]
    }

    /// Resident pages of all regions.
    pub(crate) fn all_resident(&self) -> u64 {
        self.resident.iter().sum()
    }

    /// More frames in use than there are.
    pub(crate) fn overdrawn(&self) -> Option<(u64, u64)> {
        (self.frames > self.pool).then_some((self.frames, self.pool))
    }

    /// Whether a page was written by a task that is not of this reservation.
    pub(crate) fn written_by_others(&self, region: usize, page: u32, reservation: usize) -> bool {
        self.get(region, page).writers & !writer_bit(Some(reservation)) != 0
    }

    /// A write-back of a page without a place in the store, where the store is full.
    pub(crate) fn store_is_full_for(&self, region: usize, page: u32) -> bool {
        !self.is_file[region] && !self.get(region, page).stored && self.capacity.is_some_and(|c| self.stored >= c)
    }

    /// From now on the store has room for everything.
    pub(crate) fn enlarge_store(&mut self) {
        self.capacity = None;
    }

    /// A writable mapping comes; `by` says of which reservation, if the task ever writes the region.
    pub(crate) fn written(&mut self, region: usize, page: u32, by: Option<Option<usize>>) {
        self.written_once_more(region, page);
        self.page(region, page).writers |= by.map_or(0, writer_bit);
    }

    /// A writable mapping goes.
    pub(crate) fn written_once_more(&mut self, region: usize, page: u32) {
        self.version += 1;
        let version = self.version;
        let page = self.page(region, page);
        (page.truth, page.frame) = (version, version);
    }

    pub(crate) fn fill(&mut self, region: usize, page: u32, source: Source) -> Wrong {
        self.frames += 1;
        let page = self.page(region, page);
        let was = std::mem::replace(&mut page.place, Place::Filling);
        if was != Place::Absent {
            return Some("a fill of a page that is not absent");
        }
        match source {
            Source::Zero if page.truth != 0 => Some("a zero fill of a page that was written"),
            Source::Store if !page.stored => Some("a fill from a store that never got the page"),
            _ => None,
        }
    }

    /// A fill ended. `from` is the page copied.
    pub(crate) fn filled(&mut self, region: usize, page: u32, source: Source, from: Option<(usize, u32)>) -> Wrong {
        self.resident[region] += 1;
        let mut wrong = None;
        let content = match (source, from) {
            (Source::Zero, _) => 0,
            (Source::Store, _) => self.get(region, page).store,
            (Source::CopyOf(_), from) => {
                wrong = from.and_then(|(region, page)| self.unreadable(region, page));
                self.version += 1;
                self.version
            }
        };
        let page = self.page(region, page);
        page.place = Place::Resident;
        page.frame = content;
        if matches!(source, Source::CopyOf(_)) {
            page.truth = content;
        }
        if page.truth != content {
            Some("a fill brought in something else than was last written")
        } else {
            wrong
        }
    }

    /// A fill failed.
    pub(crate) fn not_filled(&mut self, region: usize, page: u32) {
        self.frames -= 1;
        self.page(region, page).place = Place::Absent;
    }

    /// A page that can be read neither from its frame nor from its store.
    fn unreadable(&self, region: usize, page: u32) -> Wrong {
        let page = self.get(region, page);
        let in_frame = matches!(page.place, Place::Resident | Place::Leaving) && page.frame == page.truth;
        (!in_frame && !page.is_recoverable()).then_some("a copy of a page whose content is nowhere")
    }

    pub(crate) fn write_back(&mut self, region: usize, page: u32) -> Wrong {
        self.leaving[region] += 1;
        let was = std::mem::replace(&mut self.page(region, page).place, Place::Leaving);
        (was != Place::Resident).then_some("a write-back of a page that is not resident")
    }

    pub(crate) fn discard(&mut self, region: usize, page: u32) -> Wrong {
        self.leaving[region] += 1;
        let page = self.page(region, page);
        let was = std::mem::replace(&mut page.place, Place::Leaving);
        if was != Place::Resident {
            return Some("a discard of a page that is not resident");
        }
        (!page.is_recoverable()).then_some("a discard of a page whose content is nowhere else")
    }

    /// A write-back (`written`) or a discard ended: the frame is free.
    pub(crate) fn gone(&mut self, region: usize, page: u32, written: bool) {
        self.frames -= 1;
        self.resident[region] -= 1;
        self.leaving[region] -= 1;
        let takes_slot = written && !self.get(region, page).stored && !self.is_file[region];
        self.stored += u64::from(takes_slot);
        let page = self.page(region, page);
        page.place = Place::Absent;
        if written {
            page.store = page.frame;
            page.stored = true;
        }
    }

    /// A write-back failed: the page stays.
    pub(crate) fn kept(&mut self, region: usize, page: u32) {
        self.leaving[region] -= 1;
        self.page(region, page).place = Place::Resident;
    }

    /// A page's frame becomes another page's.
    pub(crate) fn take(&mut self, from: (usize, u32), to: (usize, u32)) -> Wrong {
        let source = *self.get(from.0, from.1);
        let target = self.get(to.0, to.1).place;
        self.resident[from.0] -= u64::from(source.place == Place::Resident);
        self.resident[to.0] += 1;
        self.page(from.0, from.1).place = Place::Absent;
        self.version += 1;
        let version = self.version;
        let page = self.page(to.0, to.1);
        (page.place, page.frame, page.truth) = (Place::Resident, version, version);
        match (source.place, target) {
            (Place::Resident, Place::Absent) if source.is_recoverable() => None,
            (Place::Resident, Place::Absent) => Some("a frame taken from a page whose content is nowhere else"),
            (Place::Resident, _) => Some("a frame taken for a page that is not absent"),
            _ => Some("a frame taken from a page that is not resident"),
        }
    }
}

impl Page {
    /// Whether the content survives the loss of the frame.
    fn is_recoverable(&self) -> bool {
        if self.stored {
            self.store == self.truth
        } else {
            self.truth == 0
        }
    }
}

fn writer_bit(reservation: Option<usize>) -> u64 {
    1 << reservation.unwrap_or(63).min(63)
}

#[cfg(test)]
mod tests;
