//! Files that nobody has open any more, kept for whoever starts the same program next.
//!
//! What a program's text is would else be read and mapped anew for every process of a shell script. A kept object is
//! one that nobody maps: its pages are the next victims of the reservations that used them, and the pool's when these
//! end, so that they give way like any others. The descriptor of the file goes: a file system that no program uses can
//! be unmounted.

use crate::engine::Engine;
use crate::engine::objects::Content;
use freehold_core::id::ObjectId;
use std::collections::BTreeMap;

/// One in so many objects, in so many of the server's frames, and in so many pages of its tables may be kept.
const SHARE: usize = 8;

/// Which objects are idle, the longest first.
#[derive(Debug, Default)]
pub(in crate::engine) struct IdleFiles {
    /// Pages of the server's tables.
    table: usize,
    /// Objects of any kind that somebody has left in this step.
    pub(in crate::engine) left: Vec<ObjectId>,
    by_age: BTreeMap<u64, (ObjectId, Size)>,
    /// Of all together.
    size: Size,
    last: u64,
}

/// What an object takes, in pages.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// In frames, when it was left.
    resident: usize,
    /// In the tables: the whole file.
    whole: usize,
}

impl Size {
    fn fits(self, limit: Self) -> bool {
        self.resident <= limit.resident && self.whole <= limit.whole
    }
}

impl IdleFiles {
    /// None yet, where the tables have so many pages.
    pub(super) fn new(table: u32) -> Self {
        Self {
            table: table as usize,
            ..Self::default()
        }
    }

    fn insert(&mut self, object: ObjectId, size: Size) -> u64 {
        self.last += 1;
        self.size.resident += size.resident;
        self.size.whole += size.whole;
        self.by_age.insert(self.last, (object, size));
        self.last
    }

    fn remove(&mut self, turn: u64) {
        if let Some((_, size)) = self.by_age.remove(&turn) {
            self.size.resident -= size.resident;
            self.size.whole -= size.whole;
        }
    }

    fn oldest(&self) -> Option<ObjectId> {
        self.by_age.values().next().map(|(object, _)| *object)
    }
}

impl Engine {
    /// Keeps the object of a file that nobody uses, and lets go of those kept longest for it; false where it is none
    /// that anybody will ask for again.
    pub(in crate::engine) fn keep_file(&mut self, id: ObjectId) -> bool {
        let resident = self.core.resident(id).map_or(0, |count| count.get());
        let most = self.objects.len() / SHARE;
        let limit = Size {
            resident: self.core.pool_view().total.get() as usize / SHARE,
            whole: self.objects.idle_files.table / SHARE,
        };
        let Some(object) = self.object_mut(id) else {
            return false;
        };
        let Content::File {
            file, changed: false, ..
        } = &mut object.content
        else {
            return false;
        };
        let size = Size {
            resident: resident as usize,
            whole: object.pages as usize,
        };
        if !size.fits(limit) || most == 0 {
            return false;
        }
        *file = None;
        let turn = self.objects.idle_files.insert(id, size);
        if let Some(object) = self.object_mut(id) {
            object.idle = Some(turn);
            object.payer = 0;
        }
        while self.objects.idle_files.by_age.len() > most || !self.objects.idle_files.size.fits(limit) {
            self.end_oldest_idle();
        }
        true
    }

    /// Somebody opens an object again, or it ends.
    pub(in crate::engine) fn no_longer_idle(&mut self, id: ObjectId) {
        if let Some(turn) = self.object_mut(id).and_then(|object| object.idle.take()) {
            self.objects.idle_files.remove(turn);
        }
    }

    /// A table is full, or no more memory may be locked: takes back what somebody has given up, or ends the object that
    /// is idle longest; false where there is neither, and what was tried cannot be had.
    pub(super) fn make_room(&mut self) -> bool {
        if self.tear_down_any() {
            return true;
        }
        let ended = self.end_oldest_idle();
        if ended {
            self.teardown_step();
        }
        ended
    }

    fn end_oldest_idle(&mut self) -> bool {
        let oldest = self.objects.idle_files.oldest();
        if let Some(id) = oldest {
            self.doom(id);
        }
        oldest.is_some()
    }
}
