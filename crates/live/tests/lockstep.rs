//! Live equals simulated: every count, for every shipped scenario and for random ones, on real pages.
//!
//! `FREEHOLD_LOCKSTEP` sets how many random scenarios (120 unless told), `FREEHOLD_SEED` the first seed.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use freehold_core::units::{ByteLen, PAGE_SIZE};
use freehold_live::{LiveError, run_in_lockstep};
use freehold_scenario::results::RunResult;
use freehold_scenario::{Class, Document, Pinning, Scenario, ScenarioSpec, Sharing, StoreKind};
use freehold_sim::{Mix, device_scenario, random_scenario, simulate};

/// Random scenarios hold to here: of those the simulator refuses nothing is compared.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder of shipped scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// True if the scenario ran; copy-on-write is refused by name.
fn follows(scenario: &Scenario, what: &str) -> bool {
    followed(scenario, what).is_some()
}

fn followed(scenario: &Scenario, what: &str) -> Option<RunResult> {
    match run_in_lockstep(scenario, &AtomicBool::new(false)) {
        Ok(outcome) => {
            let violations = &outcome.result.laws.violations;
            assert!(violations.is_empty(), "{what}: {violations:#?}");
            assert_eq!(outcome.result.store.kind, scenario.store.kind.name(), "{what}");
            Some(outcome.result)
        }
        Err(LiveError::CopyOnWrite(_)) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn shipped_scenarios_count_the_same_live_and_simulated() {
    let mut ran = 0;
    for file in files("scenarios").into_iter().chain(files("experiments")) {
        let shorten = ["duration=2s".to_owned()];
        let scenario = Scenario::load(&file, &shorten).or_else(|_| Scenario::load::<String>(&file, &[]));
        let scenario = scenario.expect("a shipped scenario is correct");
        ran += usize::from(follows(&scenario, &file.display().to_string()));
    }
    assert!(ran >= 12, "only {ran} shipped scenarios ran");
}

/// Law 6 is watched by those who have the memory, and the frames that each opening gets are those of the simulator.
#[test]
fn device_memory_counts_the_same_live_and_simulated() {
    let (mut hits, mut discarded, mut opens) = (0, 0, 0);
    for seed in 1..=number("FREEHOLD_LOCKSTEP", 120).div_ceil(5) {
        let result = followed(&device_scenario(seed), &format!("devices, seed {seed}")).expect("it ran");
        let cache = result.victim_cache.expect("there is device memory");
        (hits, discarded) = (hits + cache.hits, discarded + cache.discarded);
        opens += result.devices.iter().map(|device| device.opens).sum::<u64>();
    }
    assert!(
        hits > 100 && discarded > 100 && opens > 20,
        "{hits} {discarded} {opens}"
    );
}

/// The models of paper 001, a little of each, with every policy.
#[test]
fn models_of_pinning_count_the_same_live_and_simulated() {
    let models = ["ranger", "mplayer", "shift"].map(|name| format!("experiments/app/{name}.toml"));
    for (file, pinning) in models.iter().zip(["app", "all", "app-no-budget"]) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let mut document = Document::load(&file).expect("a shipped model is correct");
        let model = document.scenario().expect("a shipped model is correct");
        let soft = model.tasks.iter().filter(|task| task.class == Class::Deadline);
        let mut sets = vec!["duration=2200ms".to_owned(), "memory.pool=160MiB".to_owned()];
        for task in soft {
            sets.push(format!("task.{}.pinning={pinning}", task.name));
            if pinning == "app" {
                sets.push(format!("task.{}.app.preset=paper", task.name));
                sets.push(format!("task.{}.app.capacity=4MiB", task.name));
                sets.push(format!("task.{}.app.restore=50", task.name));
            }
        }
        for set in &sets {
            document.apply_set(set).expect("a key that there is");
        }
        let scenario = document.scenario().expect("a correct scenario");
        let result = followed(&scenario, &format!("{}, {sets:?}", file.display())).expect("it ran");
        let pinned: u64 = result.tasks.iter().map(|task| task.pinned.pinned_pages).sum();
        let restored: u64 = result.tasks.iter().map(|task| task.pinned.restored).sum();
        println!(
            "{}: {pinning}: {pinned} pages pinned, {restored} restored",
            file.display()
        );
        assert!(pinning != "all" || pinned > 0, "{}", file.display());
    }
}

#[test]
fn random_scenarios_count_the_same_live_and_simulated() {
    let wanted = number("FREEHOLD_LOCKSTEP", 120);
    let (mut seed, mut ran) = (number("FREEHOLD_SEED", 1), 0);
    while ran < wanted {
        let mix = Mix {
            firm: seed % 2 == 0,
            unmanaged: seed % 3 == 0,
            unreserved: seed % 4 < 2,
            pinning: seed % 3 < 2,
            views: false,
            threads: seed % 5 < 2,
            delays: seed % 7 == 0,
            failures: false,
        };
        ran += u64::from(follows(&random_scenario(seed, mix), &format!("seed {seed}, {mix:?}")));
        seed += 1;
    }
}

/// The scenario with room to pin in, if the simulator pins or restores anything with it. Pages are restored.
fn roomy(spec: &ScenarioSpec) -> Option<Scenario> {
    let with = |more: u64| {
        let mut spec = spec.clone();
        spec.memory.pool = ByteLen::new(spec.memory.pool.get() + more * PAGE_SIZE);
        let apps = spec.tasks.iter_mut().filter_map(|task| task.app.as_mut());
        apps.for_each(|app| app.restore = app.restore.max(5));
        Scenario::try_from(spec).expect("a legal scenario")
    };
    let pins = |scenario: &Scenario| {
        let simulated = simulate(scenario, &freehold_sim::Options::default());
        let tasks = simulated.map(|outcome| outcome.result.tasks).unwrap_or_default();
        tasks
            .iter()
            .any(|task| task.pinned.pinned_pages + task.pinned.restored > 0)
    };
    [8, 24, 60].map(with).into_iter().find(pins)
}

/// Tasks with pinned page pools.
#[test]
fn pinned_scenarios_count_the_same_live_and_simulated() {
    let wanted = number("FREEHOLD_LOCKSTEP", 120) / 4;
    let (mut seed, mut ran, mut restored) = (number("FREEHOLD_SEED", 1), 0, 0);
    while ran < wanted {
        let mix = Mix {
            firm: seed % 2 == 0,
            pinning: true,
            views: false,
            ..Mix::default()
        };
        let spec = random_scenario(seed, mix).spec().clone();
        let pins = spec.tasks.iter().any(|task| task.pinning.is_some_and(Pinning::pins));
        if let Some(scenario) = Some(&spec).filter(|_| pins).and_then(roomy) {
            let result = followed(&scenario, &format!("seed {seed}, pinned")).expect("it runs");
            ran += 1;
            restored += result.tasks.iter().map(|task| task.pinned.restored).sum::<u64>();
        }
        seed += 1;
    }
    println!("{restored} pages restored in all");
}

/// Regions that ask for `auto` are decided alike: the same locks, the same sizes, the same counts.
#[test]
fn decided_scenarios_count_the_same_live_and_simulated() {
    let (mut ran, mut locked) = (0, 0);
    for seed in 1..=40 {
        let mix = Mix {
            views: false,
            ..Mix::default()
        };
        let mut spec = random_scenario(seed, mix).spec().clone();
        spec.memory.pool = ByteLen::new(spec.memory.pool.get() * 3 + (1 << 20));
        for region in &mut spec.regions {
            region.sharing = Sharing::Auto;
        }
        for reservation in &mut spec.reservations {
            reservation.size = ByteLen::new(reservation.size.get() + (64 << 10));
        }
        let scenario = Scenario::try_from(spec).expect("a legal scenario");
        ran += u64::from(follows(&scenario, &format!("seed {seed}, auto")));
        let decision = freehold_sim::decide(&scenario).expect("a decision");
        let advice = decision.advice.iter();
        locked += advice.filter(|advice| advice.choice == Some(Sharing::Spel)).count();
    }
    assert!(ran > 30 && locked > 5, "{ran} ran, {locked} regions locked");
}

#[test]
fn failing_stores_fail_alike_live_and_simulated() {
    for seed in 1..=40 {
        let mix = Mix {
            firm: seed % 2 == 0,
            unmanaged: seed % 3 == 0,
            unreserved: true,
            pinning: true,
            views: false,
            threads: true,
            delays: true,
            failures: true,
        };
        follows(&random_scenario(seed, mix), &format!("seed {seed}, {mix:?}"));
    }
}

/// Where pages go to changes no count: the simulator decides when requests end.
#[test]
fn other_stores_count_the_same_live_and_simulated() {
    let kinds = [StoreKind::File, StoreKind::Compressed];
    for (kind, file) in kinds
        .iter()
        .flat_map(|&kind| files("scenarios").into_iter().map(move |file| (kind, file)))
    {
        let store = format!("memory.swap.store={}", kind.name());
        let shorter = [store.clone(), "duration=500ms".to_owned()];
        let scenario = Scenario::load(&file, &shorter).or_else(|_| Scenario::load(&file, &[store]));
        let scenario = scenario.expect("a shipped scenario is correct");
        follows(&scenario, &format!("{}, {}", kind.name(), file.display()));
    }
    for (kind, seed) in kinds.iter().flat_map(|&kind| (1..=40).map(move |seed| (kind, seed))) {
        let mix = Mix {
            firm: seed % 2 == 0,
            unmanaged: seed % 3 == 0,
            unreserved: seed % 4 < 2,
            pinning: seed % 3 < 2,
            views: false,
            threads: true,
            delays: seed % 7 == 0,
            failures: seed % 5 == 0,
        };
        let mut scenario = random_scenario(seed, mix);
        scenario.store.kind = kind;
        scenario.store.directory = env!("CARGO_TARGET_TMPDIR").into();
        assert!(
            follows(&scenario, &format!("{}, seed {seed}, {mix:?}", kind.name())),
            "nothing was compared"
        );
    }
}
