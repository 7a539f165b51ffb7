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

#[test]
fn a_fifo_that_a_process_has_open_is_not_destroyed() {
    let Some(mut world) = World::new("destroys") else {
        return;
    };
    world.start_host();
    let Some(files) = world.mount() else { return };
    let object = world.compile("destroys.c", "destroys");
    world.insert(&object, Space::Separate, &[]).expect("it loads");
    let (destroyed, asked) = (files.join("rtf44"), files.join("rtf45"));
    let mut ask = open(&asked, 0).expect("it is created");
    let mut answers = 0;
    let mut destroy = || {
        ask.write_all(b"x").expect("there is room");
        answers += 1;
        eventually("it says what came of it", || {
            world.printed("destroys").lines().count() == answers
        });
        let said = world.printed("destroys");
        said.lines().last().map(str::to_owned)
    };
    let refused = Some(format!("destroy: {}", -libc::EINVAL));
    let reader = open(&destroyed, libc::O_NONBLOCK).expect("it is created");
    assert_eq!(destroy(), refused);
    drop(reader);
    // Its end is told a moment later.
    let answer = (0..1000).find_map(|_| destroy().filter(|answer| Some(answer) != refused.as_ref()));
    assert_eq!(answer.as_deref(), Some("destroy: 0"));
    assert_eq!(destroy(), refused, "it is not there");
    assert_eq!(errno(open(&destroyed, 0).expect_err("it is gone")), libc::ENODEV);
}
