//! Threads that are deleted, cancelled or end, while they hold, wait for, or are about to wait for each kind of object.

mod common;

use common::{SPACES, World, eventually_within};
use freehold_rtl::load::{self, Space};
use std::time::Duration;

/// Lines that `endings.c` prints before `done`.
const LINES: usize = 4 * 4 + 2 * 3 * 3 + 4 * 2 + 1;

#[test]
fn what_a_thread_held_or_waited_for_when_it_ended_is_the_others() {
    let Some(mut world) = World::new("endings") else { return };
    world.start_host();
    for space in SPACES {
        let name = match space {
            Space::Shared => "endings_shared",
            Space::Separate => "endings_separate",
        };
        let object = world.compile("endings.c", name);
        world.insert(&object, space, &[]).expect("it loads");
        let mut lines = 0;
        while !world.printed(name).ends_with("done\n") {
            // Each line is progress, however slow the machine is.
            let printed = || world.printed(name).lines().count() > lines;
            eventually_within(Duration::from_secs(120), &format!("line {lines}"), printed);
            lines = world.printed(name).lines().count();
        }
        let said = world.printed(name);
        println!("{said}");
        let right = said.lines().filter(|line| line.ends_with(": right")).count();
        assert_eq!(right, LINES, "{said}");
        load::remove(&world.directory, name, false).expect("every thread ends");
    }
}
