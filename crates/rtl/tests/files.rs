//! FIFOs as files: what a process sees.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{World, eventually};
use freehold_rtl::load::{self, Space};

fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// What poll says within `milliseconds`.
fn poll(file: &File, milliseconds: i32) -> i16 {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, valid for the call.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
    poll.revents
}

/// `FIONREAD`.
fn readable(file: &File) -> i32 {
    let mut count = -1;
    // SAFETY: the call writes one number there.
    unsafe { libc::ioctl(file.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    count
}

#[test]
fn a_fifo_is_opened_once_read_polled_and_written() {
    let Some(mut world) = World::new("files") else { return };
    world.start_host();
    let Some(files) = world.mount() else { return };
    assert_eq!(fs::read_dir(&files).expect("a directory").count(), 64);
    let (one, two) = (files.join("rtf1"), files.join("rtf2"));
    assert_eq!(errno(open(&one, 0).expect_err("it is not created")), libc::ENODEV);

    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rtl/fifo_echo.c");
    let object = world.compile(&echo.display().to_string(), "fifo_echo");
    world.insert(&object, Space::Separate, &[]).expect("it loads");

    let mut to = open(&one, 0).expect("it is created");
    assert_eq!(errno(open(&one, 0).expect_err("it is open")), libc::EACCES);
    let mut from = open(&two, libc::O_NONBLOCK).expect("it is created");
    let mut bytes = [0; 16];
    assert_eq!(from.read(&mut bytes).expect("no error"), 0);
    assert_eq!(poll(&from, 0), 0);
    to.write_all(b"hello").expect("there is room");
    assert_eq!(poll(&from, 30_000), libc::POLLIN);
    assert_eq!(from.metadata().expect("its size").size(), 5);
    assert_eq!(readable(&from), 5);
    assert_eq!(from.read(&mut bytes).expect("no error"), 5);
    assert_eq!(&bytes[..5], b"hello");
    // Real-time threads write there.
    assert_eq!(errno(from.write(b"x").expect_err("the other direction")), libc::EACCES);
    drop(from);
    eventually("it is closed", || open(&two, 0).is_ok());

    // A reader that waits, and is ended.
    let mut cat = Command::new("cat")
        .arg(&two)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat starts");
    std::thread::sleep(std::time::Duration::from_millis(100));
    cat.kill().expect("cat is there");
    cat.wait().expect("cat ends");
    eventually("it is closed", || open(&two, 0).is_ok());

    // A reader whose module is taken out sees the end.
    let mut cat = Command::new("cat")
        .arg(&two)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat starts");
    to.write_all(b"bye").expect("there is room");
    let mut said = [0; 3];
    cat.stdout
        .as_mut()
        .expect("its output")
        .read_exact(&mut said)
        .expect("it is printed");
    assert_eq!(&said, b"bye");
    load::remove(&world.directory, "fifo_echo", false).expect("it ends");
    assert!(cat.wait().expect("cat ends").success());
}
