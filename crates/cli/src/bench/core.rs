//! The core alone: a task walks through half again as many pages as its reservation has frames, so that every step
//! faults and evicts; every request is answered at once. All tables fit in a first-level cache or nearly.

use std::fmt::Display;
use std::hint::black_box;

use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::MappingId;
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

use super::Rounds;
use crate::status::Failure;

const FRAMES: u32 = 64;
const PAGES: u32 = 96;
/// Faults in one sample.
const FAULTS: u32 = 960;
const SAMPLES: u32 = 500;
/// The floor's table: 96 entries, as many as there are pages.
const CHAIN: usize = PAGES as usize;
const LOADS: u32 = 10_000;

pub(super) fn run(rounds: &mut Rounds) -> Result<(), Failure> {
    let mut world = World::new()?;
    let chain: Vec<usize> = (0..CHAIN).map(|at| (at + 37) % CHAIN).collect();
    let mut at = 0;
    let loads = || {
        for _ in 0..LOADS {
            at = black_box(&chain)[at];
        }
        black_box(at);
        Ok(u64::from(LOADS))
    };
    world.walk()?;
    rounds.alternate(SAMPLES, loads, || world.walk())
}

/// A memory with one task in one reservation.
struct World {
    memory: Memory,
    mapping: MappingId,
    requests: Vec<(PageRef, Request)>,
    now: u64,
    page: u32,
}

impl World {
    fn new() -> Result<Self, Failure> {
        let limits = Limits {
            frames: FrameCount::new(FRAMES),
            pages: PageCount::new(PAGES),
            reservations: 1,
            objects: 1,
            tasks: 1,
            mappings: 1,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        };
        let mut memory = limits.seal().map_err(wrong)?;
        let spec = ReservationSpec {
            capacity: FrameCount::new(FRAMES),
            kind: ReservationKind::Hard,
        };
        let reservation = memory.admit(spec).map_err(wrong)?;
        let pages = PageCount::new(PAGES);
        let object = ObjectSpec {
            kind: ObjectKind::Private,
            pages,
            regime: Regime::Conserve,
        };
        let object = memory.create_object(object).map_err(wrong)?;
        let task = memory.add_task(Some(reservation)).map_err(wrong)?;
        let mapping = memory.map(task, object).map_err(wrong)?;
        Ok(Self {
            memory,
            mapping,
            requests: Vec::new(),
            now: 0,
            page: 0,
        })
    }

    /// Faults on the next pages; returns how many facts the core was told.
    fn walk(&mut self) -> Result<u64, Failure> {
        let mut facts = 0;
        for _ in 0..FAULTS {
            self.now += 1_000;
            let now = Instant::new(self.now);
            let page = PageIndex::new(self.page);
            self.page = (self.page + 1) % PAGES;
            let fault = Fault {
                mapping: self.mapping,
                page,
                access: Access::Write,
            };
            self.memory.handle_fault(now, fault).map_err(wrong)?;
            facts += 1;
            self.drain();
            while let Some((page, request)) = self.requests.pop() {
                self.memory.handle_done(now, page, request).map_err(wrong)?;
                facts += 1;
                self.drain();
            }
        }
        Ok(facts)
    }

    fn drain(&mut self) {
        while let Some(effect) = self.memory.poll_effect() {
            match effect {
                Effect::Fill { page, .. } => self.requests.push((page, Request::Fill)),
                Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => {
                    self.requests.push((page, Request::Evict));
                }
                other => {
                    let _ = black_box(other);
                }
            }
        }
    }
}

fn wrong(error: impl Display) -> Failure {
    Failure::Run(format!("the core refused: {error}"))
}
