//! Adaptive Page Pinning on real pages, by the clock.

use std::sync::atomic::AtomicBool;

use freehold_live::{LiveError, Options, Outcome, run_in_lockstep, run_with};
use freehold_scenario::recording::{Capacity, PinningSpan};
use freehold_scenario::{Document, Scenario};

/// A task with a small set of pages beside one that goes through more than there is.
fn scenario(task: &str, set: &[&str]) -> Scenario {
    let text = format!(
        r#"
name = "beside-a-hog"
duration = "1200ms"
machine.cpus = 2
memory.pool = "2MiB"
memory.swap = {{ store = "memory", latency = "20us" }}

[[region]]
name = "own"
size = "640KiB"
sharing = "none"

[[region]]
name = "much"
size = "4MiB"
sharing = "none"

[[task]]
name = "soft"
{task}
[[task.access]]
region = "own"
write = true

[[task]]
name = "hog"
class = "best-effort"
cpus = [1]
[[task.access]]
region = "much"
pattern = "random"
amount = "512KiB"
write = true
"#
    );
    let mut document = Document::parse(&text, "beside-a-hog.toml").expect("a correct document");
    for set in set {
        document.apply_set(set).expect("a key that there is");
    }
    document.scenario().expect("a correct scenario")
}

const FIFO: &str = "class = \"fifo\"\npriority = 5\ncpus = [0]\nperiod = \"20ms\"\nbudget = \"8ms\"\n";
const DEADLINE: &str = "class = \"deadline\"\nperiod = \"20ms\"\nbudget = \"8ms\"\n";

/// Runs it and checks what holds of every run; `None` where the right to the class is missing.
fn ran(scenario: &Scenario) -> Option<Outcome> {
    let options = Options {
        recording: Some(Capacity::default()),
    };
    match run_with(scenario, &options, &AtomicBool::new(false)) {
        Ok(outcome) => {
            let laws = &outcome.result.laws;
            assert!(laws.violations.is_empty(), "{:#?}", laws.violations);
            let memory = outcome.result.memory;
            assert_eq!(memory.used, memory.resident_measured);
            Some(outcome)
        }
        Err(LiveError::Class { reason, .. }) => {
            println!("NOT CHECKED: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn judgements(outcome: &Outcome) -> &[PinningSpan] {
    let recording = outcome.recording.as_ref().expect("asked for");
    assert!(recording.tasks[1].pinning.is_empty(), "the hog has no pool");
    &recording.tasks[0].pinning
}

#[test]
fn what_is_pinned_stays_on_real_pages() {
    let scenario = scenario(&format!("{FIFO}pinning = \"all\""), &[]);
    let Some(outcome) = ran(&scenario) else { return };
    let (task, hog) = (&outcome.result.tasks[0], &outcome.result.tasks[1]);
    assert_eq!(
        (task.faults.swap_ins, task.faults.evictions, task.pinned.pinned_pages),
        (0, 0, 160)
    );
    assert_eq!(
        (
            task.faults.zero_fills,
            task.pinned.capacity_pages,
            task.pinned.swap_budget_ns
        ),
        (160, None, 0)
    );
    assert!(hog.faults.swap_ins > 0, "it had too little");
    assert_eq!(judgements(&outcome).len() as u64, task.jobs, "one report for each job");
}

#[test]
fn a_pool_adapts_with_every_class() {
    let kinds = [(FIFO, "app-no-budget"), (DEADLINE, "app-no-budget"), (DEADLINE, "app")];
    for (class, pinning) in kinds {
        let task = format!("{class}pinning = \"{pinning}\"\napp.preset = \"paper\"\napp.capacity = \"64KiB\"");
        let Some(outcome) = ran(&scenario(&task, &[])) else {
            return;
        };
        let task = &outcome.result.tasks[0];
        let judged = judgements(&outcome);
        let last = judged.last().expect("jobs were judged");
        assert!(
            judged.len() as u64 <= task.jobs && judged.len() as u64 + 5 >= task.jobs,
            "{task:#?}"
        );
        assert!(task.pinned.pinned_pages <= task.pinned.capacity_pages.expect("it adapts").max(last.pinned));
        let swap_ins: u64 = judged.iter().map(|judged| judged.swap_ins).sum();
        assert!(swap_ins <= task.faults.swap_ins, "no swap-in counts twice");
        assert!(pinning == "app" || task.pinned.swap_budget_ns == 0);
        for pair in judged.windows(2) {
            assert!(pair[1].at_ns >= pair[0].at_ns);
            assert!(!pair[1].missed || pair[1].delay_ns >= pair[1].memory_delay_ns);
        }
    }
}

/// Between jobs pages come back that the last jobs needed; by the clock, and in the simulator's order.
#[test]
fn pages_are_restored_before_the_next_release() {
    let task = format!(
        "{DEADLINE}pinning = \"app-no-budget\"\napp.preset = \"paper\"\napp.capacity = \"4KiB\"\napp.restore = 40"
    );
    // Once in a while, so that the set is gone by the next job; pages are spared for the hog, which is quick.
    let scenario = scenario(&task, &["task.soft.period=60ms", "task.soft.app.beta=0.000001"]);
    let lockstep = run_in_lockstep(&scenario, &AtomicBool::new(false)).expect("lockstep");
    assert!(
        lockstep.result.laws.violations.is_empty(),
        "{:#?}",
        lockstep.result.laws
    );
    let restored = lockstep.result.tasks[0].pinned.restored;
    assert!(restored > 0, "{:#?}", lockstep.result.tasks[0]);
    let Some(outcome) = ran(&scenario) else { return };
    let task = &outcome.result.tasks[0];
    println!("{} restored by the clock, {restored} in lockstep", task.pinned.restored);
    assert!(task.pinned.restored > 0, "{task:#?}");
    assert!(
        task.pinned.restored <= 40 * (task.jobs + 1),
        "no more than the quota: {task:#?}"
    );
}

/// A job takes two and a half periods: others are released behind it.
#[test]
fn a_period_that_ends_without_its_job_is_reported_once_as_missed() {
    let scenario = scenario(
        &format!("{FIFO}compute = \"50ms\"\npinning = \"app-no-budget\""),
        &["duration=1s"],
    );
    let Some(outcome) = ran(&scenario) else { return };
    let judged = judgements(&outcome);
    // 50 releases; nothing ends the last period. Reports at the ends of jobs besides would be 20 more.
    assert!((40..=49).contains(&judged.len()), "{} reports", judged.len());
    assert!(judged.iter().all(|judged| judged.missed));
    // CPU time is told once: all together is no more than the run.
    let running: u64 = judged.iter().map(|judged| judged.running_ns).sum();
    assert!((1..=1_100_000_000).contains(&running), "{running} ns");
}

/// The budget follows Algorithm 3 and the kernel takes it, or says why not.
#[test]
fn budgets_of_the_deadline_class_are_given_to_the_kernel() {
    let task =
        format!("{DEADLINE}compute = \"9ms\"\npinning = \"app\"\napp.preset = \"paper\"\napp.capacity = \"4KiB\"");
    let Some(outcome) = ran(&scenario(&task, &[])) else {
        return;
    };
    let judged = judgements(&outcome);
    let raised = judged.iter().filter(|judged| judged.swap_budget_ns > 0).count();
    println!("{raised} of {} jobs left a swap budget", judged.len());
    let refused = outcome
        .result
        .warnings
        .iter()
        .find(|line| line.contains("changes of its budget"));
    assert_eq!(refused, None);
}

#[test]
fn a_budget_below_the_tick_is_refused_by_name() {
    let task = "class = \"deadline\"\nperiod = \"20ms\"\nbudget = \"200us\"\npinning = \"app\"";
    let error = run_with(&scenario(task, &[]), &Options::default(), &AtomicBool::new(false)).expect_err("too small");
    assert!(
        matches!(&error, LiveError::Budget { task, .. } if task == "soft"),
        "{error}"
    );
    assert!(error.is_of_the_scenario());
    assert!(error.to_string().contains("tick"), "{error}");
}
