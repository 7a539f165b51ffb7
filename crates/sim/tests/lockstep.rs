//! A second, naive engine replays the schedule of a run access by access, in no time at all, and must count the same.
//! It shares nothing with the simulator but the core, the access generator and the rules written at [`Schedule`].
#![allow(clippy::unwrap_used, reason = "where an unwrap fails, the test fails")]

use std::collections::{BTreeMap, VecDeque};

use freehold_core::Memory;
use freehold_core::effect::{Effect, Protection, Scope, Source};
use freehold_core::fact::{Access as Kind, Fault, PageRef, Request};
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, PageRange, Regime, ReservationKind, ReservationSpec};
use freehold_core::pinning::JobReport;
use freehold_core::units::{Instant, PageCount};
use freehold_scenario::recording::ReservationCounts;
use freehold_scenario::{Access, AccessGenerator, RegionKind, ReservationIndex, Scenario, Sharing, TaskIndex, setup};
use freehold_sim::{Mix, Options, Outcome, Schedule, Step, random_scenario, simulate};

/// How an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Mapped,
    Retry,
    Failed,
}

struct Naive<'a> {
    scenario: &'a Scenario,
    memory: Memory,
    now: u64,
    objects: Vec<ObjectId>,
    reservations: Vec<ReservationId>,
    tasks: Vec<Option<TaskId>>,
    mappings: BTreeMap<(usize, usize), MappingId>,
    /// Of each task and region, the pages mapped: writable, and whether the frame is the base's.
    table: BTreeMap<(usize, usize, u32), (bool, bool)>,
    generators: Vec<AccessGenerator>,
    /// The access that a task has begun and not made.
    held: Vec<Option<Access>>,
    ended: BTreeMap<usize, End>,
    answers: VecDeque<(PageRef, Request)>,
    open: BTreeMap<(usize, u32, Request), PageRef>,
    pools: Vec<(usize, Option<PinnedPoolId>)>,
    restorers: BTreeMap<usize, usize>,
    setting_up: bool,
}

impl<'a> Naive<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let many = 64;
        let pages: u32 = scenario.regions.iter().map(|region| region.pages.get()).sum();
        let limits = Limits {
            frames: scenario.pool,
            pages: PageCount::new(pages),
            reservations: many,
            objects: many,
            tasks: many,
            mappings: 500,
            compared_pages: PageCount::new(pages),
            shared_locks: PageCount::new(1000),
        };
        let generator = |task| AccessGenerator::new(scenario, TaskIndex::new(task), scenario.seed);
        let mut naive = Self {
            scenario,
            memory: limits.seal().unwrap(),
            now: 0,
            objects: Vec::new(),
            reservations: Vec::new(),
            tasks: vec![None; scenario.tasks.len()],
            mappings: BTreeMap::new(),
            table: BTreeMap::new(),
            generators: (0..u16::try_from(scenario.tasks.len()).unwrap())
                .map(generator)
                .collect(),
            held: vec![None; scenario.tasks.len()],
            ended: BTreeMap::new(),
            answers: VecDeque::new(),
            open: BTreeMap::new(),
            pools: Vec::new(),
            restorers: BTreeMap::new(),
            setting_up: true,
        };
        naive.memory.set_read_ahead(scenario.store.read_ahead);
        naive.set_up();
        naive.setting_up = false;
        naive
    }

    fn set_up(&mut self) {
        let mut objects = vec![None; self.scenario.regions.len()];
        for views in [false, true] {
            for (position, region) in self.scenario.regions.iter().enumerate() {
                let object = match region.copy_of {
                    Some(base) if views => self.memory.create_view(objects[base.get()].unwrap()),
                    None if !views => self.memory.create_object(ObjectSpec {
                        kind: if region.kind == RegionKind::File {
                            ObjectKind::File
                        } else {
                            ObjectKind::Shared
                        },
                        pages: region.pages,
                        regime: if region.sharing == Sharing::None {
                            Regime::Unmanaged
                        } else {
                            Regime::Conserve
                        },
                    }),
                    _ => continue,
                };
                objects[position] = Some(object.unwrap());
            }
        }
        self.objects = objects.into_iter().flatten().collect();
        for (position, reservation) in self.scenario.reservations.iter().enumerate() {
            let kind = match reservation.kind {
                freehold_scenario::ReservationKind::Hard => ReservationKind::Hard,
                freehold_scenario::ReservationKind::Firm => ReservationKind::Firm,
            };
            let id = self
                .memory
                .admit(ReservationSpec {
                    capacity: reservation.capacity,
                    kind,
                })
                .unwrap();
            self.reservations.push(id);
            let index = ReservationIndex::new(u16::try_from(position).unwrap());
            self.add_tasks(Some(index));
            self.lock(index, id);
        }
        self.add_tasks(None);
    }

    fn add_tasks(&mut self, reservation: Option<ReservationIndex>) {
        for (position, task) in self.scenario.tasks.iter().enumerate() {
            if task.reservation == reservation {
                let pool = setup::pinning(task).map(|settings| self.memory.open_pinned_pool(settings).unwrap());
                self.pools.push((position, pool));
                let id = match pool {
                    Some(pool) => self.memory.add_pinned_task(pool).unwrap(),
                    None => self
                        .memory
                        .add_task(reservation.map(|index| self.reservations[index.get()]))
                        .unwrap(),
                };
                self.tasks[position] = Some(id);
                for region in 0..self.objects.len() {
                    if task.accesses.iter().any(|step| step.region.get() == region) {
                        let mapping = self.memory.map(id, self.objects[region]).unwrap();
                        self.mappings.insert((position, region), mapping);
                    }
                }
                self.add_restorer(position, pool);
            }
        }
    }

    /// Who restores comes behind the scenario's tasks.
    fn add_restorer(&mut self, position: usize, pool: Option<PinnedPoolId>) {
        let task = &self.scenario.tasks[position];
        if task.app.is_none_or(|app| app.restore == 0) {
            return;
        }
        let id = self.memory.add_restorer(pool.unwrap()).unwrap();
        self.restorers.insert(position, self.tasks.len());
        for region in 0..self.objects.len() {
            if task.accesses.iter().any(|step| step.region.get() == region) {
                let mapping = self.memory.map(id, self.objects[region]).unwrap();
                self.mappings.insert((self.tasks.len(), region), mapping);
            }
        }
        self.tasks.push(Some(id));
    }

    fn pool(&self, task: usize) -> Option<PinnedPoolId> {
        self.pools.iter().find(|(position, _)| *position == task).unwrap().1
    }

    fn lock(&mut self, index: ReservationIndex, id: ReservationId) {
        let mut keeper = None;
        let reservation = &self.scenario.reservations[index.get()];
        let mapped = |region: usize| {
            let mut mine = self
                .scenario
                .tasks
                .iter()
                .filter(|task| task.reservation == Some(index));
            mine.any(|task| task.accesses.iter().any(|step| step.region.get() == region))
        };
        for (region, used) in reservation.regions.iter().enumerate() {
            if !used.locks.is_empty() && !mapped(region) {
                let keeper = *keeper.get_or_insert_with(|| self.memory.add_task(Some(id)).unwrap());
                self.memory.map(keeper, self.objects[region]).unwrap();
            }
        }
        for (region, used) in reservation.regions.iter().enumerate() {
            for range in &used.locks {
                let range = PageRange {
                    first: range.first,
                    count: range.pages,
                };
                self.memory.lock(id, self.objects[region], range).unwrap();
                self.drain();
            }
        }
    }

    fn drain(&mut self) {
        loop {
            while let Some(effect) = self.memory.poll_effect() {
                self.carry_out(effect);
            }
            let Some((page, request)) = self.answers.pop_front() else {
                return;
            };
            self.memory.handle_done(Instant::new(self.now), page, request).unwrap();
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Map {
                task,
                mapping,
                page,
                protection,
                ..
            } => {
                let task = self.task(task);
                let (&(_, region), _) = self.mappings.iter().find(|(_, other)| **other == mapping).unwrap();
                let of_base = self.objects[region] != page.object();
                let writable = protection == Protection::Writable;
                self.table
                    .insert((task, region, page.page().get()), (writable, of_base));
                self.ended.insert(task, End::Mapped);
            }
            Effect::Retry { task } => drop(self.ended.insert(self.task(task), End::Retry)),
            Effect::Fail { task, .. } => drop(self.ended.insert(self.task(task), End::Failed)),
            Effect::Unmap { page, from, .. } => {
                let (objects, tasks, memory) = (&self.objects, &self.tasks, &self.memory);
                self.table.retain(|(task, region, number), (_, of_base)| {
                    let object = match (*of_base, self.scenario.regions[*region].copy_of) {
                        (true, Some(base)) => objects[base.get()],
                        _ => objects[*region],
                    };
                    let meant = match from {
                        Scope::Everyone => true,
                        Scope::Of(holder) => memory.holder(tasks[*task].unwrap()) == Some(holder),
                    };
                    !(meant && object == page.object() && *number == page.page().get())
                });
            }
            Effect::Fill {
                page,
                source: Source::Store,
                ..
            } => self.request(page, Request::Fill),
            Effect::WriteBack { page, .. } => self.request(page, Request::Evict),
            Effect::Fill { page, .. } => self.answers.push_back((page, Request::Fill)),
            Effect::Discard { page, .. } => self.answers.push_back((page, Request::Evict)),
            Effect::LockFailed { .. } => panic!("the simulator could lock this"),
            Effect::Take { .. } | Effect::Transfer { .. } | Effect::Locked { .. } => {}
            Effect::Recall { .. } => panic!("nobody has frames outside"),
        }
    }

    fn request(&mut self, page: PageRef, request: Request) {
        if self.setting_up {
            self.answers.push_back((page, request));
            return;
        }
        let region = self.objects.iter().position(|object| *object == page.object()).unwrap();
        assert_eq!(self.open.insert((region, page.page().get(), request), page), None);
    }

    fn task(&self, id: TaskId) -> usize {
        self.tasks.iter().position(|other| *other == Some(id)).unwrap()
    }

    /// Goes on with the task's access. Whether it is over.
    fn access(&mut self, task: usize) -> bool {
        let access = self.held[task].take().or_else(|| self.generators[task].next()).unwrap();
        let key = (task, access.region.get(), access.page.get());
        loop {
            let kind = match (self.table.get(&key), access.write) {
                (Some((true, _)), _) | (Some(_), false) => return true,
                (Some(_), true) => Kind::Upgrade,
                (None, true) => Kind::Write,
                (None, false) => Kind::Read,
            };
            let fault = Fault {
                mapping: self.mappings[&(task, access.region.get())],
                page: access.page,
                access: kind,
            };
            self.memory.handle_fault(Instant::new(self.now), fault).unwrap();
            self.drain();
            match self.ended.remove(&task) {
                Some(End::Failed) => return true,
                Some(End::Mapped | End::Retry) => {}
                None => {
                    self.held[task] = Some(access);
                    return false;
                }
            }
        }
    }

    fn report(&mut self, task: usize, report: &JobReport) {
        let pool = self.pool(task).unwrap();
        let told = self.memory.handle_pinned_job_end(Instant::new(self.now), pool, report);
        told.unwrap();
        self.drain();
    }

    fn restore(&mut self, task: usize) {
        let pool = self.pool(task).unwrap();
        let Some((object, page)) = self.memory.next_to_restore(pool) else {
            return;
        };
        let region = self.objects.iter().position(|other| *other == object).unwrap();
        let fault = Fault {
            mapping: self.mappings[&(self.restorers[&task], region)],
            page,
            access: Kind::Read,
        };
        self.memory.handle_fault(Instant::new(self.now), fault).unwrap();
        self.drain();
    }

    /// Replays; calls `snapshot` where counts are to be taken.
    fn replay(&mut self, schedule: &Schedule, snapshot: impl Fn(&Self)) {
        for step in &schedule.steps {
            self.now += 1;
            match *step {
                Step::JobStart { task } => self.generators[task.get()].begin_job(),
                Step::Run { task, accesses } => {
                    for _ in 0..accesses {
                        assert!(self.access(task.get()), "an access waits within {step:?}");
                    }
                }
                Step::Begin { task } => assert!(!self.access(task.get()), "nothing to wait for in {step:?}"),
                Step::Complete {
                    region,
                    page,
                    request,
                    failed,
                    cached: _,
                } => {
                    let page = self
                        .open
                        .remove(&(region.get(), page.get(), request))
                        .expect("no such request");
                    let now = Instant::new(self.now);
                    match failed {
                        false => self.memory.handle_done(now, page, request).unwrap(),
                        true => self.memory.handle_failed(now, page, request).unwrap(),
                    }
                    self.drain();
                }
                Step::JobEnd { task } => {
                    assert_eq!(
                        self.generators[task.get()].next(),
                        None,
                        "accesses are left at the end of a job"
                    );
                }
                Step::Report { task, report } => self.report(task.get(), &report),
                Step::Restore { task } => self.restore(task.get()),
                Step::Device { .. } => unreachable!("no scenario here has devices"),
                Step::Snapshot => snapshot(self),
            }
            for (task, end) in std::mem::take(&mut self.ended) {
                if end == End::Failed && task < self.held.len() {
                    self.held[task] = None;
                }
            }
        }
    }

    fn compare_pools(&self, outcome: &Outcome) {
        for ((position, pool), result) in self.pools.iter().map(|pool| (pool, &outcome.result.tasks[pool.0])) {
            let view = pool.map(|pool| self.memory.pinned_pool(pool).unwrap());
            let pinned = view.map_or(0, |view| u64::from(view.active.get() + view.inactive.get()));
            assert_eq!(pinned, result.pinned.pinned_pages, "task {position}");
            let budget = view.map_or(0, |view| view.swap_budget.get());
            assert_eq!(budget, result.pinned.swap_budget_ns, "task {position}");
            if let Some(capacity) = result.pinned.capacity_pages {
                assert_eq!(u64::from(view.unwrap().capacity.get()), capacity, "task {position}");
            }
            let restorer = self.restorers.get(position).map(|task| self.tasks[*task].unwrap());
            let restored = restorer.map_or(0, |id| self.memory.task(id).unwrap().swap_ins);
            assert_eq!(restored, result.pinned.restored, "task {position}");
        }
    }

    fn compare(&self, outcome: &Outcome) {
        for (id, result) in self.tasks.iter().zip(&outcome.result.tasks) {
            let counts = self.memory.task(id.unwrap()).unwrap();
            let ours = [
                counts.soft_faults,
                counts.zero_fills,
                counts.swap_ins,
                counts.evictions,
                counts.write_faults,
            ];
            let theirs = [
                result.faults.soft_faults,
                result.faults.zero_fills,
                result.faults.swap_ins,
                result.faults.evictions,
                result.write_faults,
            ];
            assert_eq!(ours, theirs, "{}", result.name);
        }
        self.compare_pools(outcome);
        for (id, result) in self.reservations.iter().zip(&outcome.result.reservations) {
            let view = self.memory.reservation(*id).unwrap();
            assert_eq!(ReservationCounts::from(&view), result.counts(), "{}", result.name);
        }
        let pool = self.memory.pool_view();
        assert_eq!(u64::from(pool.memory_used.get()), outcome.result.memory.used);
        assert_eq!(u64::from(pool.memory_peak.get()), outcome.result.memory.peak);
    }
}

#[test]
fn a_naive_engine_counts_the_same() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first = number("FREEHOLD_SIM_SEED", 0);
    let mut steps = 0;
    for seed in first..first + number("FREEHOLD_SIM_SCENARIOS", 500) {
        let mix = if seed % 2 == 0 {
            Mix::everything()
        } else {
            Mix::default()
        };
        let scenario = random_scenario(seed, mix);
        let outcome = simulate(
            &scenario,
            &Options {
                schedule: true,
                ..Options::default()
            },
        )
        .unwrap();
        let schedule = outcome.schedule.as_ref().unwrap();
        assert_eq!(
            schedule.steps.iter().filter(|step| **step == Step::Snapshot).count(),
            1,
            "seed {seed}"
        );
        println!("seed {seed}");
        Naive::new(&scenario).replay(schedule, |naive| naive.compare(&outcome));
        steps += schedule.steps.len();
    }
    println!("{steps} steps");
}
