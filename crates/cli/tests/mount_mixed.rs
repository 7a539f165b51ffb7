//! Files of a mount that are written and mapped at once.

mod common;
mod mounts;

use mounts::{Mounted, may_mount, succeed};
use std::path::Path;

/// Runs the program on a file: what it says. It fails where a write or a store is lost, or a mapping does not show one.
fn mixed(program: &Path, folder: &Path, how: &str, writes: &str) -> String {
    let said = succeed(program, &[&format!("{how}.file"), writes, how], folder);
    String::from_utf8(said).expect("UTF-8")
}

#[test]
fn writes_and_stores_to_the_same_pages_all_last_and_a_mapping_shows_what_was_written() {
    let (true, Some(program)) = (may_mount(), common::compiled("mixed")) else {
        return;
    };
    let mounted = Mounted::new("mixed", "4MiB", &[]);
    for (how, writes, said) in [
        ("threads", "6000", "6000 writes\n"),
        ("processes", "6000", "6000 writes\n"),
        ("append", "3000", "3000 records\n"),
    ] {
        // It is right where there is no mount between.
        assert_eq!(mixed(&program, &mounted.source, how, writes), said, "natively, {how}");
        assert_eq!(mixed(&program, &mounted.at, how, writes), said, "{how}");
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
            scope.spawn(move || assert_eq!(mixed(program, &folder, "threads", "1500"), "1500 writes\n"));
        }
    });
}
