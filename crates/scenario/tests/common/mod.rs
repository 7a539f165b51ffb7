//! A legal scenario to break, and random ones.
#![allow(dead_code, reason = "each test uses its part")]

use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::{
    AccessSpec, AppSpec, ClassSpec, LockSpec, Pattern, Pinning, Preset, RegionSpec, ReservationSpec, ScenarioSpec,
    Sharing, StoreKind, StoreWait, TaskSpec, Unpinned,
};
use proptest::prelude::*;

/// A legal scenario; its lines are numbered from 1 in the tests.
pub(crate) const BASE: &str = r#"name = "two-tasks-one-region"
duration = "10s"
seed = 1
[memory]
pool = "64MiB"
swap = { store = "memory", latency = "500us" }
[[region]]
name = "shm"
kind = "shared"
size = "10MiB"
sharing = "spc"
[[reservation]]
name = "r1"
size = "11MiB"
type = "hard"
[[task]]
name = "tau1"
reservation = "r1"
class = "deadline"
period = "100ms"
budget = "40ms"
deadline = "100ms"
[[task.access]]
region = "shm"
pattern = "sequential"
amount = "10MiB"
write = false
"#;

/// The scenario with one text replaced.
pub(crate) fn replaced(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replacen(from, to, 1)
}

fn kib(kib: u64) -> ByteLen {
    ByteLen::new(kib << 10)
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Sequential),
        Just(Pattern::Random),
        (0.01_f64..10.0).prop_map(|exponent| Pattern::Zipf { exponent }),
        (1_u64..8, 0_u64..8, 1_u32..5).prop_map(|(size, shift, every)| Pattern::Window {
            size: kib(size * 4),
            shift: kib(shift * 4),
            every,
        }),
    ]
}

fn access() -> impl Strategy<Value = AccessSpec> {
    (
        0_usize..2,
        pattern(),
        proptest::option::of(1_u64..200_000),
        any::<bool>(),
    )
        .prop_map(|(region, pattern, amount, write)| AccessSpec {
            region: format!("g{region}"),
            pattern,
            amount: amount.map(ByteLen::new),
            write,
        })
}

fn ratio() -> impl Strategy<Value = f64> {
    (1_u32..=1_000_000).prop_map(|millionths| f64::from(millionths) / 1e6)
}

fn app() -> impl Strategy<Value = (Pinning, Option<AppSpec>)> {
    let pinning = proptest::sample::select(Pinning::ALL.to_vec());
    let place = proptest::sample::select(vec![Unpinned::Text, Unpinned::Listing]);
    let numbers = (1_u64..9_000, ratio(), ratio(), 1_u32..9, ratio(), 0_u32..99);
    let paper = (numbers, place, any::<bool>(), any::<bool>()).prop_map(|(numbers, unpinned, memory_share, steady)| {
        let (capacity, alpha, beta, gamma, lambda, restore) = numbers;
        AppSpec {
            preset: Preset::Paper,
            capacity: kib(capacity * 4),
            alpha,
            beta,
            gamma,
            lambda,
            unpinned,
            memory_share,
            steady,
            restore,
        }
    });
    let freehold = ratio().prop_map(|lambda| AppSpec {
        lambda,
        ..AppSpec::default()
    });
    (pinning, proptest::option::of(prop_oneof![paper, freehold]))
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let timing = (
        1_u64..50,
        0_u64..50,
        0_u64..5_000_000,
        proptest::option::of(1_u64..1_000),
    );
    let kinds = (0_usize..4, app());
    (timing, kinds, proptest::collection::vec(access(), 0..4)).prop_map(|(timing, (kind, (pinning, app)), accesses)| {
        let (period, phase, compute, budget) = timing;
        let mut task = TaskSpec::new("");
        task.compute = Duration::new(compute);
        task.accesses = accesses;
        if kind < 2 {
            task.period = Some(Duration::from_millis(period));
            task.phase = Duration::from_micros(phase);
            task.budget = budget.map(Duration::new);
            task.reservation = Some(format!("r{kind}"));
        } else if kind == 3 {
            task.period = Some(Duration::from_millis(period));
            task.class = Some(ClassSpec::Deadline);
            task.budget = Some(Duration::from_micros(period));
            task.pinning = Some(pinning);
            task.app = app.filter(|_| pinning.adapts());
        } else {
            task.class = Some(ClassSpec::BestEffort);
            task.pinning = Some(Pinning::None);
        }
        task
    })
}

fn store() -> impl Strategy<Value = (StoreKind, Option<String>)> {
    prop_oneof![
        Just((StoreKind::Memory, None)),
        Just((StoreKind::Compressed, None)),
        proptest::option::of("[ -~τ]{1,9}").prop_map(|directory| (StoreKind::File, directory)),
    ]
}

/// Legal scenarios: two regions of 8 to 40 pages, two reservations, up to five tasks.
pub(crate) fn spec() -> impl Strategy<Value = ScenarioSpec> {
    let sizes = (8_u64..40, 8_u64..40, 48_u64..64, 48_u64..64);
    let locks = (0_u64..4, 1_u64..4, any::<bool>());
    let others = (any::<u32>(), store());
    (sizes, locks, proptest::collection::vec(task(), 0..5), others).prop_map(|(sizes, locks, tasks, (seed, store))| {
        let mut spec = ScenarioSpec::new("random \"τ\"\\", Duration::from_millis(200), kib(4 * 128));
        spec.seed = u64::from(seed);
        (spec.memory.store, spec.memory.directory) = store;
        spec.memory.wait = [None, Some(StoreWait::Sleep), Some(StoreWait::Spin)][seed as usize % 5 % 3];
        let automatic = seed % 3 == 0;
        spec.regions = vec![
            RegionSpec::new("g0", kib(sizes.0 * 4)),
            RegionSpec::new("g1", kib(sizes.1 * 4)),
        ];
        if automatic {
            spec.regions[0].sharing = Sharing::Auto;
        }
        spec.reservations = vec![
            ReservationSpec::new("r0", kib(sizes.2 * 4)),
            ReservationSpec::new("r1", kib(sizes.3 * 4)),
        ];
        spec.reservations[1].locks = vec![LockSpec {
            region: "g1".into(),
            offset: kib(locks.0 * 4),
            size: kib(locks.1 * 4),
        }];
        if locks.2 {
            spec.reservations[0].sharing = vec![("g1".into(), Sharing::Spc), ("g0".into(), Sharing::Spel)];
        }
        spec.tasks = tasks;
        for (number, task) in spec.tasks.iter_mut().enumerate() {
            task.name = format!("t{number}");
        }
        spec
    })
}
