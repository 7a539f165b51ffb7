//! The memory of a process that ends is not freed by its real-time threads: a helper holds it until they are gone.

mod common;

use std::fs;

use common::{World, eventually};
use freehold_rtl::load::{self, Space};

/// A process's helper.
struct Helper(u32);

impl Helper {
    fn of(process: u32) -> Self {
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let mut numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
        let own = numbers.find(|number| {
            let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
            field(&status, "Name:") == Some("freehold-memory")
                && field(&status, "PPid:") == Some(process.to_string().as_str())
        });
        Self(own.unwrap_or_else(|| panic!("process {process} has no helper")))
    }

    fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        field(&status, name).unwrap_or_default().to_owned()
    }

    /// What it holds of memory, in KiB.
    fn resident(&self) -> u64 {
        let text = self.status("VmRSS:");
        text.trim_end_matches(" kB").parse().unwrap_or(0)
    }

    fn send(&self, signal: i32) {
        let process = i32::try_from(self.0).expect("a process");
        // SAFETY: the helper ends by this test alone: it is stopped, or waits for a process that lives.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    }

    fn has_ended(&self) -> bool {
        matches!(self.status("State:").chars().next(), None | Some('Z' | 'X'))
    }

    /// Stops it, and waits until it is.
    fn stop(&self) {
        self.send(libc::SIGSTOP);
        eventually("it stops", || self.status("State:").starts_with('T'));
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

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
    let descriptors = fs::read_dir(format!("/proc/{}/fd", helper.0)).expect("its descriptors");
    assert_eq!(descriptors.count(), 1, "it holds nothing of the host's but the host");
    // A terminal's signals are for the host.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
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

    helper.send(libc::SIGCONT);
    eventually("the helper ends with its host", || helper.has_ended());
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
    eventually("the helper ends with its task", || helper.has_ended());
}
