//! A server in the process of its run leaves nothing there when the run is over.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_command::run_server::RunServer;
use freehold_live::run_in_lockstep_on_server;
use freehold_sim::device_scenario;

/// Threads that close what clients had lent wait so long for more, and a little.
const PATIENCE: Duration = Duration::from_secs(20);

/// Descriptors, threads, and mappings of memory objects of this process.
fn belongings() -> [usize; 3] {
    let entries = |folder: &str| std::fs::read_dir(folder).expect("of this process").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("of this process");
    let objects = maps.lines().filter(|line| line.contains("memfd:")).count();
    [entries("/proc/self/fd"), entries("/proc/self/task"), objects]
}

fn run(seed: u64) {
    let scenario = device_scenario(seed);
    let server = RunServer::of(&scenario).driven().expect("the scenario is correct");
    let outcome = run_in_lockstep_on_server(&scenario, &server, &AtomicBool::new(false)).expect("it runs");
    assert!(outcome.result.laws.violations.is_empty(), "{:#?}", outcome.result.laws);
}

/// Of a scenario with devices: their server and the victim cache's threads end too.
#[test]
fn runs_leave_no_descriptor_no_thread_and_no_memory() {
    run(1);
    // What is made once for all is there now.
    let until = Instant::now() + PATIENCE;
    let mut before = belongings();
    while before[1] > 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        before = belongings();
    }
    run(1);
    run(2);
    let until = Instant::now() + PATIENCE;
    let mut after = belongings();
    while after != before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        after = belongings();
    }
    assert_eq!(after, before, "descriptors, threads, mappings of memory objects");
    assert!(before[1] <= 2, "the test's two threads only: {before:?}");
}
