//! Any bytes as operations on the public interface: ids of things that are gone or of another `Memory`, any order, any
//! range, effects drained or not. Whatever they are, nothing panics and no law breaks; and once every request is
//! answered, nobody waits. Shared by a random test and the fuzz target of the same name.

use freehold_core::effect::Effect;
use freehold_core::error::FaultError;
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, PageRange, Regime, ReservationKind, ReservationSpec};
use freehold_core::pinning::{JobReport, PinningPolicy, PinningSettings, UnpinnedGoTo};
use freehold_core::units::{Duration, FrameCount, Instant, PageCount, PageIndex};
use freehold_core::{Foresight, Memory};

/// Bytes to be read as numbers; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.next() % bound
    }

    /// Mostly small, sometimes as large as can be.
    fn number(&mut self) -> u32 {
        match self.next() {
            255 => u32::MAX,
            254 => 1 << 31,
            byte => u32::from(byte % 24),
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        // The latest is the likeliest, so that bytes need not know how many there are.
        let back = usize::from(self.next() % 16) % all.len().max(1);
        all.len().checked_sub(back + 1).map(|at| all[at])
    }

    fn range(&mut self) -> PageRange {
        PageRange {
            first: PageIndex::new(self.number()),
            count: PageCount::new(self.number()),
        }
    }
}

/// Everything that was ever named, by either of two memories.
#[derive(Default)]
struct Names {
    reservations: Vec<ReservationId>,
    objects: Vec<ObjectId>,
    tasks: Vec<TaskId>,
    mappings: Vec<MappingId>,
    pages: Vec<PageRef>,
    pools: Vec<PinnedPoolId>,
}

/// A memory and what it is owed: the requests that wait for an answer.
struct Machine {
    memory: Memory,
    mappings: Vec<MappingId>,
    outstanding: Vec<(PageRef, Request)>,
}

fn machine(bytes: &mut Bytes<'_>) -> Machine {
    let pages = 1 + u32::from(bytes.below(64));
    let limits = Limits {
        frames: FrameCount::new(1 + u32::from(bytes.below(40))),
        pages: PageCount::new(pages),
        reservations: u16::from(1 + bytes.below(4)),
        objects: u16::from(1 + bytes.below(4)),
        tasks: u16::from(1 + bytes.below(6)),
        mappings: u16::from(1 + bytes.below(10)),
        compared_pages: PageCount::new(pages * u32::from(bytes.below(2))),
        shared_locks: PageCount::new(u32::from(bytes.below(8))),
    };
    Machine {
        memory: limits.seal().expect("legal limits"),
        mappings: Vec::new(),
        outstanding: Vec::new(),
    }
}

/// Reads `bytes` as operations and carries them out.
///
/// # Panics
/// Where the core does, breaks a law, or lets a task wait for nothing.
pub(crate) fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let mut names = Names::default();
    let mut machines = [machine(&mut bytes), machine(&mut bytes)];
    let mut now = 0;
    // Something to begin with; more comes with the operations.
    for operation in [0, 1, 2, 3, 1, 2, 3, 0, 2, 3] {
        for machine in &mut machines {
            act(machine, &mut names, &mut bytes, operation, Instant::ZERO);
        }
    }
    while !bytes.0.is_empty() {
        let selector = bytes.next();
        let machine = &mut machines[usize::from(selector >= 224)];
        // Debug builds assert that time does not run backwards; where they do not, it may.
        now = if cfg!(debug_assertions) {
            now + 1
        } else {
            u64::from(selector)
        };
        let time = Instant::new(now);
        match selector % 64 {
            0..24 => fault(machine, &names, &mut bytes, time),
            24..42 => answer(machine, &names, &mut bytes, time),
            rest @ 42..52 => act(machine, &mut names, &mut bytes, rest - 42, time),
            rest => machine.poll(&mut names, usize::from(rest - 52) * 32),
        }
        machine.check();
    }
    for machine in &mut machines {
        machine.finish(&mut names, now);
    }
}

fn act(machine: &mut Machine, names: &mut Names, bytes: &mut Bytes<'_>, operation: u8, now: Instant) {
    match operation {
        0 => names.reservations.extend(machine.memory.admit(reservation(bytes))),
        1 => names.objects.extend(machine.memory.create_object(object(bytes))),
        2 => {
            let reservation = bytes.one_of(&names.reservations).filter(|_| bytes.below(4) > 0);
            let pool = bytes.one_of(&names.pools).filter(|_| bytes.below(2) > 0);
            let added = match pool {
                Some(pool) if bytes.below(4) == 0 => machine.memory.add_restorer(pool),
                Some(pool) => machine.memory.add_pinned_task(pool),
                None => machine.memory.add_task(reservation),
            };
            names.tasks.extend(added);
        }
        3..5 => {
            let (task, object) = (bytes.one_of(&names.tasks), bytes.one_of(&names.objects));
            let mapped = task
                .zip(object)
                .and_then(|(task, object)| machine.memory.map(task, object).ok());
            names.mappings.extend(mapped);
            machine.mappings.extend(mapped);
        }
        5..8 => lock(machine, names, bytes, operation),
        8 => {
            let view = bytes
                .one_of(&names.objects)
                .and_then(|base| machine.memory.create_view(base).ok());
            names.objects.extend(view);
        }
        _ if bytes.below(3) == 0 => pin(machine, names, bytes, now),
        _ => remove(machine, names, bytes),
    }
}

/// Pinned page pools: opened, closed, judged, asked what to restore.
fn pin(machine: &mut Machine, names: &mut Names, bytes: &mut Bytes<'_>, now: Instant) {
    let memory = &mut machine.memory;
    let Some(pool) = bytes.one_of(&names.pools).filter(|_| bytes.below(4) > 0) else {
        let mut settings = PinningSettings::paper(Duration::new(bytes.number().into()), Duration::new(40));
        settings.initial_capacity = PageCount::new(bytes.number());
        settings.gamma = bytes.number();
        if bytes.below(4) == 0 {
            settings.highest_capacity = PageCount::new(bytes.number());
        }
        settings.restore = PageCount::new(u32::from(bytes.below(2) == 0));
        match bytes.below(4) {
            0 => settings.policy = PinningPolicy::All,
            1 => settings.policy = PinningPolicy::Freehold,
            _ => {}
        }
        if bytes.below(2) == 0 {
            settings.unpinned_go_to = UnpinnedGoTo::Listing;
        }
        names.pools.extend(memory.open_pinned_pool(settings));
        return;
    };
    match bytes.below(8) {
        0 => {
            let _refused_or_not = memory.close_pinned_pool(pool);
        }
        1..3 => {
            let _named_or_not = memory.next_to_restore(pool);
        }
        _ => {
            let job = JobReport {
                missed: bytes.below(2) == 0,
                running: Duration::new(bytes.number().into()),
                swap_ins: bytes.number(),
                swap_time: Duration::new(bytes.number().into()),
                ..JobReport::default()
            };
            let _refused_or_not = memory.handle_pinned_job_end(now, pool, &job);
        }
    }
}

fn reservation(bytes: &mut Bytes<'_>) -> ReservationSpec {
    ReservationSpec {
        capacity: FrameCount::new(bytes.number()),
        kind: [ReservationKind::Hard, ReservationKind::Firm][usize::from(bytes.below(2))],
    }
}

fn object(bytes: &mut Bytes<'_>) -> ObjectSpec {
    ObjectSpec {
        kind: [ObjectKind::Private, ObjectKind::Shared, ObjectKind::File][usize::from(bytes.below(3))],
        pages: PageCount::new(bytes.number()),
        regime: [Regime::Conserve, Regime::Unmanaged][usize::from(bytes.below(4) == 0)],
    }
}

fn fault(machine: &mut Machine, names: &Names, bytes: &mut Bytes<'_>, now: Instant) {
    let Some(mapping) = bytes.one_of(&names.mappings) else {
        return;
    };
    let access = [Access::Read, Access::Write, Access::Upgrade][usize::from(bytes.below(3))];
    let page = PageIndex::new(bytes.number());
    let fault = Fault { mapping, page, access };
    let memory = &mut machine.memory;
    match bytes.below(8) {
        0 => {
            if let Some(waiter) = bytes.one_of(&names.tasks) {
                let _refused_or_not = memory.handle_fault_for(now, fault, waiter);
            }
        }
        1 => {
            let which = if bytes.below(2) == 0 {
                Foresight::Guess
            } else {
                Foresight::Stream
            };
            let _refused_or_not = memory.fill_ahead(now, mapping, bytes.range(), which);
        }
        2 => {
            let _refused_or_not = memory.map_ahead(now, mapping, page, access != Access::Read);
        }
        _ => {
            let _refused_or_not = memory.handle_fault(now, fault);
        }
    }
}

/// Answers what is asked, or what is not.
fn answer(machine: &mut Machine, names: &Names, bytes: &mut Bytes<'_>, now: Instant) {
    let asked = bytes.one_of(&machine.outstanding);
    let request = [Request::Fill, Request::Evict][usize::from(bytes.below(2))];
    let made_up = bytes.one_of(&names.pages).map(|page| (page, request));
    let honest = bytes.below(4) > 0;
    let Some((page, request)) = (if honest { asked } else { made_up }) else {
        return;
    };
    let accepted = match bytes.below(16) {
        0 | 1 => machine.memory.handle_failed(now, page, request),
        2 | 3 if request == Request::Evict => machine.memory.handle_kept(now, page),
        _ => machine.memory.handle_done(now, page, request),
    };
    if accepted.is_ok() {
        // Accepted, so it was outstanding: perhaps in an effect that is not polled yet.
        machine.outstanding.retain(|found| *found != (page, request));
    }
}

fn lock(machine: &mut Machine, names: &Names, bytes: &mut Bytes<'_>, operation: u8) {
    let (reservation, object) = (bytes.one_of(&names.reservations), bytes.one_of(&names.objects));
    let Some((reservation, object)) = reservation.zip(object) else {
        return;
    };
    let range = bytes.range();
    if operation == 7 {
        let _refused_or_not = machine.memory.unlock(reservation, object, range);
    } else {
        let _refused_or_not = machine.memory.lock(reservation, object, range);
    }
}

/// A part of the end of something, which may come to its end later, or go on being used.
fn remove_partly(memory: &mut Memory, names: &Names, bytes: &mut Bytes<'_>) {
    let most = PageCount::new(bytes.number());
    let _refused_or_not = match bytes.below(4) {
        0 => bytes
            .one_of(&names.tasks)
            .map(|task| memory.remove_task_partly(task, most)),
        1 => bytes
            .one_of(&names.mappings)
            .map(|mapping| memory.unmap_partly(mapping, most)),
        2 => bytes
            .one_of(&names.objects)
            .map(|object| memory.remove_object_partly(object, most)),
        _ => bytes
            .one_of(&names.reservations)
            .map(|reservation| memory.release_partly(reservation, most)),
    };
}

fn remove(machine: &mut Machine, names: &Names, bytes: &mut Bytes<'_>) {
    let memory = &mut machine.memory;
    let _refused_or_not = match bytes.below(16) {
        12.. => return remove_partly(memory, names, bytes),
        0 => bytes.one_of(&names.tasks).map(|task| memory.remove_task(task)),
        1 => bytes.one_of(&names.mappings).map(|mapping| memory.unmap(mapping)),
        2 => bytes.one_of(&names.objects).map(|object| memory.remove_object(object)),
        3 => bytes
            .one_of(&names.reservations)
            .map(|reservation| memory.release(reservation)),
        4 | 5 => {
            let _missing_or_refused = memory.reclaim_for_admission(FrameCount::new(bytes.number()));
            None
        }
        6 => {
            memory.stop_reclaim();
            None
        }
        10 => {
            through_the_door(memory, names, bytes);
            None
        }
        7..10 => {
            let (object, range) = (bytes.one_of(&names.objects), bytes.range());
            let _refused_or_not = object.map(|object| memory.forget(object, range));
            None
        }
        _ => {
            look(memory, names);
            None
        }
    };
}

/// Frames that leave the page lists, and come back; never more than are there.
fn through_the_door(memory: &mut Memory, names: &Names, bytes: &mut Bytes<'_>) {
    let frames = FrameCount::new(bytes.number());
    let Some(id) = bytes.one_of(&names.reservations) else {
        return;
    };
    let outside = memory.reservation(id).map_or(FrameCount::ZERO, |view| view.outside);
    match bytes.below(4) {
        0 => {
            let back = memory.return_outside(id, frames);
            assert!(back.is_err() || frames <= outside, "frames from nowhere");
        }
        1 => {
            if let Ok(aside) = memory.set_aside(frames) {
                assert!(memory.put_back(aside).is_ok(), "they were set aside here");
            }
        }
        _ => {
            let _refused_or_not = memory.take_outside(id, frames);
        }
    }
}

/// Every getter, with every name.
fn look(memory: &Memory, names: &Names) {
    let mut seen = memory.pool_view().total.get() as usize + memory.table_bytes() + memory.max_effects();
    for &id in &names.reservations {
        seen += usize::from(memory.reservation(id).is_some()) + memory.next_victims(id).count();
    }
    for &id in &names.tasks {
        seen += usize::from(memory.task(id).is_some() || memory.holder(id).is_some());
    }
    for &id in &names.mappings {
        seen += usize::from(memory.mapping(id).is_some());
    }
    for &id in &names.objects {
        let pages = [0, 3, u32::MAX].map(|page| memory.page(id, PageIndex::new(page)));
        seen += pages.iter().flatten().count() + usize::from(memory.resident(id).is_some());
    }
    assert!(seen > 0, "a memory has frames");
}

impl Machine {
    /// Polls at most `most` effects.
    fn poll(&mut self, names: &mut Names, most: usize) {
        for _ in 0..most {
            let Some(effect) = self.memory.poll_effect() else {
                return;
            };
            let request = match effect {
                Effect::Fill { page, .. } => (page, Request::Fill),
                Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => (page, Request::Evict),
                _ => continue,
            };
            names.pages.push(request.0);
            self.outstanding.push(request);
        }
    }

    fn check(&self) {
        if let Err(violation) = self.memory.check_laws() {
            panic!("{violation}");
        }
    }

    /// Answers everything; then nobody waits.
    fn finish(&mut self, names: &mut Names, now: u64) {
        let now = Instant::new(now);
        // Who waits because frames are gathered waits for this.
        self.memory.stop_reclaim();
        for &id in &names.reservations {
            let outside = self.memory.reservation(id).map(|view| view.outside);
            let _stale = outside.map(|outside| self.memory.return_outside(id, outside));
        }
        for _ in 0..10_000 {
            self.poll(names, usize::MAX);
            // An answer given before its request was polled leaves a request behind that is none.
            let Some((page, request)) = self.outstanding.pop() else {
                break;
            };
            let _late = self.memory.handle_done(now, page, request);
            self.check();
        }
        assert!(self.outstanding.is_empty(), "requests without end");
        for mapping in self.mappings.clone() {
            let page = PageIndex::new(0);
            let access = Access::Read;
            let again = self.memory.handle_fault(now, Fault { mapping, page, access });
            assert_ne!(again, Err(FaultError::AlreadyWaiting), "a task waits for nothing");
            while let Some((page, request)) = self.next_request(names) {
                let _accepted = self.memory.handle_done(now, page, request);
            }
        }
        self.check();
    }

    fn next_request(&mut self, names: &mut Names) -> Option<(PageRef, Request)> {
        self.poll(names, usize::MAX);
        self.outstanding.pop()
    }
}
