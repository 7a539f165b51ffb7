//! Inodes that the kernel knows, each by a descriptor of its own.
//!
//! The descriptor (`O_PATH`) keeps the inode, so its number names no other one until the kernel forgets it. Hard links
//! are one inode: the table is by device and inode number of SOURCE.

use crate::content::Content;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of the root of a FUSE file system.
pub(crate) const ROOT: u64 = 1;
/// Where numbers begin of inodes whose own number is taken.
const SPARE: u64 = 1 << 63;

/// Which inode of SOURCE: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
}

/// An inode that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    /// What the kernel calls it.
    pub(crate) number: u64,
    pub(crate) identity: Identity,
    pub(crate) kind: FileType,
    /// `O_PATH`
    pub(crate) place: OwnedFd,
    /// What is cached of it, where it is a regular file.
    pub(crate) content: Content,
    /// Names that the kernel was told of, the latest last.
    names: Mutex<Vec<Name>>,
    /// Somebody asked for it since it was last looked at.
    used: AtomicBool,
}

/// A folder's number, and a name in it.
type Name = (u64, OsString);

/// Names of an inode that are kept.
const MOST_NAMES: usize = 8;

impl Inode {
    fn new(number: u64, identity: Identity, kind: FileType, place: OwnedFd) -> Self {
        Self {
            number,
            identity,
            kind,
            place,
            content: Content::default(),
            names: Mutex::default(),
            used: AtomicBool::new(true),
        }
    }

    fn names(&self) -> MutexGuard<'_, Vec<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody asked for it since this was last called.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// The kernel is told of it by this name.
    pub(crate) fn note_name(&self, folder: u64, name: &OsStr) {
        let mut names = self.names();
        if names.iter().any(|(place, known)| *place == folder && known == name) {
            return;
        }
        if names.len() == MOST_NAMES {
            names.remove(0);
        }
        names.push((folder, name.to_owned()));
    }

    /// Whether the kernel may know it by a name in such a folder.
    pub(crate) fn is_named_in(&self, such: impl Fn(u64) -> bool) -> bool {
        self.names().iter().any(|(folder, _)| such(*folder))
    }

    /// The names that the kernel may know it by.
    pub(crate) fn take_names(&self) -> Vec<Name> {
        std::mem::take(&mut *self.names())
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Inodes {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    rows: BTreeMap<u64, Row>,
    numbers: BTreeMap<Identity, u64>,
    spare: u64,
}

#[derive(Debug)]
struct Row {
    inode: Arc<Inode>,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
}

impl Inodes {
    /// A table with the root in it, which is never forgotten.
    pub(crate) fn new(identity: Identity, place: OwnedFd) -> Self {
        let inode = Arc::new(Inode::new(ROOT, identity, FileType::Directory, place));
        Self {
            table: Mutex::new(Table {
                rows: BTreeMap::from([(ROOT, Row { inode, lookups: 1 })]),
                numbers: BTreeMap::from([(identity, ROOT)]),
                spare: SPARE,
            }),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inode with this number.
    pub(crate) fn get(&self, number: u64) -> Result<Arc<Inode>, Errno> {
        let table = self.table();
        let row = table.rows.get(&number).ok_or(Errno::STALE)?;
        row.inode.used.store(true, Ordering::Relaxed);
        Ok(Arc::clone(&row.inode))
    }

    /// The inode with this identity, if it is known; the kernel is about to be told of it once more.
    pub(crate) fn find(&self, identity: Identity) -> Option<Arc<Inode>> {
        let mut table = self.table();
        let number = *table.numbers.get(&identity)?;
        let row = table.rows.get_mut(&number)?;
        row.lookups += 1;
        row.inode.used.store(true, Ordering::Relaxed);
        Some(Arc::clone(&row.inode))
    }

    /// As [`find`](Self::find), with a row made where there is none.
    pub(crate) fn enter(&self, identity: Identity, kind: FileType, place: OwnedFd) -> Arc<Inode> {
        if let Some(inode) = self.find(identity) {
            return inode;
        }
        let mut table = self.table();
        // Another thread may have entered it meanwhile.
        if let Some(number) = table.numbers.get(&identity).copied()
            && let Some(row) = table.rows.get_mut(&number)
        {
            row.lookups += 1;
            return Arc::clone(&row.inode);
        }
        let number = table.number_for(identity);
        let inode = Arc::new(Inode::new(number, identity, kind, place));
        let row = Row {
            inode: Arc::clone(&inode),
            lookups: 1,
        };
        table.rows.insert(number, row);
        table.numbers.insert(identity, number);
        inode
    }

    /// The kernel has forgotten it so many times; the inode, if that was all.
    pub(crate) fn forget(&self, number: u64, times: u64) -> Option<Arc<Inode>> {
        let mut table = self.table();
        let row = table.rows.get_mut(&number)?;
        row.lookups = row.lookups.saturating_sub(times);
        if row.lookups > 0 || number == ROOT {
            return None;
        }
        let row = table.rows.remove(&number)?;
        table.numbers.remove(&row.inode.identity);
        Some(row.inode)
    }

    /// The next higher numbers, in order; the root's is not among them. Whoever goes through many inodes has one at a
    /// time ([`peek`](Self::peek)): the descriptors of those that are forgotten meanwhile are free at once.
    pub(crate) fn numbers_after(&self, number: u64, most: usize) -> Vec<u64> {
        let table = self.table();
        let rows = table.rows.range(number.max(ROOT) + 1..).take(most);
        rows.map(|(number, _)| *number).collect()
    }

    /// The inode with this number, where that does not count as a use.
    pub(crate) fn peek(&self, number: u64) -> Option<Arc<Inode>> {
        self.table().rows.get(&number).map(|row| Arc::clone(&row.inode))
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.table().rows.len()
    }
}

impl Table {
    /// The inode's own number, unless FUSE means something else by it or another file system has it too.
    fn number_for(&mut self, identity: Identity) -> u64 {
        let own = identity.inode;
        if own > ROOT && own < SPARE && !self.rows.contains_key(&own) {
            return own;
        }
        self.spare += 1;
        self.spare
    }
}
