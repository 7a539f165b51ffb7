//! Pages of files between their objects and the victim cache: put when they leave, asked for before a file is read.
//!
//! A page is in one of the two at most. It is put just before its frame goes, and got just before it has one again, in
//! holds of the engine, or by the thread that would read the file. Where somebody else has the cache at the moment a
//! page that leaves is dropped, and one that comes waits for that thread.

use crate::closing::LentFile;
use crate::engine::Engine;
use crate::engine::deferred_free::DeferredFree;
use crate::engine::rows::{Content, Object};
use crate::victims::{CachedFile, Victims};
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_driver::Run;
use freehold_ecache::{Key, PAGE_SIZE, PageIndex};
use freehold_linux::memory::Backed;
use freehold_linux::uncached_read::Uncached;
use freehold_linux::{Errno, PageRange};
use freehold_store::PageLease;
use rustix::fs::{SeekFrom, seek};
use rustix::io::ReadWriteFlags;
use std::sync::Arc;

/// Pages that are put in one hold of the engine.
const AT_ONCE: usize = 16;

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

    /// Whether pages are looked for elsewhere before the file is read.
    pub(super) fn is_cached(&self) -> bool {
        self.victims.is_some()
    }

    /// The cache, and a page's name there, while its pages may be given out.
    fn place(&self, page: PageRef) -> Option<(&Victims, Key)> {
        let (victims, cached) = self.victims.as_ref()?;
        let held = Victims::holds(&self.file, self.size);
        held.then(|| (&**victims, cached.key(page.page().get())))
    }

    /// Takes a page out of the cache; `None` where that would have to wait.
    pub(super) fn try_get(&self, page: PageRef, loan: &mut PageLease) -> Option<bool> {
        match self.place(page) {
            Some((victims, key)) => victims.try_get(key, loan.bytes_mut()),
            None => Some(false),
        }
    }

    /// Takes a page out of the cache, or reads it from the file; what lies past the file's end is zeros. May wait.
    pub(crate) fn get_or_read(&self, page: PageRef, loan: &mut PageLease) -> Result<(), Errno> {
        if let Some((victims, key)) = self.place(page)
            && victims.get(key, loan.bytes_mut())
        {
            return Ok(());
        }
        let offset = u64::from(page.page().get()) * crate::PAGE;
        let bytes = loan.bytes_mut();
        let read = match self.way() {
            Some(way) => way.read(&**self.file, bytes, offset)?,
            None => super::readers::read_page(&self.file, offset, bytes)?,
        };
        bytes.get_mut(read..).unwrap_or_default().fill(0);
        Ok(())
    }
}

impl Engine {
    /// From now on clean pages of files go there when they leave.
    pub(crate) fn evict_into(&mut self, victims: Arc<Victims>) {
        self.sources.victims = Some(victims);
    }

    /// Where an object's pages come from, if it is a file's that is open.
    pub(super) fn source_of(&self, object: ObjectId) -> Option<FileSource> {
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
            victims: self.sources.victims.clone().zip(*cached),
        })
    }

    /// Puts pages that are about to lose their frames.
    pub(super) fn offer_victims(&self, run: Run) {
        if let Some(victims) = &self.sources.victims
            && let Some(row) = self.object(run.first.object())
        {
            offer(victims, row, PageRange::new(run.first.page().get() as usize, run.count));
        }
    }

    /// Puts some pages of an object that has gone, from a page on: the page to go on from, if there may be more. Where
    /// the file has an object again nothing is put, since that may have any of them.
    pub(crate) fn offer_deferred(&self, deferred: &DeferredFree, from: u64) -> Option<u64> {
        let victims = self.sources.victims.as_ref()?;
        let (identity, cached) = deferred.file?;
        if self.files.contains_key(&identity) || !victims.is_current(identity, cached) {
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
    pub(super) fn check_victims(&self) -> Result<(), String> {
        let Some(victims) = &self.sources.victims else {
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

fn offer(victims: &Victims, row: &Object, range: PageRange) {
    let Content::File {
        memory,
        file,
        identity,
        cached: Some(cached),
        ..
    } = &row.content
    else {
        return;
    };
    // Under an old lease it would never be asked for.
    if file.as_ref().is_none_or(|file| Victims::holds(file, identity.size)) {
        put_all(victims, *cached, memory, range);
    }
}

/// Puts pages that are in frames.
fn put_all(victims: &Victims, cached: CachedFile, memory: &Backed, range: PageRange) {
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
