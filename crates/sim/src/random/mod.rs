//! Random scenarios: a seed in, a small and nasty scenario out.
//!
//! Swarm testing: each scenario first draws what may occur in it at all, so that features are tested alone and in all
//! combinations, not always all together. Pools, regions and periods are tiny, so that limits are hit often.

mod load;
mod task;

use freehold_core::units::{ByteLen, Duration, PAGE_SIZE};
use freehold_scenario::{
    Costs, Faults, LockSpec, RegionKind, RegionSpec, ReservationKind, ReservationSpec, Scenario, ScenarioSpec, Sharing,
};

use crate::rng::Rng;

pub use load::{LOAD_NEIGHBOUR, LOAD_TASK, random_load};

/// What may occur in random scenarios beside hard reservations that share regions under SPC and SPEL. The default is
/// everything for which law 0 is asserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Firm reservations.
    pub firm: bool,
    /// Regions under `none`.
    pub unmanaged: bool,
    /// Tasks without a reservation.
    pub unreserved: bool,
    /// Tasks without a reservation that have a pinned page pool.
    pub pinning: bool,
    /// Copy-on-write views of file regions.
    pub views: bool,
    /// Several tasks in one reservation.
    pub threads: bool,
    /// Requests to the store that are late or overtake each other.
    pub delays: bool,
    /// Requests to the store that fail, and stores that fill up.
    pub failures: bool,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            firm: false,
            unmanaged: false,
            unreserved: true,
            pinning: false,
            views: true,
            threads: true,
            delays: true,
            failures: false,
        }
    }
}

impl Mix {
    /// Everything there is.
    #[must_use]
    pub const fn everything() -> Self {
        Self {
            firm: true,
            unmanaged: true,
            unreserved: true,
            pinning: true,
            views: true,
            threads: true,
            delays: true,
            failures: true,
        }
    }
}

/// What one scenario is drawn from.
#[derive(Clone, Copy, Debug)]
struct Swarm {
    mix: Mix,
    writes: bool,
    locks: bool,
    /// Views are used by several reservations.
    common_views: bool,
    best_effort: bool,
    deadline: bool,
    /// Tasks come and go.
    lifetimes: bool,
    affinity: bool,
}

impl Swarm {
    fn draw(rng: &mut Rng, mix: Mix) -> Self {
        let mut half = |may: bool| may && rng.one_in(2);
        Self {
            mix: Mix {
                firm: half(mix.firm),
                unmanaged: half(mix.unmanaged),
                unreserved: half(mix.unreserved),
                pinning: half(mix.pinning),
                views: half(mix.views),
                threads: half(mix.threads),
                delays: half(mix.delays),
                failures: half(mix.failures),
            },
            writes: !half(true) || half(true),
            locks: half(true),
            common_views: half(true) && half(true),
            best_effort: half(true),
            deadline: half(true),
            lifetimes: half(true),
            affinity: half(true),
        }
    }
}

/// A random scenario, the same for the same seed and mix.
///
/// ```
/// use freehold_sim::{Mix, Options, random_scenario, simulate};
///
/// let scenario = random_scenario(42, Mix::default());
/// assert_eq!(scenario, random_scenario(42, Mix::default()));
/// assert!(simulate(&scenario, &Options::default())?.laws_hold());
/// # Ok::<(), freehold_sim::SimError>(())
/// ```
///
/// # Panics
/// Never, as far as thousands of seeds tell: scenarios that break a rule of the file are drawn again.
#[must_use]
pub fn random_scenario(seed: u64, mix: Mix) -> Scenario {
    let drawn = (0..1_000).map(|attempt| random_spec(seed, attempt, mix));
    let mut valid = drawn.filter_map(|spec| Scenario::try_from(spec).ok());
    valid.next().expect("one of a thousand random scenarios is valid")
}

/// A random scenario that may yet break a rule of the file: overcommitted CPUs, mostly.
fn random_spec(seed: u64, attempt: u64, mix: Mix) -> ScenarioSpec {
    let mut rng = Rng::stream(seed, attempt);
    let swarm = Swarm::draw(&mut rng, mix);
    let duration = Duration::from_micros(rng.pick(&[2_000, 5_000, 10_000, 20_000]));
    let mut spec = ScenarioSpec::new(format!("random-{seed}"), duration, ByteLen::new(PAGE_SIZE));
    spec.seed = rng.next_u64();
    spec.cpus = rng.pick(&[1, 1, 2, 3]);
    spec.costs = costs(&mut rng);
    regions(&mut rng, &swarm, &mut spec);
    reservations(&mut rng, &swarm, &mut spec);
    task::tasks(&mut rng, &swarm, &mut spec);
    store(&mut rng, &swarm, &mut spec);
    pool(&mut rng, &mut spec);
    spec.memory.read_ahead = rng.pick(&[1, 1, 2, 4, 8]);
    spec
}

fn pages(count: u64) -> ByteLen {
    ByteLen::new(count * PAGE_SIZE)
}

fn costs(rng: &mut Rng) -> Costs {
    let mut cost = |low, high| Duration::new(rng.within(low, high));
    Costs {
        access: cost(100, 4_000),
        soft_fault: cost(500, 5_000),
        zero_fill: cost(500, 8_000),
        swap_in: cost(500, 8_000),
        eviction: cost(100, 3_000),
    }
}

fn regions(rng: &mut Rng, swarm: &Swarm, spec: &mut ScenarioSpec) {
    for number in 0..rng.within(1, 4) {
        let size = rng.pick(&[1, 2, 3, 5, 8, 13, 21, 34, 55, 120]);
        let mut region = RegionSpec::new(format!("g{number}"), pages(size));
        region.kind = rng.pick(&[
            RegionKind::Shared,
            RegionKind::Shared,
            RegionKind::Private,
            RegionKind::File,
        ]);
        let of_file = spec
            .regions
            .iter()
            .find(|other| other.kind == RegionKind::File && other.sharing != Sharing::None);
        match of_file {
            Some(base) if swarm.mix.views && rng.one_in(2) => {
                region.kind = RegionKind::Private;
                region.size = base.size;
                region.copy_of = Some(base.name.clone());
            }
            _ if swarm.mix.unmanaged && rng.one_in(2) => region.sharing = Sharing::None,
            _ => {}
        }
        spec.regions.push(region);
    }
}

fn reservations(rng: &mut Rng, swarm: &Swarm, spec: &mut ScenarioSpec) {
    for number in 0..rng.within(1, 5) {
        // Up to 64 frames one page is evicted at a time; above, batches.
        let capacity = rng.pick(&[2, 3, 4, 6, 9, 12, 17, 24, 40, 70, 130]);
        let mut reservation = ReservationSpec::new(format!("r{number}"), pages(capacity));
        if swarm.mix.firm && rng.one_in(2) {
            reservation.kind = ReservationKind::Firm;
        }
        if swarm.locks && rng.one_in(2) {
            reservation.locks = locks(rng, capacity, &spec.regions);
        }
        spec.reservations.push(reservation);
    }
}

/// Ranges that leave 8 frames unlocked.
fn locks(rng: &mut Rng, capacity: u64, regions: &[RegionSpec]) -> Vec<LockSpec> {
    let mut room = capacity.saturating_sub(8);
    let mut locks = Vec::new();
    for region in regions
        .iter()
        .filter(|region| region.copy_of.is_none() && region.sharing != Sharing::None)
    {
        let size = region.size.map_or(0, |size| size.get() / PAGE_SIZE);
        if room == 0 || size == 0 || rng.one_in(3) {
            continue;
        }
        let length = rng.within(1, room.min(size));
        let offset = rng.within(0, size - length);
        room -= length;
        locks.push(LockSpec {
            region: region.name.clone(),
            offset: pages(offset),
            size: pages(length),
        });
    }
    locks
}

fn store(rng: &mut Rng, swarm: &Swarm, spec: &mut ScenarioSpec) {
    spec.memory.latency = Duration::from_micros(rng.pick(&[1, 20, 49, 50, 100, 500, 2_000]));
    spec.memory.parallel = rng.pick(&[1, 2, 8]);
    if swarm.mix.failures && rng.one_in(3) {
        spec.memory.capacity = Some(pages(rng.within(1, 40)));
    }
    if swarm.mix.delays || swarm.mix.failures {
        let late = if swarm.mix.delays && rng.one_in(2) { 0.2 } else { 0.0 };
        let late_by = if late > 0.0 {
            Duration::from_micros(rng.within(1, 3_000))
        } else {
            Duration::ZERO
        };
        let fail = if swarm.mix.failures {
            rng.pick(&[0.0, 0.01, 0.2, 0.9])
        } else {
            0.0
        };
        let reorder = swarm.mix.delays && rng.one_in(2);
        spec.faults = Some(Faults {
            seed: rng.one_in(2).then(|| rng.next_u64()),
            late,
            late_by,
            fail,
            reorder,
        });
    }
}

/// Everything reserved, and now and then some frames for the rest.
fn pool(rng: &mut Rng, spec: &mut ScenarioSpec) {
    let reserved: u64 = spec
        .reservations
        .iter()
        .map(|reservation| reservation.size.get() / PAGE_SIZE)
        .sum();
    let spare = rng.pick(&[0, 2, 3, 8, 30]);
    spec.memory.pool = pages(reserved + spare);
}
