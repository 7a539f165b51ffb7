//! What is counted at one instant: the end of the last full hyperperiod, or of the run.

use freehold_core::pinning::PinnedPoolView;
use freehold_core::units::PAGE_SIZE;
use freehold_core::view::{ReservationView, TaskCounts};
use freehold_scenario::results::{DeviceResult, MemoryResult, ReservationResult, StoreResult, VictimCacheResult};

use crate::device::DeviceMemory;
use crate::world::World;

/// The counts of all tasks, reservations and regions, of the pool and of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Behind the scenario's tasks, those that restore pages.
    pub(crate) tasks: Vec<TaskCounts>,
    /// The pinned page pool of each task.
    pub(crate) pools: Vec<Option<PinnedPoolView>>,
    pub(crate) reservations: Vec<ReservationResult>,
    /// Resident pages of each region.
    pub(crate) resident: Vec<u64>,
    pub(crate) memory: MemoryResult,
    pub(crate) store: StoreResult,
    pub(crate) victim_cache: Option<VictimCacheResult>,
    pub(crate) devices: Vec<DeviceResult>,
}

impl Counts {
    pub(crate) fn take(world: &World<'_>) -> Self {
        let views: Vec<Option<ReservationView>> = world
            .names
            .reservations
            .iter()
            .map(|id| id.and_then(|id| world.memory.reservation(id)))
            .collect();
        let of_task = |id: &Option<freehold_core::id::TaskId>| id.and_then(|id| world.memory.task(id));
        let named = world.scenario.reservations.iter().zip(&views);
        let reserve: u64 = views
            .iter()
            .flatten()
            .map(|view| frames(view.free) + frames(view.conserved))
            .sum();
        let region = frames(world.memory.pool_view().outside);
        Self {
            tasks: world
                .names
                .tasks
                .iter()
                .map(|id| of_task(id).unwrap_or_default())
                .collect(),
            pools: (0..world.scenario.tasks.len())
                .map(|task| world.pool_of(task))
                .collect(),
            reservations: named
                .map(|(reservation, view)| ReservationResult::new(&reservation.name, &view.unwrap_or_default()))
                .collect(),
            resident: (0..world.scenario.regions.len())
                .map(|region| world.physical.resident(region))
                .collect(),
            memory: MemoryResult::new(
                &world.memory.pool_view(),
                world.physical.all_resident() + reserve + region,
            ),
            store: StoreResult {
                reads: world.counts.reads,
                writes: world.counts.writes,
                read_bytes: world.counts.reads * PAGE_SIZE,
                kind: world.scenario.store.kind.name().to_owned(),
                ..StoreResult::default()
            },
            victim_cache: world.devices.as_ref().map(DeviceMemory::result),
            devices: world
                .devices
                .as_ref()
                .map_or_else(Vec::new, |devices| devices.devices(world.scenario)),
        }
    }
}

fn frames(count: freehold_core::units::FrameCount) -> u64 {
    u64::from(count.get())
}
