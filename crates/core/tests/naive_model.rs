//! Replacement and law 0 against a model so simple that it can be read: each hard reservation alone, its lists plain
//! vectors, ignorant of any company. Whatever the neighbours do, the core must fault and evict as the model does.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Random, Shape, World};
use freehold_core::effect::Holder;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::memory::{DEMOTION_BATCH, EVICTION_BATCH};
use freehold_core::units::PageIndex;

type Page = (usize, u32);

/// One reservation with one task, alone.
struct Naive {
    capacity: usize,
    active: Vec<Page>,
    inactive: Vec<Page>,
    faults: Vec<Page>,
    evictions: Vec<Page>,
}

impl Naive {
    fn new(capacity: u32) -> Self {
        let (active, inactive) = (Vec::new(), Vec::new());
        Self {
            capacity: capacity as usize,
            active,
            inactive,
            faults: Vec::new(),
            evictions: Vec::new(),
        }
    }

    fn touch(&mut self, page: Page) {
        if self.active.contains(&page) {
            return;
        }
        self.faults.push(page);
        if let Some(at) = self.inactive.iter().position(|&other| other == page) {
            self.inactive.remove(at);
        } else if self.active.len() + self.inactive.len() == self.capacity {
            self.evict();
        }
        self.active.push(page);
    }

    fn evict(&mut self) {
        let batch = (self.capacity / 32).clamp(1, EVICTION_BATCH as usize);
        for _ in 0..DEMOTION_BATCH {
            let pages = self.active.len() + self.inactive.len();
            if self.inactive.len() >= (pages / 4).max(batch.min(pages)) || self.active.is_empty() {
                break;
            }
            let page = self.active.remove(0);
            self.inactive.push(page);
        }
        for _ in 0..batch.min(self.inactive.len()) {
            self.evictions.push(self.inactive.remove(0));
        }
    }
}

fn compare(seed: u64) {
    let mut random = Random(seed);
    let count = 1 + random.below(4);
    let capacities: Vec<u32> = (0..count).map(|_| 1 + random.below(80) as u32).collect();
    let shape = Shape {
        frames: capacities.iter().sum::<u32>() + 4,
        reservations: capacities
            .iter()
            .map(|&capacity| (capacity, ReservationKind::Hard))
            .collect(),
        objects: (0..3)
            .map(|_| (ObjectKind::Shared, 2 + random.below(60) as u32, Regime::Conserve))
            .collect(),
        views: Vec::new(),
        tasks: (0..count).map(Some).chain([None, None]).collect(),
    };
    let mut world = World::new(&shape);
    world.check_every = 16;
    let mut models: Vec<Naive> = capacities.iter().map(|&capacity| Naive::new(capacity)).collect();
    let mut seen = vec![0; count];
    for _ in 0..1_500 {
        let task = random.below(world.tasks.len());
        let object = random.below(3);
        let page = random.below(shape.objects[object].1 as usize) as u32;
        world.touch(task, object, PageIndex::new(page), random.chance(2));
        world.complete_all();
        if task < count {
            models[task].touch((object, page));
            follow(&world, task, &models[task], &mut seen[task]);
        }
    }
}

/// The core's reservation has evicted the model's pages, in its order, and holds as many.
fn follow(world: &World, task: usize, model: &Naive, seen: &mut usize) {
    let id = world.reservations[task];
    let view = world.memory.reservation(id).expect("a live reservation");
    assert_eq!(view.active.get() as usize, model.active.len(), "active pages");
    assert_eq!(view.inactive.get() as usize, model.inactive.len(), "inactive pages");
    let evicted = world
        .evicted
        .get(&Holder::Reservation(id))
        .map_or(&[][..], Vec::as_slice);
    assert_eq!(evicted.len(), model.evictions.len(), "evictions of reservation {task}");
    for (page, &(object, number)) in evicted.iter().zip(&model.evictions).skip(*seen) {
        assert_eq!(
            (page.object(), page.page().get()),
            (world.objects[object], number),
            "law 0: the victim"
        );
    }
    *seen = evicted.len();
    let counts = world.memory.task(world.tasks[task].id).expect("a live task");
    let faults = counts.soft_faults + counts.zero_fills + counts.swap_ins;
    assert_eq!(faults, model.faults.len() as u64, "law 0: as many faults as alone");
}

#[test]
fn company_changes_neither_faults_nor_victims() {
    let worlds = common::setting("FREEHOLD_WORLDS", 1_000);
    let first = common::first_seed();
    for seed in first..first + worlds {
        let outcome = std::panic::catch_unwind(|| compare(seed));
        assert!(outcome.is_ok(), "differs from the model with seed {seed}");
    }
}
