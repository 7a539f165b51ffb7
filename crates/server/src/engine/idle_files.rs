//! Files that nobody has open any more, kept for whoever starts the same program next.
//!
//! What a program's text is would else be read and mapped anew for every process of a shell script. A kept object is
//! one that nobody maps: its pages are the next victims of the reservations that used them, and the pool's when these
//! end, so that they give way like any others. The descriptor of the file goes: a file system that no program uses can
//! be unmounted.

use crate::engine::Engine;
use crate::engine::rows::Content;
use freehold_core::id::ObjectId;
use std::collections::BTreeMap;

/// One in so many objects, and in so many of the server's frames, may be kept.
const SHARE: usize = 8;

/// Which objects are idle, the longest first.
#[derive(Debug, Default)]
pub(super) struct IdleFiles {
    /// Objects of any kind that somebody has left in this step.
    pub(super) left: Vec<ObjectId>,
    by_age: BTreeMap<u64, (ObjectId, u32)>,
    /// Pages that they had when they were left, together.
    pages: usize,
    last: u64,
}

impl IdleFiles {
    fn insert(&mut self, object: ObjectId, pages: u32) -> u64 {
        self.last += 1;
        self.pages += pages as usize;
        self.by_age.insert(self.last, (object, pages));
        self.last
    }

    fn remove(&mut self, turn: u64) {
        if let Some((_, pages)) = self.by_age.remove(&turn) {
            self.pages -= pages as usize;
        }
    }

    fn oldest(&self) -> Option<ObjectId> {
        self.by_age.values().next().map(|(object, _)| *object)
    }
}

impl Engine {
    /// Keeps the object of a file that nobody uses, and lets go of those kept longest for it; false where it is none
    /// that anybody will ask for again.
    pub(super) fn keep_file(&mut self, id: ObjectId) -> bool {
        let resident = self.core.resident(id).map_or(0, |count| count.get());
        let (most, frames) = (
            self.objects.len() / SHARE,
            self.core.pool_view().total.get() as usize / SHARE,
        );
        let Some(object) = self.object_mut(id) else {
            return false;
        };
        let Content::File {
            file, changed: false, ..
        } = &mut object.content
        else {
            return false;
        };
        if resident as usize > frames || most == 0 {
            return false;
        }
        *file = None;
        let turn = self.idle_files.insert(id, resident);
        if let Some(object) = self.object_mut(id) {
            object.idle = Some(turn);
        }
        while self.idle_files.by_age.len() > most || self.idle_files.pages > frames {
            self.end_oldest_idle();
        }
        true
    }

    /// Somebody opens an object again, or it ends.
    pub(super) fn no_longer_idle(&mut self, id: ObjectId) {
        if let Some(turn) = self.object_mut(id).and_then(|object| object.idle.take()) {
            self.idle_files.remove(turn);
        }
    }

    /// A table is full, or no more memory may be locked: ends the object that is idle longest; false where there is
    /// none, and what was tried cannot be had.
    pub(super) fn make_room(&mut self) -> bool {
        let ended = self.end_oldest_idle();
        if ended {
            self.retire();
        }
        ended
    }

    fn end_oldest_idle(&mut self) -> bool {
        let oldest = self.idle_files.oldest();
        if let Some(id) = oldest {
            self.doom(id);
        }
        oldest.is_some()
    }
}
