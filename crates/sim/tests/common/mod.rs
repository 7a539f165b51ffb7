//! What several tests share.
#![allow(dead_code, reason = "each test uses a part of it")]

use freehold_core::units::{ByteLen, Duration, PAGE_SIZE};
use freehold_scenario::{
    AccessSpec, ClassSpec, Pattern, RegionSpec, ReservationSpec, Scenario, ScenarioSpec, TaskSpec,
};
use freehold_sim::{Activity, Options, Outcome, simulate};

/// A scenario of `ms` milliseconds whose pool has `frames` frames.
pub(crate) fn spec(ms: u64, frames: u64) -> ScenarioSpec {
    ScenarioSpec::new("test", Duration::from_millis(ms), pages(frames))
}

pub(crate) fn pages(count: u64) -> ByteLen {
    ByteLen::new(count * PAGE_SIZE)
}

pub(crate) fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

/// A task that only computes.
pub(crate) fn computing(name: &str, class: ClassSpec, compute: u64, period: Option<u64>) -> TaskSpec {
    let mut task = TaskSpec::new(name);
    task.class = Some(class);
    task.compute = ms(compute);
    task.period = period.map(ms);
    task
}

/// A deadline task that only computes.
pub(crate) fn served(name: &str, compute: u64, budget: u64, period: u64) -> TaskSpec {
    let mut task = computing(name, ClassSpec::Deadline, compute, Some(period));
    task.budget = Some(ms(budget));
    task
}

/// Adds a region of so many pages.
pub(crate) fn region(spec: &mut ScenarioSpec, name: &str, size: u64) {
    spec.regions.push(RegionSpec::new(name, pages(size)));
}

/// Adds a hard reservation of so many frames.
pub(crate) fn reservation(spec: &mut ScenarioSpec, name: &str, frames: u64) {
    spec.reservations.push(ReservationSpec::new(name, pages(frames)));
}

/// A fifo task of a reservation that touches all of a region in order, every `period` ms.
pub(crate) fn walking(name: &str, reservation: &str, region: &str, period: u64, write: bool) -> TaskSpec {
    let mut task = TaskSpec::new(name);
    task.reservation = Some(reservation.to_owned());
    task.period = Some(ms(period));
    let mut access = AccessSpec::new(region, Pattern::Sequential);
    access.write = write;
    task.accesses.push(access);
    task
}

pub(crate) fn checked(spec: ScenarioSpec) -> Scenario {
    Scenario::try_from(spec).expect("a valid scenario")
}

/// Runs with everything recorded and checked; all laws must hold.
pub(crate) fn run(spec: ScenarioSpec) -> Outcome {
    let scenario = checked(spec);
    let options = Options {
        history: true,
        schedule: true,
        sequences: true,
        recording: None,
        check_every: Some(1),
        copies_at_once: false,
        only: None,
    };
    let outcome = simulate(&scenario, &options).expect("a scenario that can be run");
    assert!(outcome.laws_hold(), "{:#?}", outcome.result.laws);
    outcome
}

/// When a task ran, in milliseconds, neighbouring intervals joined.
pub(crate) fn ran(outcome: &Outcome, task: usize) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for interval in &outcome.history[task] {
        if !matches!(interval.activity, Activity::Running { .. } | Activity::Spinning { .. }) {
            continue;
        }
        let (from, to) = (interval.from.get(), interval.to.get());
        assert!(
            from % 1_000_000 == 0 && to % 1_000_000 == 0,
            "not at a millisecond: {interval:?}"
        );
        match found.last_mut() {
            Some(last) if last.1 == from / 1_000_000 => last.1 = to / 1_000_000,
            _ => found.push((from / 1_000_000, to / 1_000_000)),
        }
    }
    found
}
