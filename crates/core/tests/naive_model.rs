//! Replacement and law 0 against a model so simple that it can be read: each hard reservation alone, its lists plain
//! vectors, ignorant of any company. Whatever neighbours, guests and the store do, the core must fault and evict as
//! the model does.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::naive::{Naive, Page};
use common::{Random, Shape, World};
use freehold_core::effect::Holder;
use freehold_core::id::ReservationId;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageIndex};

/// What one world mixes, drawn from its seed.
struct Mix {
    /// Requests end at any time, not at once.
    late: bool,
    locks: bool,
    views: bool,
    firm: bool,
    departures: bool,
}

impl Mix {
    fn draw(random: &mut Random, late: bool) -> Self {
        let [locks, views, firm, departures] = [(); 4].map(|()| random.chance(2));
        Self {
            late,
            locks,
            views,
            firm,
            departures,
        }
    }
}

/// One reservation of the world, its model, and what was compared so far.
struct Subject {
    reservation: ReservationId,
    /// None for a firm one, which law 0 does not protect.
    model: Option<Naive>,
    seen: usize,
    faults_before: u64,
    locking: bool,
}

struct Company {
    world: World,
    mix: Mix,
    sizes: Vec<u32>,
    subjects: Vec<Subject>,
    /// Pages of views that have their own content.
    own: BTreeSet<Page>,
    /// Which subjects have a page on their lists, longest first, where the models know it.
    order: BTreeMap<Page, Vec<usize>>,
}

/// Two shared objects, one that everybody can lock in, a file, and a view of it for each reservation.
const LOCKABLE: usize = 1;
const FILE: usize = 2;
const VIEWS: usize = 3;

impl Company {
    fn new(random: &mut Random, late: bool) -> Self {
        let mix = Mix::draw(random, late);
        let count = 1 + random.below(4);
        let least = if mix.locks { 9 } else { 1 };
        let mut reservations = Vec::new();
        for _ in 0..count {
            let kind = kind(random, &mix);
            reservations.push((least + random.below(72) as u32, kind));
        }
        let sizes: Vec<u32> = (0..3).map(|_| 2 + random.below(60) as u32).collect();
        let spare = 1 + random.below(24) as u32;
        let shape = Shape {
            frames: reservations.iter().map(|found| found.0).sum::<u32>() + spare,
            objects: vec![
                (ObjectKind::Shared, sizes[0], Regime::Conserve),
                (ObjectKind::Shared, sizes[LOCKABLE], Regime::Conserve),
                (ObjectKind::File, sizes[FILE], Regime::Conserve),
            ],
            views: vec![FILE; count],
            tasks: (0..count).map(Some).chain([None, None]).collect(),
            reservations,
        };
        let mut world = World::new(&shape);
        world.check_every = 16;
        let subjects = shape.reservations.iter().zip(&world.reservations);
        let subjects = subjects.map(|(&(capacity, kind), &id)| Subject::new(id, capacity, kind));
        Self {
            subjects: subjects.collect(),
            world,
            mix,
            sizes,
            own: BTreeSet::new(),
            order: BTreeMap::new(),
        }
    }

    fn step(&mut self, random: &mut Random) {
        let slot = random.below(self.subjects.len() + 1);
        if slot == self.subjects.len() {
            self.guest(random);
        } else if self.idle(slot) {
            match random.below(200) {
                0..4 if self.mix.departures => self.replace(slot, random),
                4..8 if self.mix.departures => self.restart(slot, random.chance(2)),
                8..20 if self.mix.locks => self.lock(slot, random),
                20..26 if self.mix.locks => self.unlock(slot, random),
                26..60 if self.mix.views => self.touch_view(slot, random),
                _ => self.touch_shared(slot, random),
            }
        }
        if self.mix.late {
            for _ in 0..random.below(4) {
                self.world.complete(random.below(64), false);
            }
        } else {
            self.world.complete_all();
        }
        for slot in 0..self.subjects.len() {
            self.follow(slot);
        }
    }

    /// Neither a fault nor a lock of this reservation is under way.
    fn idle(&self, slot: usize) -> bool {
        let waits = self
            .task(slot)
            .is_some_and(|task| self.world.tasks[task].waiting.is_some());
        !waits && !self.subjects[slot].locking
    }

    fn task(&self, slot: usize) -> Option<usize> {
        let id = self.subjects[slot].reservation;
        self.world.tasks.iter().position(|task| task.reservation == Some(id))
    }

    fn guest(&mut self, random: &mut Random) {
        let guests = self
            .world
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.reservation.is_none());
        let guests: Vec<usize> = guests.map(|(index, _)| index).collect();
        let guest = guests[random.below(guests.len())];
        let object = random.below(2);
        self.touch(
            guest,
            object,
            random.below(self.sizes[object] as usize) as u32,
            random.chance(2),
        );
    }

    fn touch(&mut self, task: usize, object: usize, page: u32, write: bool) {
        let id = self.world.objects[object];
        let mapping = self.world.tasks[task].mappings.iter().position(|found| found.1 == id);
        self.world.touch(
            task,
            mapping.expect("a mapping of the object"),
            PageIndex::new(page),
            write,
        );
    }

    fn touch_shared(&mut self, slot: usize, random: &mut Random) {
        let Some(task) = self.task(slot) else { return };
        let object = random.below(2);
        let page = random.below(self.sizes[object] as usize) as u32;
        self.touch(task, object, page, random.chance(2));
        self.model(slot, |model| model.touch((object, page)));
    }

    fn touch_view(&mut self, slot: usize, random: &mut Random) {
        let Some(task) = self.task(slot) else { return };
        let page = random.below(self.sizes[FILE] as usize) as u32;
        let (base, own, write) = ((FILE, page), (VIEWS + slot, page), random.chance(3));
        self.touch(task, VIEWS + slot, page, write);
        let has_own = self.own.contains(&own);
        self.model(slot, |model| match (has_own, write) {
            (true, _) => model.touch(own),
            (false, false) => model.touch(base),
            (false, true) => model.copy(base, own),
        });
        if write {
            self.own.insert(own);
        }
    }

    fn lock(&mut self, slot: usize, random: &mut Random) {
        let (first, count) = range(random, self.sizes[LOCKABLE]);
        let (id, object) = (self.subjects[slot].reservation, self.world.objects[LOCKABLE]);
        let locked = self.world.memory.lock(id, object, World::range(first, count));
        if locked.is_ok() {
            self.subjects[slot].locking = true;
            self.world.locked.retain(|&done| done != id);
            self.model(slot, |model| {
                model.lock((first..first + count).map(|page| (LOCKABLE, page)))
            });
        }
        self.world.drain();
    }

    fn unlock(&mut self, slot: usize, random: &mut Random) {
        let (first, count) = range(random, self.sizes[LOCKABLE]);
        let (id, object) = (self.subjects[slot].reservation, self.world.objects[LOCKABLE]);
        // Whether the pool has the frames is the company's doing, and the contract says so.
        if self.world.memory.unlock(id, object, World::range(first, count)).is_ok() {
            self.model(slot, |model| {
                model.unlock((first..first + count).map(|page| (LOCKABLE, page)))
            });
        }
        self.world.drain();
    }

    /// The reservation ends, and another takes its slot, if the pool has the frames by now.
    fn replace(&mut self, slot: usize, random: &mut Random) {
        if let Some(task) = self.task(slot) {
            self.world.remove_task(task);
        }
        // Where an earlier successor found no room there is nothing to release.
        let _gone_already = self.world.memory.release(self.subjects[slot].reservation);
        self.world.drain();
        let (capacity, kind) = (9 + random.below(40) as u32, kind(random, &self.mix));
        let spec = ReservationSpec {
            capacity: FrameCount::new(capacity),
            kind,
        };
        let admitted = self.world.memory.admit(spec);
        self.world.drain();
        self.subjects[slot].model = Some(Naive::default());
        self.note_order(slot);
        if let Ok(id) = admitted {
            self.subjects[slot] = Subject::new(id, capacity, kind);
            self.world.add_task(Some(id));
        }
    }

    /// The task ends, and another begins where it was. It unmaps everything first, or ends with all its mappings.
    fn restart(&mut self, slot: usize, unmaps: bool) {
        let Some(task) = self.task(slot) else { return };
        let locks = self.world.memory.reservation(self.subjects[slot].reservation);
        // What it locks it cannot unmap.
        if unmaps && locks.is_some_and(|view| view.locked.is_zero()) {
            let objects = self.unmap_all(task);
            self.model(slot, |model| model.leave(&objects));
        }
        self.world.remove_task(task);
        self.model(slot, Naive::end);
        let id = self.subjects[slot].reservation;
        let subject = &mut self.subjects[slot];
        subject.faults_before = subject.model.as_ref().map_or(0, |model| model.faults);
        self.world.add_task(Some(id));
    }

    /// Returns what is left so, in order.
    fn unmap_all(&mut self, task: usize) -> Vec<usize> {
        let mut mappings = self.world.tasks[task].mappings.clone();
        mappings.sort_unstable_by_key(|found| found.0.index());
        let number = |id| self.world.objects.iter().position(|&object| object == id);
        let mut objects: Vec<usize> = mappings.iter().filter_map(|found| number(found.1)).collect();
        // The file is left with the last view of it.
        let last = objects
            .iter()
            .rposition(|&object| object >= VIEWS)
            .map_or(0, |at| at + 1);
        objects.insert(last, FILE);
        for (mapping, _) in mappings {
            self.world.unmap_object(task, mapping);
        }
        objects
    }

    fn model(&mut self, slot: usize, change: impl FnOnce(&mut Naive)) {
        if let Some(model) = &mut self.subjects[slot].model {
            change(model);
        }
        self.check_heirs();
        self.note_order(slot);
    }

    /// Keeps the order of sharing by what the model of this subject has now.
    fn note_order(&mut self, slot: usize) {
        let Some(model) = &self.subjects[slot].model else {
            return;
        };
        self.order.retain(|page, sharers| {
            sharers.retain(|&other| other != slot || model.has(*page));
            !sharers.is_empty()
        });
        for page in model.active.iter().chain(&model.inactive).chain(&model.locked) {
            let sharers = self.order.entry(*page).or_default();
            if !sharers.contains(&slot) {
                sharers.push(slot);
            }
        }
    }

    /// Law 2: the heir of an owner that evicts is the longest-sharing other reservation. Known only where every
    /// reservation has a model, nobody locks, and everything happens at once.
    fn check_heirs(&mut self) {
        let transfers = std::mem::take(&mut self.world.transfers);
        if self.mix.late || self.mix.locks || self.mix.firm {
            return;
        }
        for (page, from, to) in transfers {
            let object = self.world.objects.iter().position(|&id| id == page.object());
            let key = (object.expect("an object of the world"), page.page().get());
            let id = |slot: &usize| self.subjects[*slot].reservation;
            let heir = self.order[&key].iter().map(id).find(|&id| id != from);
            assert_eq!(heir, Some(to), "law 2: the longest-sharing heir of {key:?}");
        }
    }

    /// The core's reservation has evicted the model's pages, in its order, and holds as many.
    fn follow(&mut self, slot: usize) {
        if self.world.locked.contains(&self.subjects[slot].reservation) {
            self.subjects[slot].locking = false;
        }
        if !self.idle(slot) {
            return;
        }
        let Some(task) = self.task(slot) else { return };
        let subject = &mut self.subjects[slot];
        let Some(model) = &subject.model else { return };
        let view = self
            .world
            .memory
            .reservation(subject.reservation)
            .expect("a live reservation");
        assert_eq!(view.active.get() as usize, model.active.len(), "active pages");
        assert_eq!(view.inactive.get() as usize, model.inactive.len(), "inactive pages");
        assert_eq!(view.locked.get() as usize, model.locked.len(), "locked pages");
        let evicted = self.world.evicted.get(&Holder::Reservation(subject.reservation));
        let evicted = evicted.map_or(&[][..], Vec::as_slice);
        assert_eq!(evicted.len(), model.evictions.len(), "evictions of reservation {slot}");
        for (page, &(object, number)) in evicted.iter().zip(&model.evictions).skip(subject.seen) {
            let found = (page.object(), page.page().get());
            assert_eq!(found, (self.world.objects[object], number), "law 0: the victim");
        }
        subject.seen = evicted.len();
        let counts = self.world.memory.task(self.world.tasks[task].id).expect("a live task");
        let faults = counts.soft_faults + counts.zero_fills + counts.swap_ins + counts.file_reads + counts.copies;
        let expected = model.faults - subject.faults_before;
        assert_eq!(faults, expected, "law 0: as many faults as alone");
        assert_eq!(self.world.tasks[task].errors, 0, "a fault fails");
    }
}

impl Subject {
    fn new(reservation: ReservationId, capacity: u32, kind: ReservationKind) -> Self {
        Self {
            reservation,
            model: (kind == ReservationKind::Hard).then(|| Naive::new(capacity)),
            seen: 0,
            faults_before: 0,
            locking: false,
        }
    }
}

fn kind(random: &mut Random, mix: &Mix) -> ReservationKind {
    if mix.firm && random.chance(3) {
        ReservationKind::Firm
    } else {
        ReservationKind::Hard
    }
}

fn range(random: &mut Random, pages: u32) -> (u32, u32) {
    let first = random.below(pages as usize) as u32;
    (first, 1 + random.below((pages - first).min(16) as usize) as u32)
}

fn compare(late: bool) {
    let worlds = common::setting("FREEHOLD_WORLDS", 1_000);
    let first = common::first_seed();
    for seed in first..first + worlds {
        let outcome = std::panic::catch_unwind(|| {
            let mut random = Random(seed);
            let mut company = Company::new(&mut random, late);
            for _ in 0..1_000 {
                company.step(&mut random);
            }
        });
        assert!(outcome.is_ok(), "differs from the model with seed {seed}");
    }
}

#[test]
fn company_changes_neither_faults_nor_victims() {
    compare(false);
}

#[test]
fn nor_does_it_when_requests_end_late() {
    compare(true);
}
