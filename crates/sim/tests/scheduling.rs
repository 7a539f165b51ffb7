//! Schedules worked out by hand. Times are milliseconds.

mod common;

use common::{checked, computing, ms, ran, region, reservation, run, served, spec, walking};
use freehold_core::units::Duration;
use freehold_scenario::ClassSpec::{BestEffort, Deadline, Fifo};
use freehold_scenario::results::Reason;
use freehold_sim::{Activity, Options, simulate};

#[test]
fn rate_monotonic() {
    let mut spec = spec(12, 1);
    for (name, compute, period) in [("fast", 1, 4), ("middle", 2, 6), ("slow", 3, 12)] {
        spec.tasks.push(computing(name, Fifo(None), compute, Some(period)));
    }
    let outcome = run(spec);
    assert_eq!(ran(&outcome, 0), [(0, 1), (4, 5), (8, 9)]);
    assert_eq!(ran(&outcome, 1), [(1, 3), (6, 8)]);
    assert_eq!(ran(&outcome, 2), [(3, 4), (5, 6), (9, 10)]);
    let responses: Vec<u64> = outcome.result.tasks.iter().map(|task| task.response_ns.max).collect();
    assert_eq!(responses, [1_000_000, 3_000_000, 10_000_000]);
    assert!(outcome.result.tasks.iter().all(|task| task.misses == 0));
}

#[test]
fn equals_are_served_first_come_first_served_and_ties_by_position() {
    let mut spec = spec(20, 1);
    for (name, phase) in [("b", 1), ("a", 0), ("c", 1)] {
        let mut task = computing(name, Fifo(Some(5)), 2, Some(20));
        task.phase = ms(phase);
        spec.tasks.push(task);
    }
    let outcome = run(spec);
    assert_eq!(
        [ran(&outcome, 0), ran(&outcome, 1), ran(&outcome, 2)],
        [[(2, 4)], [(0, 2)], [(4, 6)]]
    );
}

#[test]
fn earliest_deadline_first() {
    let mut spec = spec(14, 1);
    spec.tasks.push(served("a", 2, 2, 5));
    spec.tasks.push(served("b", 4, 4, 7));
    let outcome = run(spec);
    // At 5 b goes on, its deadline 7 before 10; at 10 it goes on, 14 before 15.
    assert_eq!(ran(&outcome, 0), [(0, 2), (6, 8), (12, 14)]);
    assert_eq!(ran(&outcome, 1), [(2, 6), (8, 12)]);
    assert!(outcome.result.tasks.iter().all(|task| task.misses == 0));
}

#[test]
fn a_server_throttles_its_task_until_the_next_period() {
    let mut spec = spec(30, 1);
    spec.tasks.push(served("greedy", 5, 2, 10));
    spec.tasks.push(computing("rest", BestEffort, 100, None));
    let outcome = run(spec);
    assert_eq!(ran(&outcome, 0), [(0, 2), (10, 12), (20, 22)]);
    assert_eq!(ran(&outcome, 1), [(2, 10), (12, 20), (22, 30)]);
    // The first job ends at 21; the second, released at 10, goes on at once with what is left of the budget.
    let greedy = &outcome.result.tasks[0];
    assert_eq!(
        (greedy.jobs, greedy.misses, greedy.max_tardiness_ns),
        (3, 3, 11_000_000)
    );
}

#[test]
fn deadline_above_fifo_above_best_effort() {
    let mut spec = spec(10, 1);
    spec.tasks.push(computing("best", BestEffort, 1, None));
    spec.tasks.push(computing("fifo", Fifo(Some(99)), 3, Some(10)));
    let mut deadline = served("deadline", 2, 2, 10);
    deadline.phase = ms(1);
    spec.tasks.push(deadline);
    let outcome = run(spec);
    assert_eq!(ran(&outcome, 2), [(1, 3)]);
    assert_eq!(ran(&outcome, 1), [(0, 1), (3, 5)]);
    assert_eq!(ran(&outcome, 0), [(5, 10)]);
    assert_eq!(outcome.result.tasks[0].jobs, 5);
}

#[test]
fn best_effort_tasks_take_turns() {
    let mut spec = spec(24, 1);
    spec.tasks.push(computing("a", BestEffort, 10, Some(24)));
    spec.tasks.push(computing("b", BestEffort, 10, Some(24)));
    let mut urgent = computing("urgent", Fifo(None), 1, Some(24));
    urgent.phase = ms(6);
    spec.tasks.push(urgent);
    let outcome = run(spec);
    // b is preempted in the middle of its turn, and goes on with the rest of it.
    assert_eq!(ran(&outcome, 2), [(6, 7)]);
    assert_eq!(ran(&outcome, 0), [(0, 4), (9, 13), (17, 19)]);
    assert_eq!(ran(&outcome, 1), [(4, 6), (7, 9), (13, 17), (19, 21)]);
}

#[test]
fn two_cpus_are_given_to_the_two_first() {
    let mut spec = spec(10, 1);
    spec.cpus = 2;
    for (priority, compute) in [(1, 4), (3, 3), (2, 5)] {
        spec.tasks.push(computing(
            &format!("p{priority}"),
            Fifo(Some(priority)),
            compute,
            Some(10),
        ));
    }
    let outcome = run(spec);
    assert_eq!(
        [ran(&outcome, 0), ran(&outcome, 1), ran(&outcome, 2)],
        [[(3, 7)], [(0, 3)], [(0, 5)]]
    );
    let cpu = |task: usize| {
        outcome.history[task]
            .iter()
            .find_map(|interval| match interval.activity {
                Activity::Running { cpu } => Some(cpu),
                _ => None,
            })
    };
    assert_eq!([cpu(0), cpu(1), cpu(2)], [Some(0), Some(0), Some(1)]);
}

#[test]
fn affinity_is_kept() {
    let mut spec = spec(10, 1);
    spec.cpus = 2;
    for name in ["first", "second"] {
        let mut task = computing(name, Fifo(None), 3, Some(10));
        task.cpus = Some(vec![1]);
        spec.tasks.push(task);
    }
    let outcome = run(spec);
    assert_eq!([ran(&outcome, 0), ran(&outcome, 1)], [[(0, 3)], [(3, 6)]]);
}

#[test]
fn start_stop_and_phase() {
    let mut spec = spec(50, 1);
    let mut task = computing("guest", Fifo(None), 1, Some(10));
    (task.start, task.stop, task.phase) = (ms(12), Some(ms(33)), ms(1));
    spec.tasks.push(task);
    let outcome = run(spec);
    // Released at 13 and 23; not at 33.
    assert_eq!(ran(&outcome, 0), [(13, 14), (23, 24)]);
    assert_eq!(outcome.result.tasks[0].jobs, 2);
}

#[test]
fn a_late_job_delays_the_next_and_each_late_job_is_one_miss() {
    let mut spec = spec(25, 1);
    spec.tasks.push(computing("late", Fifo(None), 15, Some(10)));
    let outcome = run(spec);
    let late = &outcome.result.tasks[0];
    // Released at 0, ended at 15; released at 10, unfinished at 25 and past 20; the one released at 20 has until 30.
    assert_eq!((late.jobs, late.misses, late.late.late_jobs_total), (2, 2, 2));
    assert_eq!(late.max_tardiness_ns, 5_000_000);
    assert_eq!(late.response_ns.max, 15_000_000);
    assert_eq!(late.late.late_jobs[0].reason, Reason::OwnComputation);
}

#[test]
fn a_job_that_ends_at_its_deadline_is_in_time() {
    let mut spec = spec(20, 1);
    spec.tasks.push(computing("exact", Fifo(None), 10, Some(10)));
    let outcome = run(spec);
    assert_eq!((outcome.result.tasks[0].jobs, outcome.result.tasks[0].misses), (2, 0));
}

#[test]
fn a_job_that_can_only_be_late_is_a_miss_at_the_end() {
    let mut spec = spec(10, 1);
    spec.tasks.push(computing("long", Fifo(None), 11, Some(10)));
    let outcome = run(spec);
    assert_eq!((outcome.result.tasks[0].jobs, outcome.result.tasks[0].misses), (1, 1));
}

/// A task that needs 8 pages of the store per job, each read of which takes 1 ms, and one below it.
fn swapping(latency: Duration) -> freehold_scenario::ScenarioSpec {
    let mut spec = spec(200, 64);
    spec.memory.latency = latency;
    (spec.costs.access, spec.costs.soft_fault) = (ms(1), ms(1));
    (spec.costs.zero_fill, spec.costs.swap_in, spec.costs.eviction) = (ms(1), ms(1), ms(1));
    region(&mut spec, "data", 8);
    reservation(&mut spec, "small", 4);
    spec.tasks.push(walking("swapper", "small", "data", 100, true));
    spec.tasks.push(computing("below", BestEffort, 1000, None));
    spec
}

#[test]
fn a_task_suspends_itself_for_a_slow_store() {
    let outcome = run(swapping(ms(1)));
    let swapper = &outcome.result.tasks[0];
    assert_eq!(
        (
            swapper.faults.zero_fills,
            swapper.faults.swap_ins,
            swapper.faults.evictions
        ),
        (8, 8, 12)
    );
    // Four write-backs in the first job, 8 write-backs and 8 reads in the second.
    assert_eq!(swapper.times.store_wait_ns, 20_000_000);
    // 16 accesses, 16 faults, 12 evictions.
    assert_eq!(
        (swapper.times.cpu_ns, swapper.times.fault_service_ns),
        (44_000_000, 28_000_000)
    );
    assert_eq!(swapper.waits.cpu_wait_ns, 0);
    assert_eq!(swapper.response_ns.max, 40_000_000);
    // What the swapper leaves is the other's.
    assert_eq!(outcome.result.tasks[1].times.cpu_ns, 200_000_000 - 44_000_000);
    assert!(
        outcome.history[0]
            .iter()
            .any(|interval| interval.activity == Activity::Suspended)
    );
}

#[test]
fn a_task_spins_for_a_fast_store() {
    let outcome = run(swapping(Duration::from_micros(40)));
    let swapper = &outcome.result.tasks[0];
    assert_eq!(
        (
            swapper.faults.zero_fills,
            swapper.faults.swap_ins,
            swapper.faults.evictions
        ),
        (8, 8, 12)
    );
    assert_eq!(swapper.times.store_wait_ns, 20 * 40_000);
    assert_eq!(swapper.times.cpu_ns, 44_000_000 + 20 * 40_000);
    assert_eq!(outcome.result.tasks[1].times.cpu_ns, 200_000_000 - 44_800_000);
    assert!(
        outcome.history[0]
            .iter()
            .all(|interval| interval.activity != Activity::Suspended)
    );
}

#[test]
fn a_response_is_split_without_remainder() {
    let mut spec = swapping(ms(1));
    spec.tasks[0].deadline = Some(ms(5));
    let mut above = computing("above", Fifo(Some(99)), 7, Some(50));
    above.phase = ms(2);
    spec.tasks.push(above);
    let outcome = run(spec);
    let swapper = &outcome.result.tasks[0];
    assert_eq!(swapper.misses, 2);
    for job in &swapper.late.late_jobs {
        let delays = &job.delays;
        assert_eq!(delays.own_computation_ns(job.response_ns), 8_000_000, "{job:?}");
        assert!(delays.cpu_wait_ns > 0 && delays.cpu_wait_ns <= 7_000_000, "{job:?}");
    }
    assert_eq!(
        swapper.late.late_jobs[1].delays.store_wait_ns + swapper.late.late_jobs[0].delays.store_wait_ns,
        { swapper.times.store_wait_ns }
    );
}

#[test]
fn options_change_nothing() {
    let scenario = checked(swapping(ms(1)));
    let plain = simulate(&scenario, &Options::default()).unwrap();
    let outcome = run(swapping(ms(1)));
    assert_eq!(plain.result.tasks, outcome.result.tasks);
    assert_eq!(plain.result.reservations, outcome.result.reservations);
    assert!(plain.history.is_empty() && plain.schedule.is_none() && plain.sequences.is_empty());
}

#[test]
fn a_deadline_task_may_be_late_by_its_budget_alone() {
    // Ready all the time, but throttled: that is CPU wait.
    let mut spec = spec(20, 1);
    let mut task = computing("throttled", Deadline, 3, Some(10));
    task.budget = Some(ms(2));
    spec.tasks.push(task);
    let outcome = run(spec);
    let job = outcome.result.tasks[0].late.late_jobs[0];
    assert_eq!(
        (job.response_ns, job.delays.cpu_wait_ns, job.reason),
        (11_000_000, 8_000_000, Reason::CpuWait)
    );
}

#[test]
fn a_deadline_before_the_period_holds_up_no_first_job() {
    let mut spec = spec(20, 1);
    let mut task = served("a", 2, 2, 10);
    task.deadline = Some(ms(8));
    spec.tasks.push(task);
    let outcome = run(spec);
    assert_eq!(ran(&outcome, 0), [(0, 2), (10, 12)]);
    assert_eq!(outcome.result.tasks[0].misses, 0);
}
