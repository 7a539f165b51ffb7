//! Frames of memory that clients may write to, given back by threads of their users.
//!
//! The kernel makes no hole in a memory object while somebody writes to it by a system call, and who does so may wait
//! in the middle of it: for a page that this server is to bring, or for a file system of his own. So such holes are
//! made without the engine, and keep nobody waiting but the object's user.
//!
//! A few pages of each user count as gone before there is a hole where they were: until then the backing holds as many
//! frames less, and such a page is not brought again. Pages beyond these are gone, for the core, when their holes are
//! there.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::objects::Content;
use crate::engine::private_memory::transfer_memory::{MOST_WARM, punch};
use crate::engine::transfers::completion_queue::HoleEnd;
use crate::user_threads::Work;
use freehold_core::effect::Source;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_driver::{End, for_runs};
use freehold_linux::PageRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pages of one user that count as gone while their holes are being made.
const AHEAD: usize = 32;

/// Holes that are being made.
#[derive(Debug, Default)]
pub(in crate::engine) struct Holes {
    /// Pages that count as gone.
    ahead: BTreeSet<PageRef>,
    /// How many of them are whose.
    users: BTreeMap<u32, usize>,
    /// Pages of each object that have no hole yet, those that count as gone among them.
    objects: BTreeMap<ObjectId, u32>,
    /// Pages that are to be brought where there is no hole yet.
    waiting: Vec<Wanted>,
    /// Clients of which too many free slots have frames.
    hot: Vec<ClientId>,
}

/// A page that the core wants brought.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Wanted {
    pub(in crate::engine) page: PageRef,
    pub(in crate::engine) source: Source,
    pub(in crate::engine) urgency: u8,
}

impl Holes {
    /// Whether a page is brought later, because there is no hole where it was.
    pub(in crate::engine) fn puts_off(&mut self, wanted: &Wanted) -> bool {
        let late = self.ahead.contains(&wanted.page);
        if late {
            self.waiting.push(*wanted);
        }
        late
    }

    /// Free slots of a client are to be emptied.
    pub(in crate::engine) fn note_hot(&mut self, client: ClientId) {
        if !self.hot.contains(&client) {
            self.hot.push(client);
        }
    }

    /// Whether there is a client of which free slots are to be emptied.
    pub(in crate::engine) fn is_hot(&self) -> bool {
        !self.hot.is_empty()
    }

    /// Pages that count as gone and are in frames.
    pub(in crate::engine) fn frames(&self) -> usize {
        self.ahead.len()
    }

    /// Pages of an object that have left and are in frames.
    pub(in crate::engine) fn of(&self, object: ObjectId) -> u32 {
        self.objects.get(&object).copied().unwrap_or(0)
    }

    /// Takes note of pages of which holes are to be made; how many of them count as gone.
    fn begin(&mut self, user: u32, object: ObjectId, pages: &[PageRef]) -> usize {
        let ahead = self.users.entry(user).or_default();
        let early = AHEAD.saturating_sub(*ahead).min(pages.len());
        *ahead += early;
        self.ahead.extend(pages.iter().take(early));
        *self.objects.entry(object).or_default() += u32::try_from(pages.len()).unwrap_or(u32::MAX);
        early
    }

    fn end(&mut self, user: u32, object: ObjectId, all: usize, early: &[PageRef]) {
        for page in early {
            self.ahead.remove(page);
        }
        take(&mut self.users, user, early.len());
        take(&mut self.objects, object, u32::try_from(all).unwrap_or(u32::MAX));
    }

    /// Whether nobody waits for a hole that is not being made.
    pub(in crate::engine) fn check(&self) -> Result<(), String> {
        let lost = self.waiting.iter().find(|wanted| !self.ahead.contains(&wanted.page));
        let users: usize = self.users.values().sum();
        match lost {
            Some(Wanted { page, .. }) => Err(format!("{page:?} waits for a hole that nobody makes")),
            None if users != self.ahead.len() => Err(format!("{users} holes, but {} pages", self.ahead.len())),
            None => Ok(()),
        }
    }
}

/// Takes from a count; one that is none is forgotten.
fn take<K: Ord, N: Copy + Default + PartialEq + std::ops::Sub<Output = N>>(
    counts: &mut BTreeMap<K, N>,
    of: K,
    less: N,
) {
    if let Some(count) = counts.get_mut(&of) {
        *count = *count - less;
        if *count == N::default() {
            counts.remove(&of);
        }
    }
}

impl Engine {
    /// Has holes made where pages of regions were.
    pub(in crate::engine) fn make_holes(&mut self, pages: &mut Vec<PageRef>) {
        pages.sort_unstable();
        for of_one in pages.chunk_by(|one, next| one.object() == next.object()) {
            if let Some(first) = of_one.first() {
                self.make_holes_in(first.object(), of_one);
            }
        }
        pages.clear();
    }

    fn make_holes_in(&mut self, object: ObjectId, pages: &[PageRef]) {
        let Some(row) = self.object(object) else { return };
        let (user, Content::Region { memory, .. }) = (row.uid, &row.content) else {
            return;
        };
        let memory = Arc::clone(memory);
        let early = self.backing.holes.begin(user, object, pages);
        let (early, late) = pages.split_at(early);
        for page in early {
            self.end(*page, Request::Evict, End::Done);
        }
        let (completions, pager) = (Arc::clone(&self.io.completions), self.step.pager);
        let mut end = HoleEnd {
            user,
            object,
            early: early.to_vec(),
            late: late.to_vec(),
            failed: false,
        };
        let all = pages.to_vec();
        let errand = move || {
            for_runs(
                &all,
                |page| ((), u64::from(page.page().get())),
                |first, run| {
                    let range = PageRange::new(first.page().get() as usize, run);
                    end.failed |= memory.punch(range).is_err();
                },
            );
            completions.hole_made(pager, end);
        };
        self.backing.sources.threads.give(user, Work::Holes, Box::new(errand));
    }

    /// Has free slots emptied of clients of which too many have frames.
    pub(in crate::engine) fn cool_hot(&mut self) {
        while let Some(id) = self.backing.holes.hot.pop() {
            self.cool_slots(id, MOST_WARM / 2);
        }
    }

    /// Has up to `count` free slots emptied of those clients that may keep others waiting.
    pub(in crate::engine) fn cool_apart(&mut self, mut count: usize) {
        let all = self.clients.iter().filter(|(_, client)| client.slots.are_apart());
        let all: Vec<ClientId> = all.map(|(_, client)| client.id).collect();
        for id in all {
            count -= self.cool_slots(id, count).min(count);
        }
    }

    /// Has up to `count` free slots of a client emptied; how many.
    fn cool_slots(&mut self, id: ClientId, count: usize) -> usize {
        let Some(client) = self.client_mut(id) else { return 0 };
        let (user, Some((memory, slots))) = (client.process.uid, client.slots.begin_cooling(count)) else {
            return 0;
        };
        let begun = slots.len();
        let (completions, pager) = (Arc::clone(&self.io.completions), self.step.pager);
        let errand = move || {
            // What cannot be given back stays, and is seen in what the kernel counts.
            let _ = punch(&memory, &slots);
            completions.slots_cooled(pager, (id, slots));
        };
        self.backing.sources.threads.give(user, Work::Holes, Box::new(errand));
        begun
    }

    /// Free slots of a client have been emptied.
    pub(in crate::engine) fn slots_cooled(&mut self, (id, slots): (ClientId, Vec<u32>)) {
        // Frames that counted as theirs are to be in the backing.
        self.step.moved += slots.len();
        if let Some(client) = self.client_mut(id) {
            client.slots.end_cooling(slots);
        }
    }

    /// There are holes where pages were.
    pub(in crate::engine) fn holes_made(&mut self, end: HoleEnd) {
        let all = end.early.len() + end.late.len();
        self.backing.holes.end(end.user, end.object, all, &end.early);
        // Those that went before their frames were there: the backing was not to have them then, and is now.
        self.step.moved += end.early.len();
        if end.failed {
            self.notice("a frame could not be given back");
        }
        for page in end.late {
            self.end(page, Request::Evict, End::Done);
        }
        for wanted in std::mem::take(&mut self.backing.holes.waiting) {
            self.fill(wanted);
        }
    }
}
