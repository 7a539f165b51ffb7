//! Throughput of the core: fault events in a second, in steady state at a full reservation, for pools of several sizes.
//! `cargo bench -p freehold-core`. Latencies beside their floors are in `freehold bench`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a measurement")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, Request};
use freehold_core::id::MappingId;
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

/// Fault events in one iteration.
const FAULTS: u32 = 1_000;

fn world(frames: u32, pages: u32) -> (Memory, MappingId) {
    let limits = Limits {
        frames: FrameCount::new(frames),
        pages: PageCount::new(pages),
        reservations: 1,
        objects: 1,
        tasks: 1,
        mappings: 1,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    };
    let mut memory = limits.seal().unwrap();
    let (capacity, kind) = (FrameCount::new(frames), ReservationKind::Hard);
    let reservation = memory.admit(ReservationSpec { capacity, kind }).unwrap();
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(pages),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).unwrap();
    let task = memory.add_task(Some(reservation)).unwrap();
    let mapping = memory.map(task, object).unwrap();
    (memory, mapping)
}

/// Answers every request at once.
fn drive(memory: &mut Memory) {
    while let Some(effect) = memory.poll_effect() {
        let (page, request) = match effect {
            Effect::Fill { page, .. } => (page, Request::Fill),
            Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => (page, Request::Evict),
            _ => continue,
        };
        memory.handle_done(Instant::ZERO, page, request).unwrap();
    }
}

fn faults(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evicting faults");
    group.throughput(Throughput::Elements(FAULTS.into()));
    for frames in [64, 4_096, 262_144] {
        let pages = frames / 2 * 3;
        let (mut memory, mapping) = world(frames, pages);
        let mut next = 0;
        let mut fault = |memory: &mut Memory| {
            next = (next + 1) % pages;
            let (page, access) = (PageIndex::new(next), Access::Write);
            memory
                .handle_fault(Instant::ZERO, Fault { mapping, page, access })
                .unwrap();
            drive(memory);
        };
        (0..2 * pages).for_each(|_| fault(&mut memory));
        group.bench_function(BenchmarkId::from_parameter(frames), |bencher| {
            bencher.iter(|| (0..FAULTS).for_each(|_| fault(&mut memory)));
        });
    }
    group.finish();
}

criterion_group!(benches, faults);
criterion_main!(benches);
