use super::{Backend, Batch, Run};
use crate::completions::{Completions, End};
use freehold_core::Memory;
use freehold_core::effect::{Effect, Holder, Scope, Source};
use freehold_core::fact::{Access, Fault, PageRef};
use freehold_core::id::{MappingId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

const FRAMES: u32 = 128;
const PAGES: u32 = 256;

/// What was done with which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Unmap(u32),
    Fill(u32),
    Write(u32),
    Drop(u32),
}

/// A backend in which everything is over at once, save writes, which end when they are told to.
struct Doer {
    core: Memory,
    completions: Completions,
    acts: Vec<Act>,
    runs: usize,
    under_way: Vec<PageRef>,
    mapped: Vec<u32>,
    flushes: usize,
}

impl Doer {
    fn each(&mut self, run: Run, act: fn(u32) -> Act) {
        let first = run.first.page().get();
        let pages = first..first + u32::try_from(run.count).unwrap_or(0);
        self.acts.extend(pages.map(act));
        self.runs += 1;
    }
}

impl Backend for Doer {
    fn completions(&mut self) -> &mut Completions {
        &mut self.completions
    }

    fn decided(&mut self, effect: &Effect) {
        if let Effect::Map { page, .. } = effect {
            self.mapped.push(page.page().get());
        }
    }

    fn unmap(&mut self, run: Run, _from: Scope) {
        self.each(run, Act::Unmap);
    }

    fn fill(&mut self, page: PageRef, _source: Source, _urgent: Option<TaskId>) -> Option<End> {
        self.acts.push(Act::Fill(page.page().get()));
        Some(End::Done)
    }

    fn write(&mut self, page: PageRef, _holder: Holder) -> Option<End> {
        self.acts.push(Act::Write(page.page().get()));
        self.under_way.push(page);
        None
    }

    fn drop_run(&mut self, run: Run) {
        self.each(run, Act::Drop);
    }

    fn take(&mut self, _from: PageRef, _to: PageRef) {
        panic!("nothing is copied here");
    }

    fn flush(&mut self) {
        self.flushes += 1;
    }
}

fn doer() -> (Doer, MappingId) {
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
    let mut core = limits.seal().unwrap();
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(PAGES),
        regime: Regime::Conserve,
    };
    let object = core.create_object(spec).unwrap();
    let task = core.add_task(None).unwrap();
    let mapping = core.map(task, object).unwrap();
    let doer = Doer {
        core,
        completions: Completions::default(),
        acts: Vec::new(),
        runs: 0,
        under_way: Vec::new(),
        mapped: Vec::new(),
        flushes: 0,
    };
    (doer, mapping)
}

/// Carries out what follows from a fault, until nothing is left; pages written end last.
fn touch(doer: &mut Doer, batch: &mut Batch, mapping: MappingId, page: u32) {
    let (page, access) = (PageIndex::new(page), Access::Write);
    doer.core
        .handle_fault(Instant::ZERO, Fault { mapping, page, access })
        .unwrap();
    loop {
        batch.drain(doer, |doer| doer.core.poll_effect());
        batch.carry_out(doer);
        if doer.completions.is_empty() && !doer.under_way.is_empty() {
            for page in std::mem::take(&mut doer.under_way) {
                batch.has_left(page);
                doer.completions
                    .end(page, freehold_core::fact::Request::Evict, End::Done);
            }
            batch.drop_left(doer);
        }
        let Some(ended) = doer.completions.next_end() else {
            return;
        };
        ended.tell(&mut doer.core, Instant::ZERO).unwrap();
    }
}

#[test]
fn pages_are_unmapped_then_copied_out_then_dropped_and_neighbours_together() {
    for bounded in [false, true] {
        let (mut doer, mapping) = doer();
        let effects = doer.core.max_effects();
        let mut batch = if bounded {
            Batch::bounded(effects, effects)
        } else {
            Batch::default()
        };
        if bounded {
            doer.completions = Completions::bounded(2 * effects);
        }
        for page in 0..PAGES {
            touch(&mut doer, &mut batch, mapping, page);
        }
        assert_eq!(doer.mapped, (0..PAGES).collect::<Vec<u32>>());
        let at = |act: Act| doer.acts.iter().position(|other| *other == act);
        let mut written = 0;
        for page in 0..PAGES {
            let Some(copied) = at(Act::Write(page)) else { continue };
            written += 1;
            assert!(
                at(Act::Unmap(page)).is_some_and(|unmapped| unmapped < copied),
                "page {page}"
            );
            assert!(
                at(Act::Drop(page)).is_some_and(|dropped| dropped > copied),
                "page {page}"
            );
            assert!(at(Act::Fill(page)).is_some_and(|filled| filled < copied), "page {page}");
        }
        assert!(written >= PAGES - FRAMES, "{written} pages were written");
        assert!(doer.flushes > 0 && doer.flushes <= written as usize);
        let moved = doer
            .acts
            .iter()
            .filter(|act| matches!(act, Act::Unmap(_) | Act::Drop(_)));
        assert!(doer.runs * 4 < moved.count(), "{} calls", doer.runs);
    }
}
