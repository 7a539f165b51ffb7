//! Peers that say nothing: servers that programs wait for, and clients that a server waits for.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use freehold_linux::socket::Listener;
use freehold_protocol::message::{Request, Role};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use server::{Peer, Said, Server};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A socket on which nobody accepts anything, gone when dropped.
struct Deaf {
    path: PathBuf,
    _listener: Listener,
    /// Connections that leave no room for others.
    _waiting: Vec<OwnedFd>,
}

impl Deaf {
    fn new(name: &str, full: bool) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-silence-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = Listener::bind(&path, 2).unwrap();
        let connect = || connect_at_once(&path).filter(|_| full);
        Self {
            _waiting: std::iter::from_fn(connect).collect(),
            _listener: listener,
            path,
        }
    }
}

/// A connection, where there is room for one more.
fn connect_at_once(path: &Path) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok()?;
    Some(socket)
}

impl Drop for Deaf {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A program with the agent that waits for a server for a second; how it ended, and what it said.
fn preloaded(socket: &Path, keeps_going: bool) -> (Option<i32>, String, String) {
    let agent = Path::new(env!("CARGO_BIN_EXE_freehold")).with_file_name("libfreehold_agent.so");
    let mut command = Command::new("/bin/echo");
    command.arg("here").env("LD_PRELOAD", agent);
    command.env("FREEHOLD_SOCKET", socket).env("FREEHOLD_PATIENCE", "1");
    if keeps_going {
        command.env("FREEHOLD_KEEP_GOING", "1");
    }
    let output = command.output().unwrap();
    (output.status.code(), common::stdout(&output), common::stderr(&output))
}

#[test]
fn a_program_does_not_begin_without_a_server_that_says_nothing() {
    for full in [false, true] {
        let deaf = Deaf::new(if full { "full" } else { "mute" }, full);
        let (status, said, error) = preloaded(&deaf.path, false);
        assert_eq!((status, &*said), (Some(125), ""), "{full}: {error}");
        let named = error.contains("--keep-going") && error.contains(deaf.path.to_str().unwrap());
        assert!(named && error.contains("does not answer"), "{full}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        let (status, said, error) = preloaded(&deaf.path, true);
        assert_eq!((status, &*said), (Some(0), "here\n"), "{full}: {error}");
        assert!(
            error.contains("unmanaged") && error.contains("does not answer"),
            "{full}: {error}"
        );
    }
}

#[test]
fn a_program_waits_for_a_server_that_is_stopped_and_says_so_once() {
    let Some(program) = common::compiled("hog") else { return };
    let server = Server::start(&["--log-level", "error", "--pool", "32MiB"]);
    let mut command = common::freehold(&["exec", "--reserve", "4MiB", "--socket"]);
    // One program, because each says it once. It ends with its server.
    command.arg(&server.socket).arg("--").arg(program).args(["8", "7"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while server.observe().must_be_served()["store"]["writes"].as_u64() < Some(1_000) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it had pages elsewhere"
        );
    }
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.next().expect("a line");
    let writes = || server.observe().must_be_served()["store"]["writes"].as_u64();
    kill_process(pid, Signal::CONT).unwrap();
    assert!(line.contains("the memory server does not answer"), "{line}");
    let before = writes();
    let deadline = Instant::now() + Duration::from_secs(30);
    while writes() < before.map(|before| before + 1_000) {
        assert!(Instant::now() < deadline, "it does not go on");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(server);
    assert_eq!(lines.filter(|line| line.contains("does not answer")).count(), 0);
}

/// CPU time of a process so far, in the kernel's ticks.
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    // `utime` and `stime`.
    fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Whether a process is in `mremap`.
fn moves(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|text| text.starts_with("25 "))
}

#[test]
fn a_call_that_never_ends_is_looked_at_less_and_less_often() {
    let Some(program) = common::compiled("endless_move") else {
        return;
    };
    let server = Server::start(&["--log-level", "error", "--pool", "32MiB"]);
    let agent = Path::new(env!("CARGO_BIN_EXE_freehold")).with_file_name("libfreehold_agent.so");
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", agent).env("FREEHOLD_SOCKET", &server.socket);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while !moves(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(500));
    let begun = (Instant::now(), ticks(server.child.id()));
    std::thread::sleep(Duration::from_secs(1));
    let (elapsed, used) = (begun.0.elapsed(), ticks(server.child.id()) - begun.1);
    let in_it = moves(child.id());
    // Others are served.
    let echo = common::freehold(&["exec", "--reserve", "1MiB", "--socket"])
        .arg(&server.socket)
        .args(["--", "echo", "here"])
        .output()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(in_it, "this kernel ends such a call: nothing is tested");
    assert_eq!(common::stdout(&echo), "here\n", "{}", common::stderr(&echo));
    // Ticks of 10 ms: of a CPU a quarter at most, where it had been two.
    assert!(
        u128::from(used) * 40 < elapsed.as_millis(),
        "{used} ticks in {elapsed:?}"
    );
}

fn hello() -> Request<'static> {
    Request::Hello {
        role: Role::Observer,
        agent_thread: 0,
        name: "greets",
    }
}

fn greeted(mut peer: Peer) -> bool {
    matches!(peer.ask(&hello(), &[]), Ok(Said::Other(_)))
}

#[test]
fn clients_that_say_nothing_lose_their_places_to_others() {
    let most = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: most.maximum,
        ..most
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let server = Server::start(&["--pool", "16MiB", "--log-level", "error"]);
    let mut honest = server.observe();
    // More than there is room for: real connections, of which none says a word.
    let silent: Vec<Peer> = (0..1_400).map(|_| server.connect()).collect();
    assert!(!greeted(server.connect()), "there is no room");
    honest.must_be_served();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !greeted(server.connect()) {
        assert!(Instant::now() < deadline, "their places are not given up");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(silent.iter().all(Peer::is_closed));
    honest.must_be_served();
}

#[test]
fn who_speaks_while_the_server_does_not_listen_keeps_its_place() {
    let server = Server::start(&["--pool", "16MiB", "--log-level", "error"]);
    // More than the server looks at at a time.
    let early: Vec<Peer> = (0..200).map(|_| server.connect()).collect();
    let mute = server.connect();
    let mut honest = server.observe();
    let pid = Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    for peer in &early {
        peer.send(&server::bytes(&hello(), 1), &[]).unwrap();
    }
    // Past the time in which a connection has to say who it is.
    std::thread::sleep(Duration::from_millis(5_500));
    kill_process(pid, Signal::CONT).unwrap();
    let welcome = |peer: &Peer| matches!(peer.hear(), Some((1, Said::Other(_))));
    let welcomed = early.iter().filter(|peer| welcome(peer)).count();
    assert_eq!(welcomed, early.len());
    assert!(mute.is_closed(), "the time has not passed");
    honest.must_be_served();
}
