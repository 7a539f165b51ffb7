//! Whatever listens where a memory server should, programs end or go on, and say what is wrong.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use freehold_linux::socket::{Listener, PacketSocket};
use freehold_protocol::message::LIMIT;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::pipe;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a fake server does with each request.
type Answer = fn(&PacketSocket, &[u8]) -> bool;

/// A fake server's socket, gone when dropped. Its threads end with the test.
struct Fake(PathBuf);

impl Fake {
    fn start(name: &str, answer: Answer) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-fake-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = Listener::bind(&path, 16).unwrap();
        std::thread::spawn(move || {
            loop {
                rustix::event::poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
                if let Some(socket) = listener.accept().unwrap() {
                    std::thread::spawn(move || serve(&socket, answer));
                }
            }
        });
        Self(path)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn serve(socket: &PacketSocket, answer: Answer) {
    socket.set_blocking(true).unwrap();
    let mut buffer = [0; LIMIT];
    while let Ok(Some(packet)) = socket.receive(&mut buffer) {
        if !answer(socket, &buffer[..packet.length]) {
            return;
        }
    }
}

const FAKES: [(&str, Answer); 6] = [
    ("closes", |_, _| false),
    ("zeros", |socket, _| socket.send(&[0; 16], &[]).is_ok()),
    ("long", |socket, _| socket.send(&[0xa5; 4_000], &[]).is_ok()),
    ("echo", |socket, request| socket.send(request, &[]).is_ok()),
    ("descriptors", |socket, request| {
        let (one, other) = pipe().unwrap();
        let four = [one.as_fd(), other.as_fd(), one.as_fd(), other.as_fd()];
        socket.send(request, &four).is_ok()
    }),
    ("flood", |socket, _| {
        (0..100).all(|byte| socket.send(&[byte; 64], &[]).is_ok())
    }),
];

/// The agent in a program that nobody but its environment has managed.
fn preloaded(socket: &Path) -> Output {
    let agent = Path::new(env!("CARGO_BIN_EXE_freehold")).with_file_name("libfreehold_agent.so");
    let mut command = Command::new("/bin/echo");
    command.arg("here").env("LD_PRELOAD", agent);
    command.env("FREEHOLD_SOCKET", socket).output().unwrap()
}

#[test]
fn a_server_that_talks_nonsense_is_named_and_harms_nobody() {
    for (name, answer) in FAKES {
        let fake = Fake::start(name, answer);
        let socket = fake.0.to_str().unwrap();
        for (arguments, status) in [
            (&["exec", "--socket", socket, "--", "/bin/echo", "here"][..], 125),
            (&["status", "--socket", socket], 1),
            (&["explain", "1", "--socket", socket], 1),
        ] {
            let output = common::run(arguments);
            let said = (output.status.code(), common::stdout(&output));
            assert_eq!(said, (Some(status), String::new()), "{name}: {arguments:?}");
            let error = common::stderr(&output);
            assert!(
                error.starts_with("freehold: the ") && error.contains("server"),
                "{name}: {error}"
            );
        }
        let output = preloaded(&fake.0);
        let said = (output.status.code(), common::stdout(&output));
        assert_eq!(said, (Some(0), "here\n".to_owned()), "{name}");
        let error = common::stderr(&output);
        assert!(error.contains("unmanaged") && error.contains(socket), "{name}: {error}");
    }
}
