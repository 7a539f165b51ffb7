//! What programs that know nothing do to the world, and what a server does for them.

use freehold_core::Foresight;
use freehold_core::fact::{Access, Fault, Request};
use freehold_core::id::{MappingId, ObjectId};
use freehold_core::limits::PageRange;
use freehold_core::units::{PageCount, PageIndex};

use super::{Content, World};

impl World {
    pub(crate) fn remove_task(&mut self, index: usize) {
        let task = self.tasks.remove(index);
        for (mapping, _) in &task.mappings {
            self.mapped.retain(|key, _| key.0 != *mapping);
        }
        self.memory.remove_task(task.id).expect("a live task");
        self.drain();
    }

    /// A task unmaps an object.
    pub(crate) fn unmap_object(&mut self, task: usize, mapping: MappingId) {
        self.tasks[task].mappings.retain(|found| found.0 != mapping);
        self.mapped.retain(|key, _| key.0 != mapping);
        self.memory.unmap(mapping).expect("a live mapping");
        self.drain();
    }

    /// As [`touch`](Self::touch) of an absent page through a mapping of `task`, for which another task of its
    /// reservation waits.
    pub(crate) fn touch_for(&mut self, task: usize, mapping: usize, page: PageIndex, waiter: usize) {
        let (mapping, object) = self.tasks[task].mappings[mapping];
        let same = self.tasks[task].reservation == self.tasks[waiter].reservation;
        if self.tasks[waiter].waiting.is_some() || self.mapped.contains_key(&(mapping, page)) || !same {
            return;
        }
        let access = Access::Read;
        self.tasks[waiter].waiting = Some((mapping, object, page, access));
        let (now, fault) = (self.tick(), Fault { mapping, page, access });
        let waiter = self.tasks[waiter].id;
        self.memory.handle_fault_for(now, fault, waiter).expect("a legal fault");
        self.drain();
    }

    /// Takes up neighbours, and maps those that are there.
    pub(crate) fn ahead(&mut self, task: usize, mapping: usize, range: PageRange, (which, write): (Foresight, bool)) {
        let (mapping, object) = self.tasks[task].mappings[mapping];
        let write = write && !self.views.values().any(|&base| base == object);
        let now = self.tick();
        let free = |world: &Self| {
            world.tasks[task]
                .reservation
                .map(|id| world.memory.reservation(id).expect("a live reservation"))
        };
        let before = free(self);
        let Ok(taken) = self.memory.fill_ahead(now, mapping, range, which) else {
            return;
        };
        self.drain();
        if let (Some(before), Some(after)) = (before, free(self)) {
            let alone = which == Foresight::Stream && self.memory.reads_on();
            assert!(taken.get() <= before.free.get(), "only free frames are used");
            // Where it is alone, a batch leaves for what follows: pages with nothing to write at once.
            let come_free = after.free.get() + taken.get() - before.free.get();
            assert!(come_free == 0 || alone, "{come_free} frames have come free");
            let quarter = after.capacity.get() / 4;
            let kept = match which {
                Foresight::Guess => quarter,
                Foresight::Stream if alone => 0,
                Foresight::Stream => quarter.min(before.free.get() - before.free.get() / 4),
            };
            assert!(taken.is_zero() || after.free.get() >= kept, "{before:?} {after:?}");
            let stay = alone || before.inactive == after.inactive;
            assert!(stay, "nothing is evicted or demoted");
        }
        for page in 0..range.count.get() {
            let page = PageIndex::new(range.first.get() + page);
            if self.mapped.contains_key(&(mapping, page)) {
                continue;
            }
            let now = self.tick();
            let _not_there_yet = self.memory.map_ahead(now, mapping, page, write);
            self.drain();
        }
    }

    /// What these pages hold is gone: their mappings too, as after `munmap`.
    pub(crate) fn forget(&mut self, object: ObjectId, range: PageRange) {
        if self.memory.forget(object, range).is_err() {
            return;
        }
        for page in range.first.get()..range.first.get() + range.count.get() {
            let page = PageIndex::new(page);
            self.mapped
                .retain(|_, found| (found.0.object(), found.0.page()) != (object, page));
            let content = self.pages.get_mut(&(object, page)).expect("a page of the world");
            let moving = self
                .outstanding
                .iter()
                .any(|asked| (asked.0.object(), asked.0.page()) == (object, page));
            *content = Content::default();
            if moving {
                self.forgotten.insert((object, page));
                // In flight there is a frame, whatever it holds.
                content.frame = None;
            }
        }
        self.drain();
    }

    /// Answers the request of an eviction, if `pick` chooses one: the page stays.
    pub(crate) fn keep(&mut self, pick: usize) {
        let at = pick % self.outstanding.len().max(1);
        let Some(&(page, Request::Evict, _)) = self.outstanding.get(at) else {
            return;
        };
        self.outstanding.remove(at);
        self.forgotten.remove(&(page.object(), page.page()));
        let now = self.tick();
        self.memory.handle_kept(now, page).expect("an outstanding request");
        self.drain();
    }

    /// Answers the first request: a page that is to leave stays.
    pub(crate) fn keep_or_complete(&mut self) {
        let before = self.outstanding.len();
        self.keep(0);
        if self.outstanding.len() >= before && self.outstanding.first().is_some_and(|asked| asked.1 == Request::Fill) {
            self.complete(0, false);
        }
    }

    /// The page is written without a fault, where the core can still have that stored.
    pub(crate) fn write_unseen(&mut self, object: ObjectId, page: PageIndex) {
        let key = (object, page);
        let moving = self
            .outstanding
            .iter()
            .find(|asked| (asked.0.object(), asked.0.page()) == key);
        let moving = moving.map(|asked| asked.1);
        let noted = self.memory.handle_written(object, page);
        let content = self.pages.get_mut(&key).expect("a page of the world");
        if noted && moving.is_none() {
            self.writes += 1;
            *content.frame.as_mut().expect("a page in a frame") = self.writes;
            content.truth = self.writes;
        }
        assert!(
            !(noted && moving == Some(Request::Fill)),
            "what is still read is not written"
        );
    }

    /// The store gives up what it has of a page, where the core says that it may: what is read there later is wrong.
    pub(crate) fn give_up_record(&mut self, object: ObjectId, page: PageIndex) -> bool {
        let given_up = self.memory.give_up_record(object, page);
        let content = self.pages.get_mut(&(object, page)).expect("a page of the world");
        // What was never stored is zeros where it is not written.
        if given_up && content.stored != 0 {
            content.stored = u64::MAX;
        }
        given_up
    }

    pub(crate) fn range(first: u32, count: u32) -> PageRange {
        PageRange {
            first: PageIndex::new(first),
            count: PageCount::new(count),
        }
    }
}
