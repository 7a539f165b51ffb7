//! Adaptive Page Pinning in the simulator: what each policy does for a task beside one that takes all memory.
#![allow(clippy::unwrap_used, reason = "where an unwrap fails, the test fails")]

use freehold_scenario::Scenario;

use freehold_scenario::recording::{Capacity, PinningSpan};
use freehold_scenario::results::TaskResult;
use freehold_sim::{Options, Outcome, simulate};

/// A pool of 256 pages, a real-time task of 100 and a hog of 400 that comes back to some of them most: slow enough for
/// pages to be seen used before they go, for only such become active. Waiting for the store takes no CPU.
const BASE: &str = r#"
name = "pinning"
duration = "2s"
[memory]
pool = "1MiB"
swap = { latency = "40us", wait = "sleep" }
[machine]
cpus = 2
[[region]]
name = "mine"
kind = "private"
size = "400KiB"
[[region]]
name = "theirs"
kind = "private"
size = "1600KiB"
[[task]]
name = "rt"
PINNING
class = "deadline"
period = "20ms"
budget = "BUDGET"
compute = "2ms"
cpus = [0]
[[task.access]]
region = "mine"
write = true
[[task]]
name = "hog"
compute = "30ms"
cpus = [1]
[[task.access]]
region = "theirs"
pattern = "zipf"
write = true
"#;

fn run(pinning: &str, budget: &str, latency: &str) -> (Outcome, Vec<PinningSpan>) {
    run_of(BASE, pinning, budget, latency)
}

fn run_of(base: &str, pinning: &str, budget: &str, latency: &str) -> (Outcome, Vec<PinningSpan>) {
    let text = base
        .replace("PINNING", pinning)
        .replace("BUDGET", budget)
        .replace("40us", latency);
    let scenario = Scenario::parse(&text, "pinning.toml").unwrap_or_else(|error| panic!("{error}"));
    let options = Options {
        recording: Some(Capacity::default()),
        ..Options::default()
    };
    let mut outcome = simulate(&scenario, &options).unwrap();
    assert!(outcome.laws_hold(), "{:?}", outcome.result.laws);
    let mut recording = outcome.recording.take().unwrap();
    (outcome, std::mem::take(&mut recording.tasks[0].pinning))
}

fn rt(outcome: &Outcome) -> &TaskResult {
    &outcome.result.tasks[0]
}

#[test]
fn judgements_without_room_are_counted() {
    let text = BASE.replace("PINNING", "pinning = \"app\"").replace("BUDGET", "5ms");
    let scenario = Scenario::parse(&text, "pinning.toml").unwrap();
    let judged = |per_task_jobs| {
        let room = Capacity {
            per_task_jobs,
            ..Capacity::default()
        };
        let options = Options {
            recording: Some(room),
            ..Options::default()
        };
        let recording = simulate(&scenario, &options).unwrap().recording.unwrap();
        let task = &recording.tasks[0];
        assert!(recording.lost >= task.pinning_lost);
        (task.pinning.clone(), task.pinning_lost)
    };
    let (all, none_lost) = judged(1000);
    assert_eq!((all.len(), none_lost), (100, 0));
    assert_eq!(judged(30), (all[..30].to_vec(), 70));
}

#[test]
fn without_pinning_the_hog_takes_the_pages_and_with_all_it_takes_none() {
    let (none, judged) = run("pinning = \"none\"", "5ms", "40us");
    assert!(judged.is_empty());
    assert!(rt(&none).faults.swap_ins > 100, "{}", rt(&none).faults.swap_ins);
    let (all, judged) = run("pinning = \"all\"", "5ms", "40us");
    assert_eq!((rt(&all).faults.swap_ins, rt(&all).pinned.pinned_pages), (0, 100));
    assert_eq!((judged.len(), rt(&all).pinned.capacity_pages), (100, None));
}

#[test]
fn every_job_is_judged_once_on_time_or_late() {
    // 100 swap-ins of 40 us and 2 ms: early jobs end in time with a budget of 5 ms, and none does with 2.1 ms.
    for (budget, missed) in [("5ms", false), ("2100us", true)] {
        let (outcome, judged) = run(
            "pinning = \"app-no-budget\"\napp = { preset = \"paper\", capacity = \"4KiB\" }",
            budget,
            "40us",
        );
        // A last one that does not end in the run is late without being judged.
        let unjudged = rt(&outcome).jobs - judged.len() as u64;
        assert!(unjudged <= u64::from(missed), "{budget}: {unjudged}");
        assert_eq!(judged.iter().any(|job| job.missed), missed, "{budget}");
        assert_eq!(rt(&outcome).misses > 0, missed);
        let most = judged.iter().map(|job| job.swap_ins).max().unwrap_or(0);
        assert_eq!(rt(&outcome).pinned.job_swap_ins_max, most);
        assert!(judged.iter().all(|job| job.running_ns <= 20_000_000));
    }
}

#[test]
fn misses_grow_the_pool_until_the_jobs_fit() {
    let (outcome, judged) = run(
        "pinning = \"app-no-budget\"\napp = { preset = \"paper\", capacity = \"4KiB\" }",
        "2200us",
        "40us",
    );
    let task = rt(&outcome);
    assert!(judged.iter().any(|job| job.missed && job.swap_ins > 0));
    let grown = judged.windows(2).filter(|pair| pair[1].capacity > pair[0].capacity);
    assert!(grown.count() > 0);
    let (none, _) = run("pinning = \"none\"", "2200us", "40us");
    assert!(
        task.misses < rt(&none).misses / 2,
        "{} of {}",
        task.misses,
        rt(&none).misses
    );
    assert!(
        task.pinned.pinned_pages_mean > 20.0,
        "{}",
        task.pinned.pinned_pages_mean
    );
}

#[test]
fn a_swap_budget_repays_what_swap_ins_take_and_stays_in_its_limit() {
    // A pool that cannot grow much by then: misses come from the budget.
    let app = |word: &str| {
        format!("pinning = \"{word}\"\napp = {{ preset = \"paper\", capacity = \"4KiB\", beta = 0.000001, alpha = 1 }}")
    };
    let (with, judged) = run(&app("app"), "2200us", "40us");
    let (without, _) = run(&app("app-no-budget"), "2200us", "40us");
    assert!(judged.iter().any(|job| job.swap_budget_ns > 0));
    assert!(
        rt(&with).misses < rt(&without).misses,
        "{} {}",
        rt(&with).misses,
        rt(&without).misses
    );
    assert!(judged.iter().all(|job| job.swap_budget_ns <= 20_000_000 - 2_200_000));
    assert_eq!(rt(&without).pinned.swap_budget_ns, 0);
}

#[test]
fn spinning_for_the_store_is_charged_and_sleeping_is_not() {
    let app = "pinning = \"app-no-budget\"\napp = { preset = \"paper\", capacity = \"4KiB\" }";
    let running = |wait: &str| {
        let text = BASE
            .replace("PINNING", app)
            .replace("BUDGET", "15ms")
            .replace("\"sleep\"", wait);
        let scenario = Scenario::parse(&text, "pinning.toml").unwrap();
        let options = Options {
            recording: Some(Capacity::default()),
            ..Options::default()
        };
        let recording = simulate(&scenario, &options).unwrap().recording.unwrap();
        // Swap-ins and what they cost on the CPU, all jobs together.
        let judged = &recording.tasks[0].pinning;
        let swap_ins: u64 = judged.iter().map(|job| job.swap_ins).sum();
        let time: u64 = judged.iter().map(|job| job.swap_time_ns).sum();
        assert!(swap_ins > 100, "{swap_ins}");
        time / swap_ins
    };
    let (slept, spun) = (running("\"sleep\""), running("\"spin\""));
    assert!(slept < 40_000, "{slept}");
    assert!(spun >= slept + 30_000, "{spun} {slept}");
}

#[test]
fn what_a_job_swapped_in_is_back_before_the_next() {
    let app = |restore: u32| {
        format!("pinning = \"app-no-budget\"\napp = {{ preset = \"paper\", capacity = \"4KiB\", restore = {restore} }}")
    };
    // A hog so fast that every page is gone by the next release.
    let base = BASE.replace("zipf", "sequential").replace("30ms", "4ms");
    let (with, _) = run_of(&base, &app(30), "5ms", "40us");
    let (without, _) = run_of(&base, &app(0), "5ms", "40us");
    assert_eq!(rt(&without).pinned.restored, 0);
    assert!(rt(&with).pinned.restored > 1000, "{}", rt(&with).pinned.restored);
    assert!(
        rt(&with).faults.swap_ins < rt(&without).faults.swap_ins,
        "{} {}",
        rt(&with).faults.swap_ins,
        rt(&without).faults.swap_ins
    );
    // Never more than the quota of each period.
    let (few, _) = run_of(&base, &app(3), "5ms", "40us");
    assert!(
        (1..=300).contains(&rt(&few).pinned.restored),
        "{}",
        rt(&few).pinned.restored
    );
}
