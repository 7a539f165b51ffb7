//! A page of a program that cannot be read back: its user is told which, and why.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::freehold;
use rustix::process::Signal;
use server::Server;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Overwrites the beginning of the nameless files of a process in a folder.
fn spoil(process: u32, folder: &Path) {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let paths = descriptors.map(|entry| entry.unwrap().path());
    let its: Vec<PathBuf> = paths
        .filter(|path| std::fs::read_link(path).is_ok_and(|link| link.starts_with(folder)))
        .collect();
    assert!(!its.is_empty(), "the store has a file in {}", folder.display());
    for path in its {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&vec![0xA5; 4096 * 1500], 0).unwrap();
    }
}

/// A server that others use too has its own log: the program's user is told on the program's standard error.
#[test]
fn a_program_whose_page_is_lost_says_why_before_it_ends() {
    let Some(program) = common::compiled("reads_back") else {
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("spoiled-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = ["--store", "file", "--store-directory", folder.to_str().unwrap()];
    let mut server = Server::start(&[&["--pool", "16MiB", "--log-level", "warn"], &store[..]].concat());
    let mut child = freehold(&["exec", "--reserve", "1MiB", "--socket"])
        .arg(&server.socket)
        .arg("--")
        .arg(&program)
        .arg("1500")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    if line == "full\n" {
        spoil(server.child.id(), &folder);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = common::stderr(&output);
        assert_eq!(output.status.signal(), Some(Signal::BUS.as_raw()), "{said}");
        assert!(said.contains("a page of the program cannot be read back"), "{said}");
        server.observe().must_be_served();
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("gets SIGBUS for its page"), "{log}");
    } else {
        let output = child.wait_with_output().unwrap();
        println!(
            "not tested: programs cannot be managed here: {}",
            common::stderr(&output)
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
