//! Throughput of the simulator: runs of a shipped scenario. `cargo bench -p freehold-sim`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a measurement")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use freehold_scenario::Scenario;
use freehold_sim::{Options, simulate};

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/two-tasks-spc.toml");

fn references(criterion: &mut Criterion) {
    let scenario = Scenario::load::<&str>(SCENARIO.as_ref(), &[]).unwrap();
    // The laws are for tests: what is measured is the engine.
    let options = Options {
        check_every: Some(0),
        ..Options::default()
    };
    let jobs = |position: usize| scenario.duration.get() / scenario.tasks[position].period.unwrap().get();
    let made = |position: usize| scenario.tasks[position].accesses_per_job() * jobs(position);
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(20);
    group.throughput(Throughput::Elements((0..scenario.tasks.len()).map(made).sum()));
    group.bench_function("two-tasks-spc", |bencher| {
        bencher.iter(|| simulate(&scenario, &options).unwrap());
    });
    group.finish();
}

criterion_group!(benches, references);
criterion_main!(benches);
