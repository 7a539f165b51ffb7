//! A client whose address space is held by a file system of its own stops nobody.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use freehold_linux::socket::PacketSocket;
use freehold_server::EngineError;
use rustix::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{Client, Server, client};

/// The main function of client processes.
#[test]
fn client_main() {
    client::main();
}

/// A file system whose file can be written, which it never answers; killed when dropped.
struct Slow {
    process: Child,
    file: OwnedFd,
    _input: PacketSocket,
}

impl Slow {
    /// `None`, and that said, where there can be none.
    fn make() -> Option<Self> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/programs/slow_file.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slow-{}", std::process::id()));
        let compiled = Command::new("cc")
            .args(["-pthread", "-o"])
            .args([program.as_os_str(), source.as_ref()])
            .status();
        assert!(compiled.expect("these tests need a C compiler, `cc`").success());
        let (input, its) = PacketSocket::pair().unwrap();
        let mut command = Command::new(&program);
        command.arg("write").stdin(Stdio::from(OwnedFd::from(its)));
        let mut process = command.spawn().unwrap();
        // The program's end is in the command, which would keep it open.
        drop(command);
        let mut buffer = [0; 8];
        let Some(mut packet) = input.receive(&mut buffer).unwrap() else {
            println!("not tested: no file system of a user's own");
            process.wait().unwrap();
            return None;
        };
        let file = packet.descriptors.pop().unwrap();
        // It has closed its own, which waits for what is written.
        assert!(input.receive(&mut buffer).unwrap().is_some());
        Some(Self {
            process,
            file,
            _input: input,
        })
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The user whose file system it is.
const USER: u32 = 65_534;

#[test]
fn who_holds_an_address_space_up_ends_and_the_server_goes_on() {
    let server = Server::start(256);
    let [roots, other] = [0, 0].map(|user| Client::start_as(&server, "client_main", user).unwrap());
    let its = Client::start_as(&server, "client_main", USER).unwrap();
    let (region, descriptor) = server.region_of(USER, "held", 200, true);
    let mapped = its.map(its.task(Some(server.reserve(16))), region, &descriptor, 200);
    its.fill(mapped.number, 0, 8, 1);
    // Whoever else writes the region has pages written out that the first has mapped.
    let beside = roots.map(roots.task(Some(server.reserve(16))), region, &descriptor, 200);
    let (free, others) = server.region("free", 200, true);
    let free = other.map(other.task(Some(server.reserve(16))), free, &others, 200);
    let Some(slow) = Slow::make() else { return };
    its.tell(&[client::HOLD], Some(&slow.file));
    assert_eq!(its.answer(), 0);
    for round in 1..4 {
        roots.fill(beside.number, 0, 200, round);
        other.fill(free.number, 0, 200, round);
        assert_eq!(roots.wrong(beside.number, 0, 200, round), 0, "round {round}");
        assert_eq!(other.wrong(free.number, 0, 200, round), 0, "round {round}");
        server.check();
    }
    server.until("who held it up is gone", |engine| !engine.has_client(its.id));
    let refused = Client::start_as(&server, "client_main", USER).err();
    assert_eq!(refused, Some(EngineError::Barred));
    drop(slow);
}
