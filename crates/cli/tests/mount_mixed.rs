//! Files of a mount that are written and mapped at once.

mod common;
mod mounts;

use mounts::{Mounted, may_mount, succeed};
use std::path::Path;

/// Runs a program on a file of a folder: what it says. It fails where a write or a store is lost, or is not seen.
fn run(program: &Path, folder: &Path, words: &[&str]) -> String {
    let words = [&["file"], words].concat();
    String::from_utf8(succeed(program, &words, folder)).expect("UTF-8")
}

#[test]
fn writes_and_stores_to_the_same_pages_all_last_and_a_mapping_shows_what_was_written() {
    let (true, Some(program)) = (may_mount(), common::compiled("mixed")) else {
        return;
    };
    let mounted = Mounted::new("mixed", "4MiB", &[]);
    for (writes, how, said) in [
        ("6000", "threads", "6000 writes\n"),
        ("6000", "processes", "6000 writes\n"),
        ("3000", "append", "3000 records\n"),
    ] {
        // It is right where there is no mount between.
        assert_eq!(run(&program, &mounted.source, &[writes, how]), said, "natively, {how}");
        assert_eq!(run(&program, &mounted.at, &[writes, how]), said, "{how}");
    }
}

#[test]
fn several_files_are_written_and_mapped_at_once() {
    let (true, Some(program)) = (may_mount(), common::compiled("mixed")) else {
        return;
    };
    let mounted = Mounted::new("mixed-several", "4MiB", &[]);
    std::thread::scope(|scope| {
        for number in 0..5 {
            let (program, folder) = (&program, mounted.at.join(number.to_string()));
            std::fs::create_dir(&folder).expect("a folder");
            scope.spawn(move || assert_eq!(run(program, &folder, &["1500", "threads"]), "1500 writes\n"));
        }
    });
}

#[test]
fn workers_that_change_one_file_in_every_way_each_find_what_they_left() {
    let (true, Some(program)) = (may_mount(), common::compiled("stripes")) else {
        return;
    };
    let mounted = Mounted::new("stripes", "4MiB", &[]);
    for how in ["threads", "processes"] {
        for seed in ["1", "2", "3"] {
            let words = ["3000", how, seed];
            assert_eq!(
                run(&program, &mounted.source, &words),
                "3000 steps\n",
                "natively, {how} {seed}"
            );
            assert_eq!(run(&program, &mounted.at, &words), "3000 steps\n", "{how} {seed}");
        }
    }
}
