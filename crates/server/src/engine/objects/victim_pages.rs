//! Pages of files between their objects and the victim cache: put when they leave, asked for before a file is read.
//!
//! A page is in one of the two at most. It is put just before its frame goes, and got just before it has one again, in
//! holds of the engine, or by the thread that would read the file. Where somebody else has the cache at the moment a
//! page that leaves is dropped, and one that comes waits for that thread.

use crate::closing::LentFile;
use crate::engine::Engine;
use crate::engine::objects::{Content, Object};
use crate::engine::teardown::deferred_free::DeferredFree;
use crate::victims::{CachedFile, Victims};
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::Run;
use freehold_ecache::{PAGE_SIZE, PageIndex};
use freehold_linux::memory::PagedMemfd;
use freehold_linux::uncached_read::Uncached;
use freehold_linux::{Errno, PageRange};
use freehold_store::PageLease;
use rustix::fs::{SeekFrom, seek};
use rustix::io::ReadWriteFlags;
use std::sync::Arc;

/// Pages of an object that has gone which are put in one hold of the engine.
const AT_ONCE: usize = 16;
/// Pages that are put in one step at most; others that leave in it are read again when somebody wants them.
const MOST_OFFERS: usize = 128;

/// Where pages of a file come from.
#[derive(Clone, Debug)]
pub(crate) struct FileSource {
    pub(super) file: LentFile,
    /// Bytes of the file.
    pub(super) size: u64,
    /// Where they are looked for first.
    victims: Option<(Arc<Victims>, CachedFile)>,
}

impl FileSource {
    /// A file that is not cached.
    #[cfg(test)]
    pub(super) fn plain(file: &LentFile) -> Self {
        Self {
            file: Arc::clone(file),
            size: 0,
            victims: None,
        }
    }

    /// How the file is read past the kernel's page cache, if it is.
    fn way(&self) -> Option<Uncached> {
        self.victims.as_ref().map(|(_, cached)| cached.way())
    }

    /// Flags of reads of it. With them the kernel drops what it reads for one when that has been read.
    pub(super) fn flags(&self) -> ReadWriteFlags {
        self.way().map_or(ReadWriteFlags::empty(), Uncached::flags)
    }

    /// Where pages are looked for before the file is read, if they may be given out now. That takes two system calls:
    /// pages that were asked for before are looked for by one answer.
    pub(in crate::engine) fn cache(&self) -> Option<CachedPages<'_>> {
        let (victims, cached) = self.victims.as_ref()?;
        let held = Victims::holds(&self.file, self.size);
        held.then_some(CachedPages {
            victims,
            cached: *cached,
        })
    }

    /// Takes a page out of the cache, or reads it from the file; what lies past the file's end is zeros. May wait.
    pub(crate) fn get_or_read(&self, page: PageRef, loan: &mut PageLease) -> Result<(), Errno> {
        if let Some(CachedPages { victims, cached }) = self.cache()
            && victims.get(cached.key(page.page().get()), loan.bytes_mut())
        {
            return Ok(());
        }
        self.read(page, loan)
    }

    /// Reads a page from the file. May wait.
    pub(in crate::engine) fn read(&self, page: PageRef, loan: &mut PageLease) -> Result<(), Errno> {
        let offset = u64::from(page.page().get()) * crate::PAGE;
        let bytes = loan.bytes_mut();
        let read = match self.way() {
            Some(way) => way.read(&**self.file, bytes, offset)?,
            None => crate::engine::objects::file_readers::read_page(&self.file, offset, bytes)?,
        };
        bytes.get_mut(read..).unwrap_or_default().fill(0);
        Ok(())
    }
}

/// The cached pages of a file, for requests that were there when its lease was looked at.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct CachedPages<'a> {
    victims: &'a Victims,
    cached: CachedFile,
}

impl CachedPages<'_> {
    /// Takes a page out; `None` where that would have to wait.
    pub(super) fn try_get(self, page: PageRef, loan: &mut PageLease) -> Option<bool> {
        let key = self.cached.key(page.page().get());
        self.victims.try_get(key, loan.bytes_mut())
    }

    /// Takes a page out, if it is there. May wait.
    pub(in crate::engine) fn get(self, page: PageRef, loan: &mut PageLease) -> bool {
        let key = self.cached.key(page.page().get());
        self.victims.get(key, loan.bytes_mut())
    }
}

/// What a step has put so far.
#[derive(Debug, Default)]
pub(in crate::engine) struct Offers {
    step: Instant,
    pages: usize,
    /// The row of the object whose lease was looked at last, and whether it is held.
    looked: Option<(usize, bool)>,
}

impl Offers {
    /// Of so many pages, how many may still be put in a step.
    fn allow(&mut self, step: Instant, pages: usize) -> usize {
        if self.step != step {
            *self = Self {
                step,
                ..Self::default()
            };
        }
        let allowed = pages.min(MOST_OFFERS - self.pages);
        self.pages += allowed;
        allowed
    }

    /// Whether a file's lease is held, looked at once while one object follows itself.
    fn holds(&mut self, object: usize, look: impl FnOnce() -> bool) -> bool {
        match self.looked {
            Some((same, held)) if same == object => held,
            _ => {
                let held = look();
                self.looked = Some((object, held));
                held
            }
        }
    }
}

impl Engine {
    /// From now on clean pages of files go there when they leave.
    pub(crate) fn evict_into(&mut self, victims: Arc<Victims>) {
        self.backing.sources.victims = Some(victims);
    }

    /// Where an object's pages come from, if it is a file's that is open.
    pub(in crate::engine) fn source_of(&self, object: ObjectId) -> Option<FileSource> {
        let Content::File {
            file: Some(file),
            identity,
            cached,
            ..
        } = &self.object(object)?.content
        else {
            return None;
        };
        Some(FileSource {
            file: Arc::clone(file),
            size: identity.size,
            victims: self.backing.sources.victims.clone().zip(*cached),
        })
    }

    /// Puts pages that are about to lose their frames: so many in a step, since others wait for the engine.
    pub(in crate::engine) fn offer_victims(&mut self, run: Run) {
        if self.backing.sources.victims.is_none() || self.io.lockstep.is_held() {
            return;
        }
        let mut offers = std::mem::take(&mut self.backing.sources.offers);
        let count = offers.allow(self.step.now, run.count);
        if count > 0
            && let Some(victims) = &self.backing.sources.victims
            && let Some(left) = self.object(run.first.object()).and_then(Leaving::of)
            && offers.holds(run.first.object().index(), || left.is_leased())
        {
            let range = PageRange::new(run.first.page().get() as usize, count);
            put_all(victims, left.cached, left.memory, range);
        }
        self.backing.sources.offers = offers;
    }

    /// In lockstep pages are put one by one as the core decides it, whoever must be waited for.
    pub(in crate::engine) fn offer_in_order(&self, page: PageRef) {
        if let Some(victims) = &self.backing.sources.victims
            && self.io.lockstep.is_held()
            && let Some(left) = self.object(page.object()).and_then(Leaving::of)
            && left.is_leased()
        {
            let mut content = [0; PAGE_SIZE];
            if left.read(page.page().get() as usize, &mut content) {
                victims.put(left.cached.key(page.page().get()), &content);
            }
        }
    }

    /// Puts some pages of an object that has gone, from a page on: the page to go on from, if there may be more. Where
    /// the file has an object again nothing is put, since that may have any of them.
    pub(crate) fn offer_deferred(&self, deferred: &DeferredFree, from: u64) -> Option<u64> {
        let victims = self.backing.sources.victims.as_ref()?;
        let (identity, cached) = deferred.file?;
        if self.objects.has_file(&identity) || !victims.is_current(identity, cached) {
            return None;
        }
        let memory = deferred.memory();
        let first = seek(memory, SeekFrom::Data(from * crate::PAGE))
            .ok()?
            .div_euclid(crate::PAGE);
        let end = seek(memory, SeekFrom::Hole(first * crate::PAGE))
            .ok()?
            .div_ceil(crate::PAGE);
        let count = usize::try_from(end.saturating_sub(first))
            .unwrap_or(AT_ONCE)
            .min(AT_ONCE);
        let range = PageRange::new(usize::try_from(first).ok()?, count);
        put_all(victims, cached, memory, range);
        Some(first + count as u64)
    }

    /// Whether the cache's own laws hold, and no page is in its object and in the cache at once. O(pages of files).
    pub(in crate::engine) fn check_victims(&self) -> Result<(), String> {
        let Some(victims) = &self.backing.sources.victims else {
            return Ok(());
        };
        victims.check_laws()?;
        for row in self.objects.iter().flatten() {
            let Content::File {
                cached: Some(cached), ..
            } = &row.content
            else {
                continue;
            };
            let twice =
                |page: &u32| self.core.is_resident(row.id, PageIndex::new(*page)) && victims.has(cached.key(*page));
            if let Some(page) = (0..row.pages).find(twice) {
                return Err(format!("page {page} of {} is resident and cached", row.name));
            }
        }
        Ok(())
    }
}

/// A cached file's object that pages leave.
struct Leaving<'a> {
    cached: CachedFile,
    memory: &'a PagedMemfd,
    file: Option<&'a LentFile>,
    size: u64,
}

impl<'a> Leaving<'a> {
    fn of(row: &'a Object) -> Option<Self> {
        let Content::File {
            memory,
            file,
            identity,
            cached: Some(cached),
            ..
        } = &row.content
        else {
            return None;
        };
        Some(Self {
            cached: *cached,
            memory,
            file: file.as_ref(),
            size: identity.size,
        })
    }

    fn read(&self, page: usize, content: &mut [u8; PAGE_SIZE]) -> bool {
        let populated = self.memory.populate(PageRange::single(page));
        populated
            .and_then(|()| self.memory.read_populated(page, content))
            .is_ok()
    }

    /// Under an old lease its pages would never be asked for.
    fn is_leased(&self) -> bool {
        self.file.is_none_or(|file| Victims::holds(file, self.size))
    }
}

/// Puts pages that are in frames.
fn put_all(victims: &Victims, cached: CachedFile, memory: &PagedMemfd, range: PageRange) {
    if memory.populate(range).is_err() {
        return;
    }
    let mut content = [0; PAGE_SIZE];
    for page in range.first()..range.first() + range.count() {
        let key = u32::try_from(page).map(|page| cached.key(page));
        if let (Ok(key), Ok(())) = (key, memory.read_populated(page, &mut content)) {
            victims.try_put(key, &content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_puts_so_many_pages_and_looks_once_at_a_lease() {
        let mut offers = Offers::default();
        let step = Instant::new(5);
        assert_eq!((offers.allow(step, 100), offers.allow(step, 100)), (100, 28));
        assert_eq!((offers.allow(step, 1), offers.allow(Instant::new(6), 1)), (0, 1));
        let (one, other) = (1, 2);
        let mut looks = 0;
        let mut look = |offers: &mut Offers, object, held| {
            offers.holds(object, || {
                looks += 1;
                held
            })
        };
        assert!(look(&mut offers, one, true) && look(&mut offers, one, false));
        assert!(!look(&mut offers, other, false));
        offers.allow(Instant::new(7), 1);
        assert!(look(&mut offers, one, true));
        assert_eq!(looks, 3);
    }
}
