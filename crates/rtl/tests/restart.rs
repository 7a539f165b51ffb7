//! A host that is started after one that was killed serves, whatever the killed one left behind.

mod common;

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

use common::World;
use freehold_rtl::directory::VARIABLE;
use freehold_rtl::starting;

/// Copies of the sockets of a process, as a child that it forks has them.
fn sockets_of(process: u32) -> Vec<OwnedFd> {
    let process = i32::try_from(process).expect("a process");
    let numbers = fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").flatten();
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.display().to_string().starts_with("socket:"))
    };
    let numbers: Vec<i32> = numbers
        .filter(is_socket)
        .map(|entry| entry.file_name().to_string_lossy().parse().expect("a descriptor"))
        .collect();
    // SAFETY: both calls touch no memory, and give new descriptors that nobody else owns.
    unsafe {
        let handle = libc::syscall(libc::SYS_pidfd_open, process, 0);
        let handle = OwnedFd::from_raw_fd(i32::try_from(handle).expect("a descriptor"));
        let copy = |number: i32| {
            let copied = libc::syscall(
                libc::SYS_pidfd_getfd,
                std::os::fd::AsRawFd::as_raw_fd(&handle),
                number,
                0,
            );
            OwnedFd::from_raw_fd(i32::try_from(copied).expect("a descriptor"))
        };
        numbers.into_iter().map(copy).collect()
    }
}

#[test]
fn a_host_starts_though_a_child_of_the_killed_one_holds_its_socket() {
    let Some(mut world) = World::new("restart") else { return };
    let first = world.start_host();
    let left = sockets_of(first);
    assert!(!left.is_empty(), "a host listens at a socket");
    world.kill_host();
    let second = world.start_host();
    assert_ne!(first, second);

    // While one lives there is no other.
    let mut third = Command::new(env!("CARGO_BIN_EXE_freehold-rtl"));
    third.arg("host").env(VARIABLE, world.directory.path());
    let mut third = third
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let error = starting::wait_until(&mut third, || false).expect_err("it ends");
    assert!(error.contains("is served already"), "{error}");
}

#[test]
fn a_process_that_sleeps_and_does_not_serve_is_not_waited_for_for_ever() {
    let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let error = starting::wait_until(&mut child, || false).expect_err("it never serves");
    assert!(error.contains("without serving"), "{error}");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}
