//! A soft-real-time task with a pinned page pool beside a hog, requests answered at once; and the same naively.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use freehold_core::Memory;
use freehold_core::effect::{Effect, Resolution};
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
use freehold_core::memory::{DEMOTION_BATCH, POOL_EVICTION_BATCH};
use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView, PinningSettings, UnpinnedGoTo};
use freehold_core::units::{Duration, FrameCount, Instant, PageCount, PageIndex};
use freehold_core::view::PlaceView;

pub(crate) fn settings() -> PinningSettings {
    PinningSettings::paper(Duration::from_millis(10), Duration::from_millis(30))
}

/// The list of a pinned page pool that a page is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    PinnedActive,
    PinnedInactive,
}

pub(crate) struct Pinned {
    pub(crate) memory: Memory,
    pub(crate) pool: PinnedPoolId,
    pub(crate) task: TaskId,
    mappings: [MappingId; 2],
    objects: [ObjectId; 2],
    mapped: BTreeSet<(ObjectId, PageIndex)>,
    task_pages: u32,
    pub(crate) hog_pages: u32,
    pub(crate) now: u64,
    pub(crate) task_fills: u64,
    /// Pages evicted, in order; those of the hog come after the task's.
    pub(crate) evicted: Vec<u32>,
}

impl Pinned {
    pub(crate) fn new(frames: u32, task_pages: u32, hog_pages: u32, chosen: PinningSettings) -> Self {
        Self::of(ObjectKind::Private, frames, [task_pages, hog_pages], chosen)
    }

    pub(crate) fn of(kind: ObjectKind, frames: u32, pages: [u32; 2], chosen: PinningSettings) -> Self {
        let [task_pages, hog_pages] = pages;
        let limits = Limits {
            frames: FrameCount::new(frames),
            pages: PageCount::new(task_pages + hog_pages),
            reservations: 2,
            objects: 2,
            tasks: 4,
            mappings: 4,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        };
        let mut memory = limits.seal().expect("limits of a test world");
        let objects = [task_pages, hog_pages].map(|pages| {
            let spec = ObjectSpec {
                kind,
                pages: PageCount::new(pages),
                regime: Regime::Conserve,
            };
            memory.create_object(spec).expect("room for two objects")
        });
        let pool = memory.open_pinned_pool(chosen).expect("sound settings");
        let task = memory.add_pinned_task(pool).expect("room for a task");
        let hog = memory.add_task(None).expect("room for a task");
        let mappings = [
            memory.map(task, objects[0]).expect("room for a mapping"),
            memory.map(hog, objects[1]).expect("room for a mapping"),
        ];
        Self {
            memory,
            pool,
            task,
            mappings,
            objects,
            mapped: BTreeSet::new(),
            task_pages,
            hog_pages,
            now: 0,
            task_fills: 0,
            evicted: Vec::new(),
        }
    }

    /// The task's mapping of its pages.
    pub(crate) fn mapping(&self) -> MappingId {
        self.mappings[0]
    }

    pub(crate) fn touch_task(&mut self, page: u32) {
        self.touch(0, page);
    }

    /// A restorer brings pages of the task's back.
    pub(crate) fn restore(&mut self, pages: std::ops::Range<u32>) {
        let restorer = self.memory.add_restorer(self.pool).expect("room for a task");
        self.drain();
        for page in pages.map(PageIndex::new) {
            let fault = Fault {
                mapping: self.mappings[0],
                page,
                access: Access::Read,
            };
            let told = self.memory.handle_fault_for(Instant::new(self.now), fault, restorer);
            told.expect("a sound fault");
            self.drain();
        }
        self.memory.remove_task(restorer).expect("a live task");
        self.drain();
        // It is mapped for nobody.
        self.mapped.clear();
    }

    pub(crate) fn touch_hog(&mut self, page: u32) {
        self.touch(1, page);
    }

    fn touch(&mut self, who: usize, page: u32) {
        let page = PageIndex::new(page);
        if self.mapped.contains(&(self.objects[who], page)) {
            return;
        }
        self.now += 1;
        let fault = Fault {
            mapping: self.mappings[who],
            page,
            access: Access::Write,
        };
        self.memory
            .handle_fault(Instant::new(self.now), fault)
            .expect("a sound fault");
        self.drain();
        assert!(
            self.mapped.contains(&(self.objects[who], page)),
            "a fault without an end"
        );
    }

    pub(crate) fn drain(&mut self) {
        while let Some(effect) = self.memory.poll_effect() {
            let (page, request) = match effect {
                Effect::Map { page, resolution, .. } => {
                    self.mapped.insert((page.object(), page.page()));
                    let filled = resolution != Resolution::Soft;
                    self.task_fills += u64::from(filled && page.object() == self.objects[0]);
                    continue;
                }
                Effect::Unmap { page, .. } => {
                    self.mapped.remove(&(page.object(), page.page()));
                    continue;
                }
                Effect::Fill { page, .. } => (page, Request::Fill),
                Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => {
                    assert!(!self.mapped.contains(&(page.object(), page.page())));
                    self.evicted.push(self.number(page));
                    (page, Request::Evict)
                }
                other => panic!("{other:?}"),
            };
            let done = self.memory.handle_done(Instant::new(self.now), page, request);
            done.expect("it was asked for");
        }
    }

    fn number(&self, page: PageRef) -> u32 {
        let first = if page.object() == self.objects[0] {
            0
        } else {
            self.task_pages
        };
        first + page.page().get()
    }

    pub(crate) fn end_job(&mut self, job: &JobReport) -> Judgement {
        let judged = self
            .memory
            .handle_pinned_job_end(Instant::new(self.now), self.pool, job)
            .expect("a live pool");
        self.drain();
        judged
    }

    pub(crate) fn view(&self) -> PinnedPoolView {
        self.memory.pinned_pool(self.pool).expect("a live pool")
    }

    pub(crate) fn soft_faults(&self) -> u64 {
        self.memory.task(self.task).expect("a live task").soft_faults
    }

    /// The inactive list, then the active one, oldest first.
    pub(crate) fn pinned(&self) -> (Vec<u32>, Vec<u32>) {
        (
            self.pinned_at(Where::PinnedInactive),
            self.pinned_at(Where::PinnedActive),
        )
    }

    pub(crate) fn pinned_at(&self, place: Where) -> Vec<u32> {
        let wanted = match place {
            Where::PinnedActive => PlaceView::Active,
            Where::PinnedInactive => PlaceView::Inactive,
        };
        let pages = self.memory.pages_pinned_by(self.pool);
        pages
            .filter(|(_, found)| *found == wanted)
            .map(|(page, _)| self.number(page))
            .collect()
    }

    pub(crate) fn check(&self) {
        if let Err(violation) = self.memory.check_laws() {
            panic!("{violation}");
        }
    }
}

/// The paper's lists as plain queues, the oldest page in front.
pub(crate) struct Model {
    free: u32,
    total: u32,
    task_pages: u32,
    chosen: PinningSettings,
    pub(crate) capacity: u32,
    fresh: VecDeque<u32>,
    inactive: VecDeque<u32>,
    active: VecDeque<u32>,
    pinned_active: VecDeque<u32>,
    pinned_inactive: VecDeque<u32>,
    mapped: BTreeSet<u32>,
    halvings: u32,
    balanced: u32,
    /// The page that is wanted: on its list already, on its way.
    incoming: Option<u32>,
    pub(crate) evicted: Vec<u32>,
    /// Pages evicted and activated so far, and how many that were when a page was evicted last.
    events: u64,
    evicted_after: BTreeMap<u32, u64>,
    /// Pages that came back soon after their eviction.
    pub(crate) returned: u64,
    returned_since_scan: bool,
    /// Scans before the last frame was taken, and pages pinned as they came back: of a pool that restores.
    pub(crate) early_scans: u64,
    pub(crate) pinned_on_return: u64,
}

impl Model {
    pub(crate) fn new(frames: u32, chosen: PinningSettings, task_pages: u32, _hog_pages: u32) -> Self {
        Self {
            free: frames,
            total: frames,
            task_pages,
            chosen,
            capacity: chosen.initial_capacity.get(),
            fresh: VecDeque::new(),
            inactive: VecDeque::new(),
            active: VecDeque::new(),
            pinned_active: VecDeque::new(),
            pinned_inactive: VecDeque::new(),
            mapped: BTreeSet::new(),
            halvings: 10,
            balanced: 0,
            incoming: None,
            evicted: Vec::new(),
            events: 0,
            evicted_after: BTreeMap::new(),
            returned: 0,
            returned_since_scan: false,
            early_scans: 0,
            pinned_on_return: 0,
        }
    }

    pub(crate) fn pinned(&self) -> (Vec<u32>, Vec<u32>) {
        let list = |queue: &VecDeque<u32>| queue.iter().copied().collect();
        (list(&self.pinned_inactive), list(&self.pinned_active))
    }

    fn resident(&self, page: u32) -> bool {
        let lists = [
            &self.fresh,
            &self.inactive,
            &self.active,
            &self.pinned_active,
            &self.pinned_inactive,
        ];
        lists.iter().any(|list| list.contains(&page))
    }

    pub(crate) fn touch(&mut self, page: u32) {
        if !self.mapped.insert(page) {
            return;
        }
        if self.resident(page) {
            if let Some(at) = self.inactive.iter().position(|&other| other == page) {
                self.inactive.remove(at);
                self.active.push_back(page);
                self.events += 1;
            }
            return;
        }
        let soon = |&then: &u64| self.events - then <= self.active.len() as u64;
        if self.evicted_after.get(&page).is_some_and(soon) {
            self.active.push_back(page);
            self.events += 1;
            self.returned += 1;
            self.returned_since_scan = true;
        } else {
            self.fresh.push_back(page);
        }
        self.incoming = Some(page);
        if self.chosen.restores() && self.free > 0 {
            let lacking = self.wanted().saturating_sub(self.inactive.len() as u32);
            if lacking >= (self.free - 1) / 2 + DEMOTION_BATCH {
                self.clear();
                self.early_scans += 1;
            }
        }
        while self.free == 0 {
            self.reclaim();
        }
        self.free -= 1;
        self.incoming = None;
        self.pin_on_return(page);
    }

    fn pin_on_return(&mut self, page: u32) {
        let returns = self.chosen.restores() && self.evicted_after.contains_key(&page);
        if returns && page < self.task_pages && self.pinned_len() < self.capacity.min(self.room()) {
            self.fresh.retain(|&other| other != page);
            self.active.retain(|&other| other != page);
            self.pinned_active.push_back(page);
            self.pinned_on_return += 1;
        }
    }

    fn room(&self) -> u32 {
        self.total - 64.min(self.total / 4)
    }

    fn clear(&mut self) {
        self.balanced = 0;
        self.trim();
        if self.active.len() + self.fresh.len() - 1 + self.inactive.len() == 0 {
            for _ in 0..DEMOTION_BATCH {
                if !self.pinned_active.is_empty() || !self.pinned_inactive.is_empty() {
                    self.unpin_some();
                }
            }
        }
        self.scan();
    }

    fn reclaim(&mut self) {
        self.clear();
        let short = (self.inactive.len() as u32) < self.wanted();
        let victims = if short {
            self.batch().min(DEMOTION_BATCH / 2)
        } else {
            self.batch()
        };
        for _ in 0..victims {
            let Some(victim) = self.inactive.pop_front() else { break };
            self.mapped.remove(&victim);
            self.evicted.push(victim);
            self.evicted_after.insert(victim, self.events);
            self.events += 1;
            self.free += 1;
        }
    }

    fn batch(&self) -> u32 {
        let listed = (self.active.len() + self.fresh.len() + self.inactive.len()) as u32;
        (listed / 32).clamp(1, POOL_EVICTION_BATCH)
    }

    fn pinned_len(&self) -> u32 {
        (self.pinned_active.len() + self.pinned_inactive.len()) as u32
    }

    fn trim(&mut self) {
        for _ in 0..DEMOTION_BATCH {
            if self.pinned_len() > self.capacity {
                self.unpin_some();
            }
        }
    }

    fn wanted(&self) -> u32 {
        ((self.fresh.len() + self.inactive.len()) as u32 / 2).max(self.batch())
    }

    fn scan(&mut self) {
        let (mut cleared, mut pinned) = (0, 0);
        // Taken from the active and from the fresh list.
        let mut taken = [0, 0];
        let returned = std::mem::take(&mut self.returned_since_scan);
        while cleared < DEMOTION_BATCH {
            let mapped = self.active.len() + self.fresh.len() - 1;
            if mapped == 0 || self.inactive.len() as u32 >= self.wanted() {
                return;
            }
            let starving = pinned >= DEMOTION_BATCH && self.inactive.is_empty();
            let low = self.fresh.len() + self.inactive.len() < self.active.len();
            let share = returned && taken[0] * self.fresh.len() <= taken[1] * self.active.len();
            let none_there = |list: &VecDeque<u32>| list.iter().all(|&page| Some(page) == self.incoming);
            let from_active = none_there(&self.fresh) || (!starving && !none_there(&self.active) && (low || share));
            let list = if from_active { &mut self.active } else { &mut self.fresh };
            let Some(page) = list.pop_front() else { return };
            taken[usize::from(!from_active)] += 1;
            if Some(page) == self.incoming {
                list.push_back(page);
                continue;
            }
            if from_active && !starving && self.pin(page) {
                pinned += 1;
                if pinned >= DEMOTION_BATCH && !self.inactive.is_empty() {
                    return;
                }
            } else {
                cleared += 1;
                self.mapped.remove(&page);
                self.inactive.push_back(page);
            }
        }
    }

    fn pin(&mut self, page: u32) -> bool {
        if page >= self.task_pages {
            return false;
        }
        if self.pinned_len() >= self.capacity.min(self.room()) {
            if self.pinned_len() == 0 || self.capacity == 0 {
                return false;
            }
            self.unpin_some();
        }
        self.pinned_active.push_back(page);
        true
    }

    /// Algorithm 2.
    fn unpin_some(&mut self) {
        for _ in 0..DEMOTION_BATCH {
            let (active, inactive) = (self.pinned_active.len(), self.pinned_inactive.len());
            let long = inactive == 0 || active > inactive * self.chosen.gamma as usize;
            if !long || self.balanced >= DEMOTION_BATCH {
                break;
            }
            let Some(page) = self.pinned_active.pop_front() else {
                break;
            };
            self.balanced += 1;
            self.mapped.remove(&page);
            self.pinned_inactive.push_back(page);
        }
        let mut found = false;
        for _ in 0..(self.pinned_inactive.len() >> self.halvings).max(1) {
            let Some(page) = self.pinned_inactive.pop_front() else {
                break;
            };
            if self.mapped.contains(&page) {
                self.pinned_active.push_back(page);
            } else {
                found = true;
                match self.chosen.unpinned_go_to {
                    UnpinnedGoTo::Text => self.inactive.push_front(page),
                    UnpinnedGoTo::Listing => self.fresh.push_back(page),
                }
            }
        }
        if !found {
            let next = self
                .pinned_inactive
                .pop_front()
                .or_else(|| self.pinned_active.pop_front());
            match (next, self.chosen.unpinned_go_to) {
                (Some(page), UnpinnedGoTo::Text) => self.active.push_front(page),
                (Some(page), UnpinnedGoTo::Listing) => self.fresh.push_back(page),
                (None, _) => {}
            }
        }
        self.halvings = if found {
            (self.halvings + 1).min(31)
        } else {
            self.halvings.saturating_sub(1)
        };
    }
}
