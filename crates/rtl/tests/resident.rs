//! A separate task has all its memory before its threads begin: its periodic path has no page fault of any kind.

mod common;

use std::fs;

use common::{World, eventually};
use freehold_rtl::load::Space;

/// Minor and major faults of a thread so far.
fn faults(process: u32, thread: u32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).expect("the thread lives");
    let rest = stat.rsplit(") ").next().expect("what follows the name");
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |field: usize| fields[field].parse().expect("a number");
    (number(7), number(9))
}

#[test]
fn a_separate_task_has_no_page_fault_while_another_process_takes_memory() {
    let Some(world) = World::new("resident") else { return };
    let object = world.compile("counter.c", "counter");
    world
        .insert(&object, Space::Separate, &[("period", "500000")])
        .expect("it loads");
    let periods = || world.module("counter").threads[0].periods;
    eventually("it runs", || periods() > 20);
    let module = world.module("counter");
    let (process, thread) = (module.pid, module.threads[0].thread);
    let before = faults(process, thread);
    let begun = periods();
    // A hog, which forks too.
    let hog: Vec<Vec<u8>> = (0..16).map(|index| vec![index; 16 << 20]).collect();
    let child = std::process::Command::new("true").status().expect("a program runs");
    assert!(child.success());
    eventually("it goes on", || periods() > begun + 400);
    assert_eq!(faults(process, thread), before);
    drop(hog);
}
