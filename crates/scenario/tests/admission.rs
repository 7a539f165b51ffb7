//! CPU admission against a schedule played out nanosecond by nanosecond, and its messages.

use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::{ClassSpec, Pinning, Scenario, ScenarioSpec, TaskSpec};
use proptest::prelude::*;

/// Budget, deadline, period.
type Demand = (u64, u64, u64);

fn spec(cpus: u32, class: ClassSpec, demands: &[Demand]) -> ScenarioSpec {
    let mut spec = ScenarioSpec::new("s", Duration::from_millis(1), ByteLen::new(1 << 20));
    spec.cpus = cpus;
    for (number, (budget, deadline, period)) in demands.iter().enumerate() {
        let mut task = TaskSpec::new(format!("t{number}"));
        task.class = Some(class);
        task.budget = Some(Duration::new(*budget));
        task.deadline = Some(Duration::new(*deadline));
        task.period = Some(Duration::new(*period));
        spec.tasks.push(task);
    }
    spec
}

/// Whether all jobs released in step meet their deadlines over a hyperperiod of 2520.
fn plays_out(demands: &[Demand], edf: bool) -> bool {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|task| demands[*task].2);
    let mut left = vec![0_u64; demands.len()];
    let mut due = vec![0_u64; demands.len()];
    for now in 0..2520 {
        for (task, (budget, deadline, period)) in demands.iter().enumerate() {
            if left[task] > 0 && now >= due[task] {
                return false;
            }
            if now % period == 0 {
                (left[task], due[task]) = (*budget, now + deadline);
            }
        }
        let ready = order.iter().copied().filter(|task| left[*task] > 0);
        let next = if edf {
            ready.min_by_key(|task| due[*task])
        } else {
            ready.into_iter().next()
        };
        if let Some(task) = next {
            left[task] -= 1;
        }
    }
    left.iter().all(|left| *left == 0)
}

fn demands() -> impl Strategy<Value = Vec<Demand>> {
    let demand = (
        proptest::sample::select(vec![4_u64, 5, 6, 8, 9, 10, 12, 15, 20]),
        0_u64..100,
        0_u64..100,
    );
    let demand = demand.prop_map(|(period, deadline, budget)| {
        let deadline = period - deadline * period / 200;
        (1 + budget * deadline / 200, deadline, period)
    });
    proptest::collection::vec(demand, 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn one_cpu_is_exact(demands in demands()) {
        for (class, edf) in [(ClassSpec::Fifo(None), false), (ClassSpec::Deadline, true)] {
            let admitted = Scenario::try_from(spec(1, class, &demands));
            prop_assert_eq!(admitted.is_ok(), plays_out(&demands, edf), "{:?} {:?}", demands, admitted.err());
        }
    }
}

fn refused(spec: ScenarioSpec) -> String {
    Scenario::try_from(spec).expect_err("refused").to_string()
}

fn warnings(spec: ScenarioSpec) -> Vec<String> {
    Scenario::try_from(spec)
        .expect("admitted")
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn refusals_name_the_tasks_and_the_numbers() {
    let message = refused(spec(
        1,
        ClassSpec::Deadline,
        &[(6_000, 10_000, 10_000), (5_000, 10_000, 10_000)],
    ));
    assert!(message.contains("t0 6us/10us, t1 5us/10us use 110 %"), "{message}");
    let message = refused(spec(1, ClassSpec::Deadline, &[(5, 5, 10), (5, 6, 10)]));
    assert!(
        message.contains("within 6 ns t0 5ns/10ns within 5ns, t1 5ns/10ns within 6ns can demand more"),
        "{message}"
    );
    let message = refused(spec(1, ClassSpec::Fifo(None), &[(5, 10, 10), (6, 12, 12)]));
    assert!(
        message.contains("worst response of t1 6ns/12ns passes its deadline of 12ns under t0 5ns/10ns"),
        "{message}"
    );
    let message = refused(spec(2, ClassSpec::Deadline, &[(9, 10, 10), (9, 10, 10), (1, 10, 10)]));
    assert!(
        message.contains("total density of") && message.contains("Goossens"),
        "{message}"
    );
}

#[test]
fn exact_sums_pass() {
    assert!(Scenario::try_from(spec(1, ClassSpec::Deadline, &[(1, 3, 3), (1, 3, 3), (1, 3, 3)])).is_ok());
    assert!(Scenario::try_from(spec(2, ClassSpec::Deadline, &[(1, 3, 3), (2, 3, 3), (1, 3, 3)])).is_ok());
    assert!(Scenario::try_from(spec(4, ClassSpec::Deadline, &[(3, 3, 3)])).is_ok());
}

#[test]
fn partitions_are_tested_apart() {
    let mut partitioned = spec(2, ClassSpec::Deadline, &[(9, 10, 10), (9, 10, 10), (1, 10, 10)]);
    for (task, cpu) in partitioned.tasks.iter_mut().zip([0, 1, 1]) {
        task.cpus = Some(vec![cpu]);
    }
    assert!(Scenario::try_from(partitioned.clone()).is_ok());
    partitioned.tasks[0].cpus = Some(vec![1]);
    let message = refused(partitioned.clone());
    assert!(
        message.contains("on CPU 1: t0 9ns/10ns, t1 9ns/10ns, t2 1ns/10ns use 190 %"),
        "{message}"
    );
    partitioned.tasks[0].cpus = None;
    assert!(
        warnings(partitioned)
            .iter()
            .any(|warning| warning.contains("not proven"))
    );
}

#[test]
fn what_cannot_be_tested_is_a_warning() {
    let fifo = spec(2, ClassSpec::Fifo(None), &[(9, 10, 10), (9, 10, 10), (9, 10, 10)]);
    assert!(
        warnings(fifo)
            .iter()
            .any(|warning| warning.contains("fifo tasks t0, t1, t2 on 2 CPUs is not proven"))
    );
    let mut silent = spec(1, ClassSpec::Fifo(None), &[(9, 10, 10)]);
    silent.tasks[0].budget = None;
    assert!(
        warnings(silent)
            .iter()
            .any(|warning| warning.starts_with("task.t0.budget: declares no budget"))
    );
}

#[test]
fn deadline_tasks_run_above_fifo_tasks() {
    let mut mixed = spec(1, ClassSpec::Fifo(Some(99)), &[(2, 10, 10), (6, 10, 10)]);
    assert!(Scenario::try_from(mixed.clone()).is_ok());
    // Two jobs of t1, one at its deadline and one at its release, can come in a row.
    mixed.tasks[1].class = Some(ClassSpec::Deadline);
    assert!(refused(mixed).contains("worst response of t0"));
}

#[test]
fn a_cpu_full_to_the_brim_is_decided_quickly() {
    let year = 365 * 86_400 * 1_000_000_000;
    let full = [(1, 1, 1), (1, year, year)];
    assert!(Scenario::try_from(spec(1, ClassSpec::Fifo(None), &full)).is_err());
    assert!(Scenario::try_from(spec(1, ClassSpec::Deadline, &full)).is_err());
    let nearly = [
        (2, 3, 4),
        (1, 2, 3),
        (1, year - 1, year),
        (year / 8, year - 7, year - 5),
    ];
    let _ = Scenario::try_from(spec(1, ClassSpec::Deadline, &nearly));
}

/// The highest swap budgets of tasks that all have one.
fn swap_budgets(cpus: u32, demands: &[Demand]) -> Option<Vec<u64>> {
    let mut spec = spec(cpus, ClassSpec::Deadline, demands);
    for task in &mut spec.tasks {
        task.pinning = Some(Pinning::App);
    }
    let scenario = Scenario::try_from(spec).ok()?;
    let highest = |task: &freehold_scenario::Task| task.app.map_or(0, |app| app.highest_swap_budget.get());
    Some(scenario.tasks.iter().map(highest).collect())
}

#[test]
fn swap_budgets_share_what_is_left() {
    let alone = swap_budgets(1, &[(4_000_000, 10_000_000, 10_000_000)]).unwrap();
    assert_eq!(alone, [6_000_000]);
    // 0.4 + 0.2 leave 0.4 of the CPU: 0.2 for each.
    let two = swap_budgets(
        1,
        &[(4_000_000, 10_000_000, 10_000_000), (6_000_000, 30_000_000, 30_000_000)],
    )
    .unwrap();
    assert!((1_999_900..=2_000_000).contains(&two[0]), "{two:?}");
    assert!((5_999_900..=6_000_000).contains(&two[1]), "{two:?}");
    // A CPU that is full leaves nothing.
    assert_eq!(swap_budgets(1, &[(10, 20, 20), (10, 20, 20)]).unwrap(), [0, 0]);
}

#[test]
fn swap_budgets_are_nothing_where_admission_is_not_proven() {
    let mut spec = spec(2, ClassSpec::Deadline, &[(10, 100, 100), (10, 100, 100)]);
    spec.tasks[0].cpus = Some(vec![0]);
    spec.tasks[1].pinning = Some(Pinning::App);
    let scenario = Scenario::try_from(spec).unwrap();
    assert!(scenario.tasks[1].app.unwrap().highest_swap_budget.is_zero());
    assert!(scenario.warnings.iter().any(|warning| warning.key == "task.t1.pinning"));
}

proptest! {
    #[test]
    fn admission_passes_with_every_swap_budget_at_its_highest(demands in demands(), cpus in 1_u32..4) {
        // Nanoseconds are too coarse for shares.
        let coarse = |(b, d, p): &Demand| (b * 1_000_000, d * 1_000_000, p * 1_000_000);
        let demands: Vec<Demand> = demands.iter().map(coarse).collect();
        if let Some(highest) = swap_budgets(cpus, &demands) {
            let raised = |by: u64| -> Vec<Demand> {
                let pairs = demands.iter().zip(&highest);
                pairs.map(|((b, d, p), t)| (b + t + d * by / 1000, *d, *p)).collect()
            };
            let admitted = |demands: &[Demand]| Scenario::try_from(spec(cpus, ClassSpec::Deadline, demands)).is_ok();
            prop_assert!(admitted(&raised(0)), "{demands:?} {highest:?}");
            prop_assert!(!admitted(&raised(1)), "more would pass: {demands:?} {highest:?}");
        }
    }
}
