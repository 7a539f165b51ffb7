//! The memory of a process that ends is not freed by its real-time threads: a helper holds it until they are gone.

mod common;
#[path = "../../linux/tests/common/memory_helper.rs"]
mod memory_helper;

use common::World;
use freehold_rtl::load::{self, Space};
use memory_helper::Helper;
use rustix::process::Signal;

#[test]
fn what_a_killed_host_held_is_freed_when_its_threads_are_gone_and_delays_no_new_host() {
    let Some(mut world) = World::new("host-memory") else {
        return;
    };
    let host = world.start_host();
    let object = world.compile("counter.c", "held");
    world
        .insert(&object, Space::Shared, &[("fifo", "1")])
        .expect("it loads");
    let helper = Helper::of(host);
    assert_eq!(helper.descriptors(), 1, "it holds nothing of the host's but the host");
    assert_eq!(helper.policy(), 0);
    // A terminal's signals are for the host.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        helper.send(signal);
    }
    helper.stop();
    let before = helper.resident();
    assert!(before > 1024, "{before} KiB");

    // The host has ended, whole: it was waited for. Its memory is there.
    world.kill_host();
    assert_eq!(helper.resident(), before);
    // Nothing that the host owned is: another takes its place.
    let second = world.start_host();
    assert_ne!(second, host);
    assert_eq!(helper.resident(), before);

    helper.let_end();
    assert!(!Helper::of(second).has_ended());
}

#[test]
fn a_separate_task_leaves_its_memory_to_a_helper_too_and_no_process_behind() {
    let Some(world) = World::new("task-memory") else { return };
    let object = world.compile("counter.c", "alone");
    world
        .insert(&object, Space::Separate, &[("fifo", "1")])
        .expect("it loads");
    let helper = Helper::of(world.module("alone").pid);
    assert!(!helper.has_ended());
    load::remove(&world.directory, "alone", true).expect("it is killed");
    helper.wait_for_end();
}
