//! Memory as the tasks see it: the core, the page tables, the frames and the store, with the effects that tie them
//! together. It knows nothing of CPUs and scheduling.
//!
//! Order of answers, the same in every engine: effects are carried out as `freehold_driver::Batch` says; a `Fill` of
//! zeros or of a copy and a `Discard` are answered, in order, as soon as the effects at hand are carried out; whatever
//! that brings is drained next. Only fills from the store and write-backs take time.

mod devices;
mod effects;
mod pinning;
mod setup;
mod urgency;

use std::collections::VecDeque;

use freehold_core::Memory;
use freehold_core::effect::{FaultFailure, Resolution, Source};
use freehold_core::fact::{Access, Fault, PageRef, Request};
use freehold_core::frames::Frames;
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::units::{Instant, PageIndex};
use freehold_driver::{Batch, Completions};
use freehold_scenario::Scenario;

use crate::device::DeviceMemory;
use crate::error::SimError;
use crate::event_log::EventLog;
use crate::laws::{LawBook, Oracle};
use crate::page_table::PageTables;
use crate::physical::Physical;
use crate::sequence::Sequences;
use crate::store::Store;

pub(crate) use urgency::Urgency;

/// A request of the core that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) page: PageRef,
    pub(crate) region: usize,
    pub(crate) request: Request,
    /// Of a fill: where the content comes from.
    source: Source,
    /// Of an eviction: whether the page is written to the store.
    written: bool,
    /// In the recording.
    transfer: Option<usize>,
    /// Of a fill: the victim cache has it.
    pub(crate) cached: bool,
}

#[cfg(test)]
impl Ticket {
    /// A ticket told apart by its region.
    pub(crate) fn for_test(region: usize) -> Self {
        let page = setup::some_page();
        Self {
            page,
            region,
            request: Request::Fill,
            source: Source::Store,
            written: false,
            transfer: None,
            cached: false,
        }
    }
}

/// One access to one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) region: usize,
    pub(crate) page: u32,
    pub(crate) write: bool,
}

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultEnd {
    Mapped(Resolution),
    Retry,
    Failed(FaultFailure),
}

/// A fault that ended; the engine hears of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    pub(crate) task: usize,
    pub(crate) end: FaultEnd,
    /// Pages that were evicted for it.
    pub(crate) evictions: u64,
    /// Pages that were read ahead beside it.
    pub(crate) read_ahead: u64,
}

/// A fault that has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    region: usize,
    page: u32,
    /// The task's evictions before it.
    evictions: u64,
    /// The pages that the task had read ahead before it.
    read_ahead: u64,
}

/// Names of the core's things, by the scenario's positions and back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) objects: Vec<Option<ObjectId>>,
    /// `None` where the task takes no part. Behind the scenario's tasks come those that restore pages for some of them.
    pub(crate) tasks: Vec<Option<TaskId>>,
    /// By task and region.
    mappings: Vec<Vec<Option<MappingId>>>,
    /// `None` where the reservation takes no part.
    pub(crate) reservations: Vec<Option<ReservationId>>,
    /// By the core's slots.
    region_of: Vec<usize>,
    task_of: Vec<Option<usize>>,
    /// Task and region.
    mapped_by: Vec<Option<(usize, usize)>>,
    reservation_of: Vec<usize>,
    /// By task; `None` without one.
    pub(crate) pools: Vec<Option<PinnedPoolId>>,
}

/// What is to be done: by the world, and by the engine, which takes it out.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// What the core wants. Taken out while it is carried out.
    batch: Batch,
    completions: Completions,
    /// Faults that ended, in order.
    pub(crate) wakes: VecDeque<Wake>,
}

/// Faults that have not ended, by task.
#[derive(Debug)]
struct Faults {
    pending: Vec<Option<Pending>>,
    /// The number of its present fault in the sequence of its reservation.
    events: Vec<Option<usize>>,
}

/// What the core is being told.
#[derive(Debug)]
struct Told {
    /// The time of the fact.
    now: u64,
    /// The task whose fault is being handled.
    cause: Option<usize>,
    /// Before tasks are released everything is answered at once.
    setting_up: bool,
    /// A lock that could not be completed.
    lock_failed: bool,
    /// Facts told so far.
    facts: u64,
    check_every: u64,
}

pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) memory: Memory,
    pub(crate) names: Names,
    pub(crate) tables: PageTables,
    pub(crate) physical: Physical,
    pub(crate) store: Store,
    pub(crate) laws: LawBook,
    pub(crate) sequences: Sequences,
    pub(crate) log: EventLog,
    pub(crate) counts: StoreCounts,
    /// The victim cache and its devices, where there are any.
    pub(crate) devices: Option<DeviceMemory>,
    /// The frames of its region.
    _region: Option<Frames>,
    pub(crate) work: Work,
    faults: Faults,
    told: Told,
}

/// What the store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreCounts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

impl World<'_> {
    /// A task touches a page that its page table does not let it touch. The end of the fault is in `wakes`, now or
    /// later. `again`: this very access has faulted before.
    pub(crate) fn fault(&mut self, now: u64, task: usize, touch: Touch, again: bool) -> Result<(), SimError> {
        let Touch { region, page, write } = touch;
        let mapped = self
            .tables
            .table(task, region)
            .is_some_and(|table| table.is_mapped(page));
        let access = match (write, mapped) {
            (true, true) => Access::Upgrade,
            (true, false) => Access::Write,
            (false, _) => Access::Read,
        };
        let (evictions, read_ahead) = self.evicted_and_read(task);
        self.log.fault(now, task);
        if self.faults.pending[task]
            .replace(Pending {
                region,
                page,
                evictions,
                read_ahead,
            })
            .is_some()
        {
            self.laws
                .report(now, Oracle::Faults, || format!("task {task} faults twice at once"));
        }
        self.note_begin(task, touch, access, again);
        let refused = |reason: String| SimError::Fault {
            task: pinning::name_of(self.scenario, task),
            region: self.scenario.regions[region].name.clone(),
            page: PageIndex::new(page),
            reason,
        };
        let Some(mapping) = self.names.mappings[task][region] else {
            return Err(refused("the task does not map the region".to_owned()));
        };
        let fault = Fault {
            mapping,
            page: PageIndex::new(page),
            access,
        };
        self.memory
            .handle_fault(Instant::new(now), fault)
            .map_err(|error| refused(error.to_string()))?;
        self.told.cause = Some(task);
        self.carry_out(now);
        self.told.cause = None;
        self.lift_what_it_waits_for(task);
        Ok(())
    }

    /// The store has ended a request.
    pub(crate) fn complete(&mut self, now: u64, ticket: Ticket, failed: bool) {
        self.end(now, ticket, failed);
        self.carry_out(now);
    }

    /// A write-back for which the store has no room fails.
    pub(crate) fn fails_for_room(&self, ticket: &Ticket) -> bool {
        ticket.written && self.physical.store_is_full_for(ticket.region, ticket.page.page().get())
    }

    /// A task has ended a job.
    pub(crate) fn end_job(&mut self, task: usize) {
        self.tables.end_job(task);
    }

    fn note_begin(&mut self, task: usize, touch: Touch, access: Access, again: bool) {
        if !again {
            self.faults.events[task] = None;
        }
        let reservation = self.reservation_of_task(task);
        if let (Some(reservation), None, true) = (reservation, self.faults.events[task], access != Access::Upgrade) {
            self.faults.events[task] = self.sequences.begin_fault(reservation, touch.region, touch.page);
        }
    }

    fn note_end(&mut self, task: usize, pending: Pending, end: FaultEnd) {
        let reservation = self.reservation_of_task(task);
        if let (Some(reservation), Some(number), FaultEnd::Mapped(resolution)) =
            (reservation, self.faults.events[task], end)
        {
            let others = self
                .physical
                .written_by_others(pending.region, pending.page, reservation);
            self.sequences.end_fault(reservation, number, resolution, others);
        }
    }

    /// Evictions of the task so far, and pages that it had read ahead.
    fn evicted_and_read(&self, task: usize) -> (u64, u64) {
        let counts = self.names.tasks[task].and_then(|id| self.memory.task(id));
        counts.map_or((0, 0), |counts| (counts.evictions, counts.read_ahead))
    }

    /// Checks every law that the core knows.
    pub(crate) fn check_books(&mut self, now: u64) {
        self.laws.note_check();
        if let Err(violation) = self.memory.check_laws() {
            self.laws.note(now, violation.law, || format!("books: {violation}"));
        }
        self.check_devices(now);
    }

    /// Nobody may be left waiting when the store has nothing left to do.
    pub(crate) fn check_liveness(&mut self, now: u64) {
        let copies = self.devices.as_ref().map_or(0, DeviceMemory::copies);
        if self.store.outstanding() + copies > 0 {
            return;
        }
        for (task, pending) in self.faults.pending.iter().enumerate() {
            if let Some(Pending { region, page, .. }) = pending {
                let name = pinning::name_of(self.scenario, task);
                let region = &self.scenario.regions[*region].name;
                let what = || format!("{name} waits for page {page} of {region}, and nothing is under way");
                self.laws.report(now, Oracle::Liveness, what);
            }
        }
    }

    /// Pages of the region that the core believes resident must be those that are.
    pub(crate) fn check_residency(&mut self, now: u64) {
        let objects = self.names.objects.iter().enumerate();
        for (region, object) in objects.filter_map(|(region, object)| Some((region, object.as_ref()?))) {
            let believed = self.memory.resident(*object).map_or(0, |pages| u64::from(pages.get()));
            let found = self.physical.staying(region);
            if believed != found {
                let name = &self.scenario.regions[region].name;
                let what = || format!("{name}: the core believes {believed} pages resident, {found} are");
                self.laws.report(now, Oracle::Frames, what);
            }
        }
    }
}

impl std::fmt::Debug for World<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("scenario", &self.scenario.name)
            .field("facts", &self.told.facts)
            .finish_non_exhaustive()
    }
}
