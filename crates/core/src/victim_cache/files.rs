//! Files that pages are cached of, each with a list of its frames.

use super::index::{HashTable, mix};
use super::node::{NONE, Nodes};
use super::spec::FileId;
use alloc::vec::Vec;

/// A file's row.
#[derive(Clone, Copy, Debug)]
struct File {
    id: FileId,
    /// The frame put last, or the next vacant row.
    first: u32,
}

/// All files.
#[derive(Debug)]
pub(super) struct Files {
    rows: Vec<File>,
    table: HashTable,
    vacant: u32,
}

impl Files {
    pub(super) fn new(files: u32) -> Option<Self> {
        let mut rows = Vec::new();
        rows.try_reserve_exact(files as usize).ok()?;
        rows.extend((1..=files).map(|next| File {
            id: FileId::new(0),
            first: if next == files { NONE } else { next },
        }));
        Some(Self {
            rows,
            table: HashTable::new(files)?,
            vacant: 0,
        })
    }

    /// The row of a file of which something is cached.
    pub(super) fn find(&self, id: FileId) -> Option<u32> {
        self.table.find(mix(id.get()), |row| self.rows[row as usize].id == id)
    }

    /// The row of a file, a new one where it has none; `None` where all are taken.
    pub(super) fn find_or_make(&mut self, id: FileId) -> Option<u32> {
        if let Some(row) = self.find(id) {
            return Some(row);
        }
        let row = self.vacant;
        let file = self.rows.get_mut(row as usize)?;
        self.vacant = file.first;
        *file = File { id, first: NONE };
        self.table.insert(mix(id.get()), row);
        Some(row)
    }

    /// Which file a row is of.
    pub(super) fn id(&self, row: u32) -> Option<FileId> {
        self.rows.get(row as usize).map(|file| file.id)
    }

    /// A frame of the file, if there is one.
    pub(super) fn first_frame(&self, row: u32) -> Option<u32> {
        self.rows
            .get(row as usize)
            .map(|file| file.first)
            .filter(|first| *first != NONE)
    }

    pub(super) fn link(&mut self, nodes: &mut Nodes, frame: u32) {
        let Some(file) = self.rows.get_mut(nodes[frame].file as usize) else {
            return;
        };
        nodes[frame].file_previous = NONE;
        nodes[frame].file_next = file.first;
        if file.first != NONE {
            nodes[file.first].file_previous = frame;
        }
        file.first = frame;
    }

    /// Takes a frame off its file's list; a file without frames has no row any more.
    pub(super) fn unlink(&mut self, nodes: &mut Nodes, frame: u32) {
        let (previous, next, row) = (nodes[frame].file_previous, nodes[frame].file_next, nodes[frame].file);
        if next != NONE {
            nodes[next].file_previous = previous;
        }
        if previous != NONE {
            nodes[previous].file_next = next;
            return;
        }
        let Some(file) = self.rows.get_mut(row as usize) else {
            return;
        };
        file.first = next;
        if next == NONE {
            self.drop_empty(row);
        }
    }

    /// Gives back the row of a file without frames.
    pub(super) fn drop_empty(&mut self, row: u32) {
        let Some(file) = self.rows.get(row as usize).copied() else {
            return;
        };
        if file.first != NONE {
            return;
        }
        let rows = &self.rows;
        self.table
            .remove(mix(file.id.get()), row, |row| mix(rows[row as usize].id.get()));
        self.rows[row as usize].first = self.vacant;
        self.vacant = row;
    }
}
