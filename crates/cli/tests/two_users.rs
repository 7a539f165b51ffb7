//! Clients of several real users at one server of root's: no descriptor that the server hands over lets one user change
//! what another reads or runs.
//!
//! Only root can be somebody else; without it the tests say so and end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::message::{Answer, LIMIT, Question, Regime, RegionKind, Request, Role};
use rustix::fs::{Mode, OFlags, Uid};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use server::{Server, bytes};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 12_345;
const PAGE: usize = 4_096;
/// How long an answer may take before a test gives up: long, since nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether there can be other users; says so where not.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not tested: only root can act as other users");
    }
    root
}

/// Does something as another user, for good: in a thread whose credentials are that user's.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let become_user = move || {
            let group = rustix::fs::Gid::from_raw(user);
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            let user = Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            act()
        };
        scope.spawn(become_user).join().unwrap()
    })
}

/// A connection of a process that pages, and what the server handed over.
struct Client {
    socket: PacketSocket,
    channel: OwnedFd,
    transfer: OwnedFd,
    event: OwnedFd,
}

impl Client {
    /// Connects as the user that the thread is.
    fn connect(path: &Path, userfault: BorrowedFd<'_>) -> Self {
        let socket = PacketSocket::connect(path).unwrap();
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).unwrap();
        let hello = Request::Hello {
            role: Role::Program,
            agent_thread: 1,
            name: "x",
        };
        let mut descriptors = ask(&socket, &hello, &[userfault, userfault]).unwrap();
        let event = descriptors.pop().unwrap();
        let transfer = descriptors.pop().unwrap();
        let channel = descriptors.pop().unwrap();
        Self {
            socket,
            channel,
            transfer,
            event,
        }
    }

    /// The descriptor of something else; what the server says where it refuses.
    fn get(&self, request: &Request<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<OwnedFd, String> {
        Ok(ask(&self.socket, request, descriptors)?.pop().unwrap())
    }

    fn file(&self, file: &File) -> OwnedFd {
        let open = Request::OpenFile {
            regime: Regime::Conserve,
            path: "x",
        };
        self.get(&open, &[file.as_fd()]).unwrap()
    }

    fn region(&self, name: &str, kind: RegionKind) -> Result<OwnedFd, String> {
        let open = Request::OpenRegion {
            name,
            pages: 4,
            kind,
            regime: Regime::Conserve,
        };
        self.get(&open, &[])
    }

    fn document(&self) -> OwnedFd {
        let ask = Request::Ask {
            question: Question::Status,
            target: "",
        };
        self.get(&ask, &[]).unwrap()
    }
}

/// The descriptors that come with the answer; the text of a refusal.
fn ask(socket: &PacketSocket, request: &Request<'_>, sent: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>, String> {
    socket.send(&bytes(request, 1), sent).unwrap();
    hear(socket)
}

fn hear(socket: &PacketSocket) -> Result<Vec<OwnedFd>, String> {
    let mut buffer = [0; LIMIT];
    let packet = socket.receive(&mut buffer).unwrap().expect("an answer");
    match Answer::decode(&buffer[..packet.length]).unwrap().1 {
        Answer::Refused { text, .. } => Err(text.to_owned()),
        _ => Ok(packet.descriptors),
    }
}

/// The program that tries everything, where every user can run it.
fn attacker() -> Option<PathBuf> {
    let compiled = common::compiled("reopen")?;
    let program = std::env::temp_dir().join(format!("freehold-reopen-{}", std::process::id()));
    std::fs::copy(compiled, &program).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    Some(program)
}

/// What the thread's user could do with a descriptor that nobody may.
fn attack(program: &Path, kind: &str, descriptor: OwnedFd) -> String {
    let mut command = Command::new(program);
    command.arg(kind).stdin(Stdio::from(descriptor));
    let output = command.output().unwrap();
    assert!(output.status.code().is_some(), "{:?}", output.status);
    common::stdout(&output)
}

/// The C library's file, of which every program runs text.
fn library() -> File {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.contains("/libc.so"))
        .expect("a C library");
    File::open(line.split_whitespace().last().unwrap()).unwrap()
}

/// How many pages of a file's object are in memory; all of them must be the file's.
fn pages_of(object: OwnedFd, file: &File) -> usize {
    let (object, length) = (File::from(object), file.metadata().unwrap().len());
    let (mut found, mut right, mut present) = ([0; PAGE], [0; PAGE], 0);
    for offset in (0..length).step_by(PAGE) {
        object.read_at(&mut found, offset).unwrap();
        right.fill(0);
        file.read_at(&mut right, offset).unwrap();
        if found != [0; PAGE] {
            assert!(found == right, "the page at {offset} is not the file's");
            present += 1;
        }
    }
    present
}

/// A managed program that answers each line with the same.
struct Echo(Child);

impl Echo {
    fn start(server: &Server) -> Self {
        let mut command = common::freehold(&["exec", "--reserve", "4MiB", "--socket"]);
        command.arg(&server.socket).args(["--", "cat"]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The same, begun when it is told to. It inherits nothing that is opened meanwhile: a program that begins waits
    /// until each file that it does not keep is closed.
    fn prepare(server: &Server) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "read word && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_freehold")]);
        command.args(["exec", "--reserve", "4MiB", "--socket"]);
        command.arg(&server.socket).args(["--", "cat"]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn begin(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"begin\n").unwrap();
    }

    fn must_answer(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "hello\n");
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn no_descriptor_lets_another_user_change_what_others_read_or_run() {
    let Some(program) = is_root().then(attacker).flatten() else {
        return;
    };
    let server = Server::start(&["--pool", "64MiB", "--quota", "8MiB"]);
    let mut echo = Echo::start(&server);
    echo.must_answer();
    let (library, userfault) = (library(), Userfault::open(Features::SERVED).unwrap());
    let roots = Client::connect(&server.socket, userfault.as_fd());
    let before = pages_of(roots.file(&library), &library);
    assert!(before > 10, "{before} pages of the C library are in memory");
    let shared = roots.region("shared", RegionKind::Shared).unwrap();
    for user in [NOBODY, SOMEBODY] {
        let got = as_user(user, || {
            let client = Client::connect(&server.socket, userfault.as_fd());
            let refused = client.region("0:shared", RegionKind::Shared).unwrap_err();
            assert!(refused.contains("user 0's"), "{refused}");
            let own =
                [RegionKind::Shared, RegionKind::Private].map(|kind| client.region(&format!("{user}"), kind).unwrap());
            let [named, unnamed] = own;
            let all = [
                ("read", client.file(&library)),
                ("read", client.document()),
                ("write", client.channel),
                ("write", client.transfer),
                ("write", named),
                ("write", unnamed),
                ("signal", client.event),
                // Not handed over: as if root had passed it on.
                ("write", shared.try_clone().unwrap()),
            ];
            all.into_iter()
                .enumerate()
                .map(|(at, (kind, fd))| (at, attack(&program, kind, fd)))
                .collect::<Vec<_>>()
        });
        for (at, done) in got {
            assert!(done.is_empty(), "user {user}, descriptor {at}:\n{done}");
        }
        echo.must_answer();
    }
    assert!(pages_of(roots.file(&library), &library) >= before);
    let mut fresh = Echo::start(&server);
    fresh.must_answer();
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn no_descriptor_is_two_users_and_nobody_sees_anothers() {
    if !is_root() {
        return;
    }
    let server = Server::start(&["--pool", "16MiB", "--quota", "4MiB"]);
    let userfault = Userfault::open(Features::SERVED).unwrap();
    let of = |user| {
        as_user(user, || {
            // The number of the server's process is all that is needed to name its descriptors.
            let folder = format!("/proc/{}/fd", server.child.id());
            assert!(
                std::fs::read_dir(folder).is_err(),
                "user {user} sees the server's descriptors"
            );
            let client = Client::connect(&server.socket, userfault.as_fd());
            let region = client.region("x", RegionKind::Private).unwrap();
            [client.channel, client.transfer, region].map(|fd| File::from(fd).metadata().unwrap())
        })
    };
    let (one, other) = (of(NOBODY), of(SOMEBODY));
    for its in &one {
        assert_eq!((its.mode() & 0o777, its.uid()), (0o600, 0));
        assert!(other.iter().all(|others| others.ino() != its.ino()));
    }
}

#[test]
fn a_file_that_a_user_cannot_open_is_not_opened_for_it() {
    if !is_root() {
        return;
    }
    let server = Server::start(&["--pool", "16MiB", "--quota", "4MiB"]);
    let userfault = Userfault::open(Features::SERVED).unwrap();
    let path = std::env::temp_dir().join(format!("freehold-secret-{}", std::process::id()));
    std::fs::write(&path, "secret").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let roots = Client::connect(&server.socket, userfault.as_fd());
    let _object = roots.file(&File::open(&path).unwrap());
    as_user(NOBODY, || {
        let client = Client::connect(&server.socket, userfault.as_fd());
        assert!(File::open(&path).is_err());
        // All that this user can have of the file: a path to it.
        let named = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let open = Request::OpenFile {
            regime: Regime::Conserve,
            path: path.to_str().unwrap(),
        };
        let refused = client.get(&open, &[named.as_fd()]).unwrap_err();
        assert!(refused.contains("not open for reading"), "{refused}");
        assert!(client.get(&open, &[]).is_err());
    });
    std::fs::remove_file(&path).unwrap();
}

/// A file on a file system that answers no more, and the process that would have to.
struct SlowFile {
    process: Child,
    input: PacketSocket,
    file: OwnedFd,
}

impl SlowFile {
    /// `None`, and that said, where there can be none.
    fn make() -> Option<Self> {
        let program = common::compiled("slow_file")?;
        let (socket, its) = PacketSocket::pair().unwrap();
        let mut command = Command::new(program);
        command.stdin(Stdio::from(OwnedFd::from(its))).stdout(Stdio::piped());
        let process = command.spawn().unwrap();
        // The program's end is in the command, which would keep it open.
        drop(command);
        let mut buffer = [0; 8];
        let Some(mut packet) = socket.receive(&mut buffer).unwrap() else {
            let output = process.wait_with_output().unwrap();
            println!(
                "not tested: no file system of a user's own: {}",
                common::stdout(&output)
            );
            return None;
        };
        let file = packet.descriptors.pop().unwrap();
        assert!(socket.receive(&mut buffer).unwrap().is_some());
        Some(Self {
            process,
            input: socket,
            file,
        })
    }
}

impl Drop for SlowFile {
    /// The process ends first, so that whoever waits for its file system gets an error.
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.input, rustix::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

#[test]
fn a_file_system_that_does_not_answer_keeps_only_its_user_waiting() {
    if !is_root() {
        return;
    }
    let server = Server::start(&["--pool", "64MiB", "--quota", "8MiB"]);
    let mut echo = Echo::prepare(&server);
    let Some(slow) = SlowFile::make() else { return };
    let link = std::fs::read_link(format!("/proc/self/fd/{}", slow.file.as_raw_fd())).unwrap();
    assert_eq!(link, Path::new("/memfd:x"), "as memory objects are called");
    let (library, userfault) = (library(), Userfault::open(Features::SERVED).unwrap());
    let connect = || Client::connect(&server.socket, userfault.as_fd());
    let hostile = as_user(NOBODY, connect);
    let honest = as_user(SOMEBODY, connect);
    let open = Request::OpenFile {
        regime: Regime::Conserve,
        path: "x",
    };
    hostile.socket.send(&bytes(&open, 1), &[slow.file.as_fd()]).unwrap();
    for _ in 0..20 {
        drop(honest.file(&library));
        drop(honest.document());
    }
    echo.begin();
    echo.must_answer();
    // Root is not made to wait for it either.
    let roots = Client::connect(&server.socket, userfault.as_fd());
    roots.socket.send(&bytes(&open, 1), &[slow.file.as_fd()]).unwrap();
    drop(honest.file(&library));
    drop(slow);
    for client in [&hostile, &roots] {
        let refused = hear(&client.socket).unwrap_err();
        let known = refused.contains("not on a file system that the server sees");
        assert!(known, "{refused}");
    }
    drop(hostile.document());
}

#[test]
fn a_file_system_that_does_not_answer_does_not_keep_the_server_from_ending() {
    if !is_root() {
        return;
    }
    let mut server = Server::start(&["--pool", "16MiB", "--quota", "4MiB"]);
    let Some(slow) = SlowFile::make() else { return };
    let userfault = Userfault::open(Features::SERVED).unwrap();
    let hostile = as_user(NOBODY, || Client::connect(&server.socket, userfault.as_fd()));
    let open = Request::OpenFile {
        regime: Regime::Conserve,
        path: "x",
    };
    hostile.socket.send(&bytes(&open, 1), &[slow.file.as_fd()]).unwrap();
    let begun = Instant::now();
    while !waits_for_a_file_system(server.child.id()) {
        assert!(begun.elapsed() < PATIENCE, "nobody waits");
        std::thread::sleep(Duration::from_millis(2));
    }
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    drop(slow);
}

/// Whether a thread of a process waits for an answer of a file system.
fn waits_for_a_file_system(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let places = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("wchan")).ok());
    places.into_iter().any(|place| place == "request_wait_answer")
}
