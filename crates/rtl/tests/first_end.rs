//! The main path with real processes: a program in both spaces, its FIFO read by `cat`, the time-sharing side killed
//! and started again while the separate task goes on.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{World, eventually};
use freehold_rtl::load::{self, Space};

/// `cat` on a FIFO, and the first so many lines that it prints.
fn cat(fifo: &Path, lines: usize) -> Vec<u64> {
    let mut cat: Child = Command::new("cat")
        .arg(fifo)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat starts");
    let output = BufReader::new(cat.stdout.take().expect("its output"));
    let numbers = output
        .lines()
        .take(lines)
        .map(|line| line.expect("text").parse().expect("a number"));
    let numbers: Vec<u64> = numbers.collect();
    cat.kill().expect("cat is there");
    cat.wait().expect("cat ends");
    numbers
}

/// Every number is one more than the one before.
fn assert_no_gap(numbers: &[u64]) {
    assert!(!numbers.is_empty(), "nothing was read");
    let steps = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1);
    assert_eq!(steps.count(), 0, "{numbers:?}");
}

#[test]
fn a_program_runs_in_both_spaces_and_the_separate_one_outlives_the_host() {
    let Some(mut world) = World::new("first-end") else {
        return;
    };
    world.start_host();
    let Some(files) = world.mount() else { return };
    let shared = world.compile("counter.c", "counter_shared");
    let separate = world.compile("counter.c", "counter_separate");
    world
        .insert(&shared, Space::Shared, &[("fifo", "1")])
        .expect("it loads");
    world
        .insert(&separate, Space::Separate, &[("fifo", "2")])
        .expect("it loads");

    for (fifo, name, space) in [
        ("rtf1", "counter_shared", "shared"),
        ("rtf2", "counter_separate", "separate"),
    ] {
        assert_no_gap(&cat(&files.join(fifo), 20));
        eventually("it prints", || world.printed(name) == "counted to 5\n");
        let module = world.module(name);
        assert_eq!(module.space, space);
        assert_eq!(module.threads.len(), 1);
        assert_eq!(
            (module.threads[0].priority, module.threads[0].period_ns),
            (10, 2_000_000)
        );
        assert_eq!(module.fifos.len(), 1);
    }

    let before = world.module("counter_separate");
    world.kill_host();
    assert!(
        !freehold_rtl::list::modules(&world.directory)
            .iter()
            .any(|module| module.name == "counter_shared")
    );
    let killed = world.module("counter_separate").threads[0].periods;
    eventually("the task goes on", || {
        world.module("counter_separate").threads[0].periods > killed + 50
    });

    world.start_host();
    let numbers = cat(&files.join("rtf2"), 40);
    assert_no_gap(&numbers);
    let after = world.module("counter_separate");
    assert_eq!(after.pid, before.pid);
    assert_eq!(after.fifos[0].corrupt_claims, 0);

    load::remove(&world.directory, "counter_separate", false).expect("it ends");
    assert!(freehold_rtl::list::modules(&world.directory).is_empty());
}
