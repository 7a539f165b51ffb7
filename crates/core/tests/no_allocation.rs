//! Nothing is allocated after `seal()`: from then on the allocator aborts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use freehold_core::effect::Effect;
use freehold_core::fact::{Access, Fault, Request};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, PageRange, Regime, ReservationKind, ReservationSpec};
use freehold_core::pinning::{JobReport, PinningSettings};
use freehold_core::units::{Duration, FrameCount, Instant, PageCount, PageIndex};
use freehold_core::victim_cache::{DeviceEffect, DeviceId, FileId, Got, Placement, Policy, VictimCacheSpec};

struct Strict;

thread_local! {
    /// Of this thread: the test runner's own goes on allocating.
    static SEALED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is passed on unchanged to the system's allocator, or does not return.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if SEALED.get() {
            std::process::abort();
        }
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator through `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Strict = Strict;

#[test]
fn nothing_is_allocated_after_seal() {
    let limits = Limits {
        frames: FrameCount::new(600),
        pages: PageCount::new(4096),
        reservations: 4,
        objects: 4,
        tasks: 4,
        mappings: 16,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::new(64),
    };
    let mut memory = limits.seal().expect("room for small tables");
    SEALED.set(true);
    let outcome = exercise(&mut memory);
    SEALED.set(false);
    assert_eq!(outcome, Some(()), "the exercise ran to its end");
    assert!(memory.check_laws().is_ok());
}

#[test]
fn a_victim_cache_allocates_nothing_after_seal() {
    let sizes = [300, 200, 100].map(FrameCount::new);
    let spec = VictimCacheSpec {
        frames: FrameCount::new(700),
        devices: &sizes,
        granule: FrameCount::new(16),
        copies: 8,
        files: 700,
        policy: Policy::Lru,
        placement: Placement::Safe,
    };
    let mut cache = spec.seal().expect("room for small tables");
    SEALED.set(true);
    for step in 0..60_000_u32 {
        let (file, page) = (
            FileId::new(u64::from(step % 11)),
            PageIndex::new(step.wrapping_mul(2_654_435_761) >> 22),
        );
        if let Got::Hit(frame) = cache.get(file, page) {
            let _ = cache.copied(frame);
        } else if let Ok(put) = cache.put(file, page, 1) {
            let _ = cache.copied(put.frame);
        }
        let Some(device) = DeviceId::new(step as usize % 3) else {
            continue;
        };
        match step % 701 {
            0 => drop(cache.open(device, FrameCount::new(step % 100))),
            350 => drop(cache.closed(device)),
            _ => {}
        }
        while let Some(effect) = cache.poll_effect() {
            if let DeviceEffect::Revoke { device, range } = effect {
                let _ = cache.returned(device, range);
            }
        }
    }
    SEALED.set(false);
    assert!(cache.check_laws().is_ok() && cache.page_counts().discarded > 0);
}

fn exercise(memory: &mut freehold_core::Memory) -> Option<()> {
    let hard = ReservationSpec {
        capacity: FrameCount::new(200),
        kind: ReservationKind::Hard,
    };
    let firm = ReservationSpec {
        capacity: FrameCount::new(200),
        kind: ReservationKind::Firm,
    };
    let reservations = [memory.admit(hard).ok()?, memory.admit(firm).ok()?];
    let spec = ObjectSpec {
        kind: ObjectKind::Shared,
        pages: PageCount::new(1024),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).ok()?;
    let tasks = [
        memory.add_task(Some(reservations[0])).ok()?,
        memory.add_task(Some(reservations[1])).ok()?,
    ];
    let mappings = [memory.map(tasks[0], object).ok()?, memory.map(tasks[1], object).ok()?];
    let range = PageRange {
        first: PageIndex::new(0),
        count: PageCount::new(32),
    };
    for reservation in reservations {
        memory.lock(reservation, object, range).ok()?;
        drive(memory);
    }
    for page in 0..1024 {
        for mapping in mappings {
            let fault = Fault {
                mapping,
                page: PageIndex::new(page),
                access: Access::Write,
            };
            memory.handle_fault(Instant::ZERO, fault).ok()?;
            drive(memory);
        }
    }
    pinned_pages(memory)?;
    for index in [0, 1] {
        memory.remove_task(tasks[index]).ok()?;
        memory.release(reservations[index]).ok()?;
        drive(memory);
    }
    Some(())
}

/// A pinned page pool, filled and emptied in what is left of the frames.
fn pinned_pages(memory: &mut freehold_core::Memory) -> Option<()> {
    let settings = PinningSettings::paper(Duration::from_millis(1), Duration::from_millis(10));
    let pool = memory.open_pinned_pool(settings).ok()?;
    let task = memory.add_pinned_task(pool).ok()?;
    let spec = ObjectSpec {
        kind: ObjectKind::Private,
        pages: PageCount::new(1024),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).ok()?;
    let mapping = memory.map(task, object).ok()?;
    for page in (0..4096u32).map(|step| (step * 7) % 150 + (step / 1000) * 150) {
        let fault = Fault {
            mapping,
            page: PageIndex::new(page),
            access: Access::Write,
        };
        memory.handle_fault(Instant::ZERO, fault).ok()?;
        drive(memory);
        memory
            .handle_pinned_job_end(Instant::ZERO, pool, &JobReport::default())
            .ok()?;
        while memory.next_to_restore(pool).is_some() {}
        drive(memory);
    }
    memory.remove_task(task).ok()?;
    drive(memory);
    memory.close_pinned_pool(pool).ok()
}

/// Answers every request at once.
fn drive(memory: &mut freehold_core::Memory) {
    while let Some(effect) = memory.poll_effect() {
        let (page, request) = match effect {
            Effect::Fill { page, .. } => (page, Request::Fill),
            Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => (page, Request::Evict),
            _ => continue,
        };
        let _answered = memory.handle_done(Instant::ZERO, page, request);
    }
}
