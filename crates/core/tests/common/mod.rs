//! A small world driven by random operations: the engine's side of the contract, played naively.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod foreign;
pub(crate) mod naive;
pub(crate) mod outside;
pub(crate) mod pinned;

use std::collections::{BTreeMap, BTreeSet};

use freehold_core::Memory;
use freehold_core::effect::{Effect, Holder, Protection, Resolution, Scope, Source, UnmapReason};
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::{MappingId, ObjectId, ReservationId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

/// A number that the environment may set; `FREEHOLD_SOAK` multiplies what it does not set by a hundred.
#[allow(clippy::disallowed_methods, reason = "tests are told from outside how long to run")]
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    let soak = if std::env::var_os("FREEHOLD_SOAK").is_some() {
        100
    } else {
        1
    };
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default * soak)
}

/// The first seed of a random suite, so that a campaign can go where none has been.
#[allow(clippy::disallowed_methods, reason = "tests are told from outside where to start")]
pub(crate) fn first_seed() -> u64 {
    std::env::var("FREEHOLD_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// A small generator of pseudo-random numbers (splitmix64), so that a seed is a whole test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// What the naive model knows of one page: its true content, and where copies of it are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// In its frame, if resident.
    pub(crate) frame: Option<u64>,
    /// In its store.
    pub(crate) stored: u64,
    /// What was written last.
    pub(crate) truth: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct WorldTask {
    pub(crate) id: TaskId,
    pub(crate) reservation: Option<ReservationId>,
    pub(crate) mappings: Vec<(MappingId, ObjectId)>,
    /// The fault that has not ended.
    pub(crate) waiting: Option<(MappingId, ObjectId, PageIndex, Access)>,
    pub(crate) errors: u64,
}

/// Memory, the pages' contents, the mappings' entries, and the requests outstanding.
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) now: u64,
    pub(crate) reservations: Vec<ReservationId>,
    pub(crate) objects: Vec<ObjectId>,
    pub(crate) views: BTreeMap<ObjectId, ObjectId>,
    pub(crate) tasks: Vec<WorldTask>,
    pub(crate) pages: BTreeMap<(ObjectId, PageIndex), Content>,
    /// Entries of each mapping: which page of which object shows through, and whether it can be written.
    pub(crate) mapped: BTreeMap<(MappingId, PageIndex), (PageRef, Protection)>,
    pub(crate) outstanding: Vec<(PageRef, Request, Option<Source>)>,
    /// Pages in flight whose content is gone.
    pub(crate) forgotten: BTreeSet<(ObjectId, PageIndex)>,
    pub(crate) writes: u64,
    pub(crate) check_every: u64,
    pub(crate) steps: u64,
    /// Pages evicted from each holder's lists, in order.
    pub(crate) evicted: BTreeMap<Holder, Vec<PageRef>>,
    /// Reservations whose lock is done.
    pub(crate) locked: Vec<ReservationId>,
    /// Pages that an owner's eviction passed on, and to whom.
    pub(crate) transfers: Vec<(PageRef, ReservationId, ReservationId)>,
    /// What somebody outside has of each reservation.
    pub(crate) outside: BTreeMap<ReservationId, outside::StandIn>,
}

pub(crate) struct Shape {
    pub(crate) frames: u32,
    pub(crate) reservations: Vec<(u32, ReservationKind)>,
    pub(crate) objects: Vec<(ObjectKind, u32, Regime)>,
    /// Copy-on-write views of these objects.
    pub(crate) views: Vec<usize>,
    /// Of which reservation, if any, each task is.
    pub(crate) tasks: Vec<Option<usize>>,
}

impl World {
    pub(crate) fn new(shape: &Shape) -> Self {
        let pages: u32 = shape.objects.iter().map(|object| object.1).sum();
        let viewed: u32 = shape.views.iter().map(|&base| shape.objects[base].1).sum();
        let objects = shape.objects.len() + shape.views.len();
        let compared = shape
            .objects
            .iter()
            .filter(|object| object.2 == Regime::Unmanaged)
            .map(|object| object.1)
            .sum();
        let limits = Limits {
            frames: FrameCount::new(shape.frames),
            pages: PageCount::new(pages + viewed),
            reservations: (shape.reservations.len() + 1) as u16,
            objects: objects as u16,
            tasks: (shape.tasks.len() + 1) as u16,
            mappings: ((shape.tasks.len() + 1) * objects) as u16,
            compared_pages: PageCount::new(compared),
            shared_locks: PageCount::new(pages * shape.reservations.len() as u32),
        };
        let memory = limits.seal().expect("limits of a test world");
        let mut world = Self {
            memory,
            now: 0,
            reservations: Vec::new(),
            objects: Vec::new(),
            views: BTreeMap::new(),
            tasks: Vec::new(),
            pages: BTreeMap::new(),
            mapped: BTreeMap::new(),
            outstanding: Vec::new(),
            forgotten: BTreeSet::new(),
            writes: 0,
            check_every: 1,
            steps: 0,
            evicted: BTreeMap::new(),
            locked: Vec::new(),
            transfers: Vec::new(),
            outside: BTreeMap::new(),
        };
        world.populate(shape);
        world
    }

    fn populate(&mut self, shape: &Shape) {
        for &(capacity, kind) in &shape.reservations {
            let spec = ReservationSpec {
                capacity: FrameCount::new(capacity),
                kind,
            };
            self.reservations
                .push(self.memory.admit(spec).expect("the test world's reservations fit"));
        }
        for &(kind, pages, regime) in &shape.objects {
            let spec = ObjectSpec {
                kind,
                pages: PageCount::new(pages),
                regime,
            };
            let id = self.memory.create_object(spec).expect("the test world's objects fit");
            self.objects.push(id);
            for page in 0..pages {
                self.pages.insert((id, PageIndex::new(page)), Content::default());
            }
        }
        for &base in &shape.views {
            let view = self
                .memory
                .create_view(self.objects[base])
                .expect("views of file objects");
            self.views.insert(view, self.objects[base]);
            self.objects.push(view);
            for page in 0..shape.objects[base].1 {
                self.pages.insert((view, PageIndex::new(page)), Content::default());
            }
        }
        for &reservation in &shape.tasks {
            self.add_task(reservation.map(|index| self.reservations[index]));
        }
        self.drain();
    }

    pub(crate) fn add_task(&mut self, reservation: Option<ReservationId>) {
        let Ok(id) = self.memory.add_task(reservation) else {
            return;
        };
        self.drain();
        let viewed: Vec<ObjectId> = self.views.values().copied().collect();
        let mut mappings = Vec::new();
        for &object in &self.objects {
            if viewed.contains(&object) {
                continue;
            }
            mappings.push((self.memory.map(id, object).expect("room for mappings"), object));
        }
        self.tasks.push(WorldTask {
            id,
            reservation,
            mappings,
            waiting: None,
            errors: 0,
        });
        self.drain();
    }

    /// Touches a page as a program would: nothing happens if it is mapped, else the core is told.
    pub(crate) fn touch(&mut self, task: usize, mapping: usize, page: PageIndex, write: bool) {
        if self.tasks[task].waiting.is_some() {
            return;
        }
        let (mapping, object) = self.tasks[task].mappings[mapping];
        // What copy-on-write views read through to cannot be written.
        let write = write && !self.views.values().any(|&base| base == object);
        let access = match (self.mapped.get(&(mapping, page)), write) {
            (Some(_), false) | (Some((_, Protection::Writable)), true) => {
                return self.access(task, mapping, object, page, write);
            }
            (Some((_, Protection::ReadOnly)), true) => Access::Upgrade,
            (None, true) => Access::Write,
            (None, false) => Access::Read,
        };
        self.tasks[task].waiting = Some((mapping, object, page, access));
        let fault = Fault { mapping, page, access };
        let now = self.tick();
        self.memory.handle_fault(now, fault).expect("a legal fault");
        self.drain();
    }

    /// An access that succeeds: reads must see what was written last.
    fn access(&mut self, task: usize, mapping: MappingId, object: ObjectId, page: PageIndex, write: bool) {
        let (reference, _) = self.mapped[&(mapping, page)];
        let key = (reference.object(), reference.page());
        let content = self.pages.get_mut(&key).expect("a page of the world");
        let frame = content.frame.as_mut().expect("law 5: a mapped page has a frame");
        assert_eq!(
            *frame, content.truth,
            "law 5: task {task} sees what was written last in {object:?} {page:?}"
        );
        if write {
            self.writes += 1;
            *frame = self.writes;
            content.truth = self.writes;
        }
    }

    pub(crate) fn tick(&mut self) -> Instant {
        self.now += 1;
        Instant::new(self.now)
    }

    /// Answers one outstanding request, chosen by `pick`.
    pub(crate) fn complete(&mut self, pick: usize, fails: bool) {
        if self.outstanding.is_empty() {
            return;
        }
        let at = pick % self.outstanding.len();
        let (page, request, source) = self.outstanding.remove(at);
        let now = self.tick();
        if fails {
            self.forgotten.remove(&(page.object(), page.page()));
            self.memory
                .handle_failed(now, page, request)
                .expect("an outstanding request");
        } else if self.forgotten.remove(&(page.object(), page.page())) {
            self.memory
                .handle_done(now, page, request)
                .expect("an outstanding request");
        } else {
            self.carry_out(page, request, source);
            self.memory
                .handle_done(now, page, request)
                .expect("an outstanding request");
        }
        self.drain();
    }

    pub(crate) fn complete_all(&mut self) {
        while !self.outstanding.is_empty() {
            self.complete(0, false);
        }
    }

    fn carry_out(&mut self, page: PageRef, request: Request, source: Option<Source>) {
        let key = (page.object(), page.page());
        let copied = match source {
            Some(Source::CopyOf(base)) => {
                let base = self.pages[&(base.object(), base.page())];
                Some(base.frame.unwrap_or(base.stored))
            }
            _ => None,
        };
        let content = self.pages.get_mut(&key).expect("a page of the world");
        match (request, source) {
            (Request::Fill, Some(Source::Zero)) => content.frame = Some(0),
            (Request::Fill, Some(Source::Store)) => content.frame = Some(content.stored),
            (Request::Fill, _) => {
                content.frame = copied;
                content.truth = copied.unwrap_or(0);
            }
            (Request::Evict, _) => content.frame = None,
        }
    }

    /// Carries out everything the core asks for, except requests, which become outstanding; then checks the laws.
    pub(crate) fn drain(&mut self) {
        let mut effects = 0;
        while let Some(effect) = self.memory.poll_effect() {
            self.carry_out_effect(effect);
            effects += 1;
        }
        // No world has so many pages to lock that its locks exceed the bound of other steps.
        assert!(
            effects <= self.memory.max_effects(),
            "{effects} effects follow from one step"
        );
        self.steps += 1;
        if self.steps.is_multiple_of(self.check_every)
            && let Err(violation) = self.memory.check_laws()
        {
            panic!("{violation}");
        }
        self.check_outside();
    }

    fn carry_out_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Map {
                task,
                mapping,
                page,
                protection,
                resolution,
            } => {
                if resolution == Resolution::Ahead {
                    assert!(self.pages[&(page.object(), page.page())].frame.is_some());
                    self.mapped.insert((mapping, page.page()), (page, protection));
                } else {
                    self.map(task, mapping, page, protection);
                }
            }
            Effect::Retry { task } => {
                let found = self
                    .tasks
                    .iter_mut()
                    .find(|found| found.id == task)
                    .expect("a live task");
                assert!(
                    found.waiting.take().is_some(),
                    "a task that does not wait is told to retry"
                );
            }
            Effect::Fail { task, .. } => {
                let found = self
                    .tasks
                    .iter_mut()
                    .find(|found| found.id == task)
                    .expect("a live task");
                assert!(
                    found.waiting.take().is_some(),
                    "a task that does not wait is given an error"
                );
                found.errors += 1;
            }
            Effect::Unmap { page, from, reason } => self.unmap(page, from, reason),
            Effect::Fill { page, source, .. } => {
                assert!(
                    self.pages[&(page.object(), page.page())].frame.is_none(),
                    "a resident page is filled"
                );
                self.outstanding.push((page, Request::Fill, Some(source)));
            }
            Effect::WriteBack { page, holder } => self.leave(page, holder, true),
            Effect::Discard { page, holder } => self.leave(page, holder, false),
            Effect::Take { from, to } => self.take(from, to),
            Effect::Locked { reservation } => self.locked.push(reservation),
            Effect::Transfer { page, from, to } => self.transfers.push((page, from, to)),
            Effect::Recall { reservation, frames } => self.recall(reservation, frames.get()),
            Effect::LockFailed { .. } => {}
        }
    }

    /// A page leaves: to its store, or because its store has it.
    fn leave(&mut self, page: PageRef, holder: Holder, written: bool) {
        self.check_unmapped(page);
        self.evicted.entry(holder).or_default().push(page);
        let content = self
            .pages
            .get_mut(&(page.object(), page.page()))
            .expect("a page of the world");
        if written {
            content.stored = content.frame.expect("a page written back has a frame");
        }
        assert_eq!(
            content.frame,
            Some(content.stored),
            "law 5: a page discarded is in its store"
        );
        self.outstanding.push((page, Request::Evict, None));
    }

    fn take(&mut self, from: PageRef, to: PageRef) {
        self.check_unmapped(from);
        let base = self
            .pages
            .get_mut(&(from.object(), from.page()))
            .expect("a page of the world");
        let content = base.frame.take().expect("a page taken has a frame");
        assert_eq!(content, base.stored, "a base page is clean");
        let own = self
            .pages
            .get_mut(&(to.object(), to.page()))
            .expect("a page of the world");
        *own = Content {
            frame: Some(content),
            stored: 0,
            truth: content,
        };
    }

    fn map(&mut self, task: TaskId, mapping: MappingId, page: PageRef, protection: Protection) {
        let index = self
            .tasks
            .iter()
            .position(|found| found.id == task)
            .expect("a live task");
        let (waited, object, number, access) = self.tasks[index]
            .waiting
            .take()
            .expect("only a waiting task is mapped a page");
        assert_eq!((waited, number), (mapping, page.page()));
        assert!(page.object() == object || self.views.get(&object) == Some(&page.object()));
        assert!(
            self.pages[&(page.object(), page.page())].frame.is_some(),
            "only resident pages are mapped"
        );
        self.mapped.insert((mapping, number), (page, protection));
        let write = access != Access::Read;
        if !write || protection == Protection::Writable {
            self.access(index, mapping, object, number, write);
        }
    }

    fn unmap(&mut self, page: PageRef, from: Scope, reason: UnmapReason) {
        if let (Scope::Of(holder), UnmapReason::Eviction) = (from, reason) {
            self.evicted.entry(holder).or_default().push(page);
        }
        let concerned: Vec<MappingId> = self
            .tasks
            .iter()
            .filter(|task| match from {
                Scope::Everyone => true,
                Scope::Of(Holder::Pool) => task.reservation.is_none(),
                Scope::Of(Holder::Reservation(id)) => task.reservation == Some(id),
            })
            .flat_map(|task| task.mappings.iter().map(|mapping| mapping.0))
            .collect();
        for mapping in concerned {
            if self
                .mapped
                .get(&(mapping, page.page()))
                .is_some_and(|found| found.0 == page)
            {
                self.mapped.remove(&(mapping, page.page()));
            }
        }
    }

    fn check_unmapped(&self, page: PageRef) {
        assert!(
            self.mapped.values().all(|found| found.0 != page),
            "law 5: every mapping goes before the page does"
        );
    }
}
