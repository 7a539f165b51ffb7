//! A run on a server equals the simulated one: every count, for every shipped scenario and for random ones.
//!
//! `FREEHOLD_LOCKSTEP` sets how many random scenarios (60 unless told), `FREEHOLD_SEED` the first seed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use freehold_command::run_server::RunServer;
use freehold_live::{LiveError, ServerError, run_in_lockstep_on_server};
use freehold_scenario::results::RunResult;
use freehold_scenario::{Class, Document, Scenario};
use freehold_sim::{Mix, device_scenario, random_scenario};

const PROGRAM: &str = env!("CARGO_BIN_EXE_freehold");

fn number(name: &str, default: u64) -> u64 {
    let told = std::env::var(name).ok().and_then(|text| text.parse().ok());
    told.unwrap_or(default)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What came of it, of a scenario that a server can run.
fn followed(scenario: &Scenario, what: &str) -> Option<RunResult> {
    // With tables for the scenario.
    let server = RunServer::of(scenario).driven().expect("the scenario is correct");
    match run_in_lockstep_on_server(scenario, &server, &AtomicBool::new(false)) {
        Ok(outcome) => {
            let violations = &outcome.result.laws.violations;
            assert!(violations.is_empty(), "{what}: {violations:#?}");
            assert_eq!(outcome.result.store.kind, scenario.store.kind.name(), "{what}");
            Some(outcome.result)
        }
        Err(
            LiveError::Restore(_)
            | LiveError::Components
            | LiveError::Faults
            | LiveError::FullStore
            | LiveError::Server(ServerError::WritesFile { .. }),
        ) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder of shipped scenarios");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// As a user has it done, through the command.
#[test]
fn shipped_scenarios_count_the_same_on_a_server_and_simulated() {
    let mut ran = 0;
    for file in files("scenarios").into_iter().chain(files("experiments")) {
        let mut command = Command::new(PROGRAM);
        command.args([
            "run",
            "--engine",
            "live",
            "--placement",
            "server",
            "--lockstep",
            "--json",
        ]);
        let output = command.arg(&file).output().expect("the command starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => ran += 1,
            Some(2) => assert!(
                errors.contains("copy-on-write views run in the simulator only"),
                "{errors}"
            ),
            code => panic!(
                "{}: {code:?}: {errors}{}",
                file.display(),
                String::from_utf8_lossy(&output.stdout)
            ),
        }
    }
    assert!(ran >= 12, "only {ran} shipped scenarios ran");
}

/// The models of paper 001, a little of each, with every policy.
#[test]
fn models_of_pinning_count_the_same_on_a_server_and_simulated() {
    for (model, pinning) in [("mplayer", "app"), ("opencv", "all"), ("shift", "app-no-budget")] {
        let file = root().join(format!("experiments/app/{model}.toml"));
        let mut document = Document::load(&file).expect("a shipped model is correct");
        let soft = document.scenario().expect("a shipped model is correct").tasks;
        for set in ["duration=2200ms", "memory.pool=160MiB"] {
            document.apply_set(set).expect("a key that there is");
        }
        for task in soft.iter().filter(|task| task.class == Class::Deadline) {
            let set = format!("task.{}.pinning={pinning}", task.name);
            document.apply_set(&set).expect("a key that there is");
            // Of the default preset pages are restored, which a server does not do in lockstep.
            if pinning != "all" {
                let set = format!("task.{}.app.preset=paper", task.name);
                document.apply_set(&set).expect("a key that there is");
            }
        }
        let scenario = document.scenario().expect("a correct scenario");
        let result = followed(&scenario, &format!("{model}, {pinning}")).expect("it ran");
        let pinned: u64 = result.tasks.iter().map(|task| task.pinned.pinned_pages).sum();
        assert!(pinning != "all" || pinned > 0, "{model}");
    }
}

/// Law 6 is watched by those who have the memory, and the frames that each opening gets are those of the simulator.
#[test]
fn device_memory_counts_the_same_on_a_server_and_simulated() {
    let (mut hits, mut discarded, mut opens) = (0, 0, 0);
    for seed in 1..=number("FREEHOLD_LOCKSTEP", 60).div_ceil(5) {
        let result = followed(&device_scenario(seed), &format!("devices, seed {seed}")).expect("it ran");
        let cache = result.victim_cache.expect("the server has device memory");
        (hits, discarded) = (hits + cache.hits, discarded + cache.discarded);
        opens += result.devices.iter().map(|device| device.opens).sum::<u64>();
    }
    assert!(
        hits > 100 && discarded > 100 && opens > 20,
        "{hits} {discarded} {opens}"
    );
}

#[test]
fn random_scenarios_count_the_same_on_a_server_and_simulated() {
    let wanted = number("FREEHOLD_LOCKSTEP", 60);
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
        let scenario = random_scenario(seed, mix);
        ran += u64::from(followed(&scenario, &format!("seed {seed}, {mix:?}")).is_some());
        seed += 1;
    }
    println!("{ran} of {} ran", seed - number("FREEHOLD_SEED", 1));
}
