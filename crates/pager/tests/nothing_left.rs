//! When the pager is gone, everything is as it was: descriptors, threads, mappings, locked memory, the signal handler.
//! Alone in its process, because it counts what the process has.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{audit, file, hard, pager, pager_over, private, shared, write_page};
use freehold_pager::{Pager, StoreMedium};

/// What the process has.
#[derive(Debug, PartialEq, Eq)]
struct Belongings {
    descriptors: usize,
    threads: usize,
    mappings: usize,
    locked: String,
    handler: usize,
}

fn belongings() -> Belongings {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    // SAFETY: an all-zero sigaction is a valid value, and with a null new action the call only fills it.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action), 0);
        action
    };
    Belongings {
        descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        threads: std::fs::read_dir("/proc/self/task").unwrap().count(),
        mappings: maps.lines().filter(|line| line.contains("freehold")).count(),
        locked: line("VmLck:"),
        handler: action.sa_sigaction,
    }
}

/// For every mapping of a pager's object that is locked: pages present and pages locked, in KiB.
fn aliases() -> Vec<(u64, u64)> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found = Vec::new();
    let (mut ours, mut present, mut locked) = (false, 0, 0);
    for line in smaps.lines() {
        let number = || {
            line.split_whitespace()
                .nth(1)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        if line.contains("memfd:") {
            ours = line.contains("freehold-object");
        } else if line.starts_with("Rss:") {
            present = number();
        } else if line.starts_with("Locked:") {
            locked = number();
        } else if line.starts_with("VmFlags:") && ours {
            if line.split_whitespace().any(|flag| flag == "lo") {
                found.push((present, locked));
            }
            ours = false;
        }
    }
    found
}

/// The kernel may take a moment to retire a thread after it was joined.
fn wait_for_ended_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    for _ in 0..1000 {
        if threads() <= 2 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{} threads are left", threads());
}

fn live_once(pager: Pager) {
    let reservations = [hard(&pager, 24), hard(&pager, 24)];
    let region = shared(&pager, 48);
    std::thread::scope(|scope| {
        for reservation in reservations {
            let (pager, region) = (&pager, region);
            scope.spawn(move || {
                let task = pager.add_task(Some(reservation)).unwrap();
                let mapped = task.map(region).unwrap();
                let own = task.map(private(pager, 40)).unwrap();
                let bound = task.enter().unwrap();
                for version in 1..3 {
                    (0..40).for_each(|page| write_page(&bound, &own, page, version));
                    (0..48).for_each(|page| write_page(&bound, &mapped, page, version));
                }
                // Every page in a frame is in the locked alias, whoever has it mapped or zapped.
                drop(bound);
                drop(task);
            });
        }
    });
    audit(&pager);
    let report = pager.report().unwrap();
    let resident: u64 = report
        .objects
        .iter()
        .map(|object| u64::from(object.resident_measured.get()) * 4)
        .sum();
    assert!(resident > 0);
    let aliases = aliases();
    assert_eq!(aliases.len(), report.objects.len());
    for (present, locked) in &aliases {
        assert_eq!(
            present, locked,
            "pages of an object are present and not locked: {aliases:?}"
        );
    }
    assert_eq!(
        aliases.iter().map(|(_, locked)| locked).sum::<u64>(),
        resident,
        "{aliases:?}"
    );
    drop(pager);
    wait_for_ended_threads();
}

fn live_with_every_store() {
    live_once(pager(96, 160, 60));
    live_once(pager_over(96, 160, StoreMedium::Compressed(None)));
    live_once(pager_over(96, 160, file(true)));
    live_once(pager_over(96, 160, file(false)));
}

#[test]
fn nothing_is_left_behind() {
    // The first life initialises what the runtime keeps.
    live_with_every_store();
    let before = belongings();
    assert_eq!(before.mappings, 0);
    for _ in 0..3 {
        live_with_every_store();
    }
    assert_eq!(before, belongings());
}
