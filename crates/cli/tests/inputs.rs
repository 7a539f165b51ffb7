//! Files that are not what a command wants, in each place where one is named: a short message that names the file, the
//! status of bad input, and nothing done before; within bounds, however much there is to read.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use common::{freehold_under, status, stderr};
use std::path::{Path, PathBuf};

/// Ways to name a file, with the file as the last argument.
const WAYS: [&[&str]; 10] = [
    &["run"],
    &["size", "--task", "a"],
    &["advise"],
    &["cache", "replay", "--page-cache", "1MiB", "--cache", "1MiB"],
    &[
        "cache",
        "replay",
        "--page-cache",
        "1MiB",
        "--cache",
        "1MiB",
        "/dev/null",
        "--devices",
    ],
    &["tmem", "plan"],
    &["component", "run"],
    &["serve", "--devices"],
    &[
        "mount",
        "--cache",
        "4MiB",
        "/missing/source",
        "/missing/at",
        "--devices",
    ],
    &["rtl", "insmod", "--space", "separate"],
];

/// No more of a message than anybody reads.
const LONGEST: usize = 500;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-inputs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("folder")).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the file is refused as it ought to be by one command; else what was wrong.
fn refused(way: &[&str], file: &Path) -> Result<(), String> {
    let arguments: Vec<&str> = way.iter().copied().chain([file.to_str().unwrap()]).collect();
    // What reads without end fails by want of memory.
    let limited = ["sh", "-c", "ulimit -v 4000000 && exec \"$@\"", "sh"];
    let output = freehold_under(&limited, &arguments).output().unwrap();
    let said = stderr(&output);
    let name = file.file_name().unwrap().to_str().unwrap();
    let is_well = status(&output) == 2 && output.stdout.is_empty();
    if is_well && said.contains(name) && said.len() <= LONGEST && said.starts_with("freehold: ") {
        return Ok(());
    }
    let beginning: String = said.chars().take(LONGEST).collect();
    Err(format!(
        "{arguments:?}: {:?}, {} bytes: {beginning}",
        output.status,
        said.len()
    ))
}

#[test]
fn files_that_are_not_what_they_must_be_are_refused_in_few_words() {
    let folder = Folder::new("files");
    let long = "a".repeat(2 << 20);
    let wide: Vec<u8> = "name = 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files = [
        folder.write("zeros", &[0; 5000]),
        folder.write("bytes", &(0..=255).cycle().take(20_000).collect::<Vec<u8>>()),
        folder.write("long", long.as_bytes()),
        folder.write("deep", format!("a = {}", "[".repeat(200_000)).as_bytes()),
        folder.write("dotted", format!("{}a = 1", "a.".repeat(200_000)).as_bytes()),
        folder.write("objects", "{\"a\":".repeat(100_000).as_bytes()),
        folder.write("wide", &wide),
        folder.0.join("folder"),
        folder.0.join("missing"),
        PathBuf::from("/dev/zero"),
        PathBuf::from("/proc/self/mem"),
    ];
    let tried = WAYS.iter().flat_map(|way| files.iter().map(|file| refused(way, file)));
    let wrong: Vec<String> = tried.filter_map(Result::err).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        WAYS.len() * files.len(),
        wrong.join("\n")
    );
}

/// Commands that run for long find out at their beginning that their result has no place.
#[test]
fn a_result_that_cannot_be_written_is_told_before_the_work_is_done() {
    let folder = Folder::new("results");
    let nowhere = folder.0.join("missing/result");
    let scenario = "scenarios/two-tasks-spc.toml";
    let ways: [(&[&str], &Path); 5] = [
        (&["latency", "--duration", "3000s", "--histfile"], &nowhere),
        (&["latency", "--duration", "3000s", "--histfile"], &folder.0),
        (&["run", scenario, "--report"], &nowhere),
        (&["run", scenario, "--trace"], &nowhere),
        (&["run", "--engine", "live", scenario, "--report"], &nowhere),
    ];
    for (way, place) in ways {
        refused(way, place).unwrap();
    }
    assert_eq!(
        std::fs::read_dir(&folder.0).unwrap().count(),
        1,
        "what was there before"
    );
}
