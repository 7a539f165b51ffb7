//! What is in each frame of the region, kept without looking into the cache's books: law 6 as an oracle.

use std::collections::BTreeMap;

use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::{FrameIndex, FrameRange, VictimCache};

use super::{Key, file};
use crate::laws::{LawBook, Oracle};

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// A page with this version of its content is copied in; `None` where it is wanted no more.
    Filling(Option<(Key, u64)>),
    Cached(Key, u64),
    Leaving,
    Device,
}

/// All frames of the region.
#[derive(Debug)]
pub(super) struct Contents {
    uses: Vec<Use>,
    /// Where each page is that is cached or copied in.
    pages: BTreeMap<Key, usize>,
}

impl Contents {
    pub(super) fn new(frames: u32) -> Self {
        Self {
            uses: vec![Use::Free; frames as usize],
            pages: BTreeMap::new(),
        }
    }

    pub(super) fn frames(&self) -> FrameCount {
        FrameCount::new(u32::try_from(self.uses.len()).unwrap_or(u32::MAX))
    }

    /// A page is copied into a frame, with this version of its content.
    pub(super) fn put(&mut self, frame: FrameIndex, key: Key, version: u64, now: u64, laws: &mut LawBook) {
        if let Some(place) = self.pages.get(&key).copied() {
            // It is replaced: what is there is wanted no more.
            self.forget(place);
        }
        let place = frame.get() as usize;
        let before = std::mem::replace(&mut self.uses[place], Use::Filling(Some((key, version))));
        if before != Use::Free {
            blame(laws, now, || {
                format!("a page is put into frame {place}, which is {before:?}")
            });
        }
        self.pages.insert(key, place);
    }

    /// A page made room for another.
    pub(super) fn evicted(&mut self, key: Key, now: u64, laws: &mut LawBook) {
        match self.pages.get(&key).copied() {
            Some(place) if matches!(self.uses[place], Use::Cached(..)) => self.forget(place),
            _ => blame(laws, now, || format!("{key:?} makes room and is not cached")),
        }
    }

    /// A page is served from a frame, where its file holds this version.
    pub(super) fn hit(&mut self, frame: FrameIndex, wanted: (Key, u64), now: u64, laws: &mut LawBook) {
        let place = frame.get() as usize;
        let found = self.uses[place];
        if found != Use::Cached(wanted.0, wanted.1) {
            blame(laws, now, || {
                format!("frame {place}, which is {found:?}, is served for {wanted:?}")
            });
        }
        self.forget(place);
        self.uses[place] = Use::Leaving;
    }

    /// A page is not served. One that is cached is, unless too many copies are under way; one that is copied in goes.
    pub(super) fn missed(&mut self, key: Key, most: usize, now: u64, laws: &mut LawBook) {
        let Some(place) = self.pages.get(&key).copied() else {
            return;
        };
        let moving = |used: &&Use| matches!(used, Use::Filling(_) | Use::Leaving);
        if matches!(self.uses[place], Use::Cached(..)) && self.uses.iter().filter(moving).count() < most {
            blame(laws, now, || {
                format!("{key:?} is cached in frame {place} and not served")
            });
        }
        self.forget(place);
    }

    /// A copy into or out of a frame has ended.
    pub(super) fn copied(&mut self, frame: FrameIndex, fails: bool, now: u64, laws: &mut LawBook) {
        let place = frame.get() as usize;
        self.uses[place] = match self.uses[place] {
            Use::Filling(Some((key, version))) if !fails => Use::Cached(key, version),
            Use::Filling(Some((key, _))) => {
                self.pages.remove(&key);
                Use::Free
            }
            Use::Filling(None) | Use::Leaving => Use::Free,
            other => {
                blame(laws, now, || {
                    format!("a copy ends in frame {place}, which is {other:?}")
                });
                other
            }
        };
    }

    /// A device opens there: pages are gone, copies under way go on.
    pub(super) fn discarded(&mut self, range: FrameRange) {
        for place in places(range) {
            self.forget(place);
        }
    }

    /// A device has these frames now. Nobody copies, and nothing is cached there.
    pub(super) fn handed_over(&mut self, range: FrameRange, now: u64, laws: &mut LawBook) {
        for place in places(range) {
            let before = std::mem::replace(&mut self.uses[place], Use::Device);
            if before != Use::Free {
                blame(laws, now, || format!("frame {place} is handed over and is {before:?}"));
            }
        }
    }

    /// These frames are the cache's again.
    pub(super) fn returned(&mut self, range: FrameRange) {
        for place in places(range) {
            if self.uses[place] == Use::Device {
                self.uses[place] = Use::Free;
            }
        }
    }

    /// What the cache has is what it was given and has not given back; none of it is in memory as well.
    pub(super) fn compare(&self, cache: &VictimCache, is_resident: impl Fn(Key) -> bool, now: u64, laws: &mut LawBook) {
        let mut cached = 0;
        for (key, place) in &self.pages {
            let here = matches!(self.uses[*place], Use::Cached(..));
            cached += u32::from(here);
            if !cache.has(file(*key), PageIndex::new(key.1)) {
                blame(laws, now, || {
                    format!("{key:?} was put into frame {place}, and the cache has it not")
                });
            }
            if here && is_resident(*key) {
                blame(laws, now, || {
                    format!("{key:?} is cached in frame {place} and in memory as well")
                });
            }
        }
        let books = cache.frames();
        let believed = books.cached.get();
        if believed != cached {
            blame(laws, now, || {
                format!("the cache believes {believed} pages cached, {cached} are")
            });
        }
    }

    fn forget(&mut self, place: usize) {
        match self.uses[place] {
            Use::Cached(key, _) => {
                self.pages.remove(&key);
                self.uses[place] = Use::Free;
            }
            Use::Filling(Some((key, _))) => {
                self.pages.remove(&key);
                self.uses[place] = Use::Filling(None);
            }
            _ => {}
        }
    }
}

fn places(range: FrameRange) -> std::ops::Range<usize> {
    let first = range.first().get() as usize;
    first..first + range.count().get() as usize
}

fn blame(laws: &mut LawBook, now: u64, what: impl FnOnce() -> String) {
    laws.report(now, Oracle::VictimCache, what);
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = (0, 7);

    fn frame(place: u32) -> FrameIndex {
        FrameIndex::new(place)
    }

    /// What a frame with a cached page is blamed for.
    fn blamed(then: impl Fn(&mut Contents, &mut LawBook)) -> Vec<String> {
        let (mut contents, mut laws) = (Contents::new(4), LawBook::default());
        contents.put(frame(2), KEY, 5, 0, &mut laws);
        contents.copied(frame(2), false, 0, &mut laws);
        then(&mut contents, &mut laws);
        let violations = laws.into_laws().violations;
        assert!(violations.iter().all(|violation| violation.law == 6));
        violations.into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn what_is_served_is_what_the_file_holds() {
        assert!(blamed(|contents, laws| contents.hit(frame(2), (KEY, 5), 1, laws)).is_empty());
        for (place, key, version) in [(2, KEY, 6), (2, (0, 8), 5), (1, KEY, 5)] {
            let found = blamed(|contents, laws| contents.hit(frame(place), (key, version), 1, laws));
            assert_eq!(found.len(), 1, "{found:?}");
        }
    }

    #[test]
    fn what_is_handed_over_holds_no_page_and_no_copy() {
        let range = FrameRange::new(frame(1), FrameCount::new(3));
        let of = |before: fn(&mut Contents, &mut LawBook)| {
            blamed(|contents, laws| {
                before(contents, laws);
                contents.handed_over(range, 1, laws);
            })
        };
        assert_eq!(of(|_, _| {}).len(), 1, "a page is there");
        assert_eq!(
            of(|contents, laws| contents.hit(frame(2), (KEY, 5), 1, laws)).len(),
            1,
            "it is copied out"
        );
        let gone = |contents: &mut Contents, _: &mut LawBook| {
            contents.discarded(FrameRange::new(frame(0), FrameCount::new(4)));
        };
        assert!(of(gone).is_empty());
    }

    #[test]
    fn a_page_that_is_cached_is_served() {
        assert_eq!(blamed(|contents, laws| contents.missed(KEY, 64, 1, laws)).len(), 1);
        assert!(blamed(|contents, laws| contents.missed((0, 8), 64, 1, laws)).is_empty());
        assert_eq!(
            blamed(|contents, laws| contents.put(frame(2), (0, 8), 1, 1, laws)).len(),
            1
        );
    }
}
