//! System calls of a server fail while it serves, one after the other, in every way that the kernel has: whoever asked
//! is refused or served, nobody reads a wrong byte, the laws hold, and afterwards everybody is served again. And while
//! it starts and ends: it says why it cannot, and leaves room for the next.
//!
//! `strace` makes them fail from outside. The short run takes every second system call, with one error each, others in
//! each run: `FREEHOLD_SEED` repeats one. `FREEHOLD_SOAK` takes all, `FREEHOLD_FAILURE=fallocate:ENOSPC` one failure.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "players/player.rs"]
mod player;
#[path = "common/server.rs"]
mod server;
#[path = "players/worker.rs"]
mod worker;

use common::freehold;
use freehold_linux::process::send_to_thread;
use freehold_protocol::message::{Question, Request, Role};
use rustix::process::{Pid, Signal, kill_process};
use server::Server;
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use worker::Worker;

/// Pages of each region, more than the frames of its reservation: pages go to the store and come back.
const PAGES: u32 = 60;

/// The exit status of a program that panics.
const PANIC: i32 = 101;

/// What the server asks of the kernel while it serves, and how that can fail. Those that cannot fail where their
/// arguments are right, and waiting for events, fail by interruption alone. Waits for locks are interrupted by signals,
/// below: a wake-up is the same system call, and never fails.
const CALLS: [(&str, &[&str]); 39] = [
    ("accept4", &["EMFILE", "ENOMEM", "EINTR", "EPERM"]),
    ("clock_nanosleep", &["EINTR"]),
    ("clone3", &["EAGAIN", "ENOMEM", "EPERM"]),
    ("epoll_create1", &["EMFILE", "ENOMEM"]),
    ("epoll_ctl", &["ENOMEM", "ENOSPC"]),
    ("epoll_pwait2", &["EINTR"]),
    ("eventfd2", &["EMFILE", "ENOMEM"]),
    ("fallocate", &["ENOSPC", "EINTR", "ENOMEM", "EPERM"]),
    ("fchmod", &["EPERM", "EINTR"]),
    ("fcntl", &["EMFILE", "ENOMEM", "EINTR"]),
    ("fstat", &["ENOMEM", "EINTR"]),
    ("ftruncate", &["ENOSPC", "EINTR", "ENOMEM", "EPERM"]),
    ("getrandom", &["EINTR", "ENOMEM"]),
    ("getsockopt", &["EMFILE", "ENOMEM"]),
    ("io_uring_enter", &["EINTR", "EAGAIN", "ENOMEM"]),
    ("ioctl", &["ENOMEM", "EAGAIN", "EINTR"]),
    ("lseek", &["ENOMEM"]),
    ("madvise", &["ENOMEM", "EAGAIN", "EINTR"]),
    ("memfd_create", &["EMFILE", "ENOMEM", "EPERM"]),
    ("mincore", &["ENOMEM", "EAGAIN"]),
    ("mkdirat", &["ENOSPC", "ENOMEM", "EINTR"]),
    ("mlock2", &["ENOMEM", "EAGAIN", "EPERM"]),
    ("mmap", &["ENOMEM", "EPERM"]),
    ("mprotect", &["ENOMEM"]),
    ("munmap", &["ENOMEM"]),
    ("open,openat", &["EMFILE", "ENOMEM", "EINTR", "EPERM"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
    ("pread64", &["EINTR", "ENOMEM"]),
    ("preadv2", &["ENOMEM", "EINTR", "EPERM"]),
    ("pwrite64", &["ENOSPC", "EINTR", "ENOMEM"]),
    ("read", &["EINTR", "ENOMEM"]),
    ("readlink,readlinkat", &["EPERM", "ENOMEM"]),
    ("recvmsg", &["EINTR", "ENOMEM", "EMFILE"]),
    ("sched_getaffinity", &["EPERM"]),
    ("sched_setaffinity", &["EPERM", "ENOMEM"]),
    ("sendmsg", &["EINTR", "ENOMEM", "ENOSPC", "EPERM"]),
    ("statx", &["ENOMEM", "EPERM"]),
    ("timerfd_settime", &["EINTR"]),
    // To event descriptors and the log; the former have no other way to fail.
    ("write", &["EINTR"]),
];

/// What it asks when it starts or ends alone, or seldom, and how that can fail.
const OTHERS: [(&str, &[&str]); 16] = [
    ("bind", &["ENOMEM", "EPERM", "ENOSPC"]),
    ("chmod,fchmodat", &["EPERM", "ENOMEM"]),
    ("flock", &["EINTR", "ENOMEM"]),
    ("fsopen,fsconfig,fsmount", &["EPERM", "EMFILE", "ENOMEM"]),
    ("fstatfs", &["ENOMEM", "EINTR"]),
    ("io_uring_setup", &["EPERM", "ENOMEM", "EMFILE"]),
    ("listen", &["EPERM"]),
    ("mlockall", &["ENOMEM", "EPERM"]),
    ("newfstatat", &["ENOMEM"]),
    ("prlimit64", &["EPERM"]),
    ("rename,renameat,renameat2", &["ENOMEM", "ENOSPC", "EPERM"]),
    ("sched_setattr", &["EPERM"]),
    ("socket,socketpair", &["EMFILE", "ENOMEM", "EPERM"]),
    ("timerfd_create", &["EMFILE", "ENOMEM"]),
    ("unlink,unlinkat", &["EPERM", "ENOMEM"]),
    ("userfaultfd", &["EPERM", "EMFILE", "ENOMEM"]),
];

/// A server, and what beside it is looked at after each failure.
struct Bench {
    server: Server,
    program: PathBuf,
    /// Has memory since before the first failure, which nobody touches meanwhile.
    bystander: Worker,
    /// Whether a program was killed.
    killed: Cell<bool>,
}

/// Nothing where the server has refused something.
fn worker(program: &Path, server: &Server, name: &str) -> Option<Worker> {
    let user = rustix::process::geteuid().as_raw();
    Worker::start(program, server, (user, name, PAGES))
}

impl Bench {
    fn new() -> Self {
        let folder = std::env::temp_dir();
        let folder = folder.to_str().unwrap();
        let store = ["--store", "file", "--store-directory", folder];
        let server = Server::start(&[&["--pool", "16MiB", "--log-level", "warn"], &store[..]].concat());
        let program = std::env::current_exe().unwrap();
        let bystander = worker(&program, &server, "bystander").expect("nothing fails yet");
        let bench = Self {
            server,
            program,
            bystander,
            killed: Cell::new(false),
        };
        bench.bystander.fill(1).expect("it lives");
        bench
    }

    /// Does all that clients do. Refusals are answers, and so is the end of a client; wrong bytes are none.
    fn work(&mut self, round: u64) {
        if let Ok(mut peer) = server::Peer::connect(&self.server.socket) {
            let hello = Request::Hello {
                role: Role::Observer,
                agent_thread: 0,
                name: "asker",
            };
            let _ = peer.ask(&hello, &[]);
            let ask = Request::Ask {
                question: Question::Status,
                target: "",
            };
            let _ = peer.ask(&ask, &[]);
        }
        let client = worker(&self.program, &self.server, "worker");
        if let Some(client) = client.filter(|client| client.fill(round).is_some()) {
            client.check(round);
        }
        let output = self.run_program();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            // A shell passes over the end of a part of its pipeline, but not in silence.
            assert!(output.stdout == b"1\n" || !said.is_empty(), "{output:?}");
        } else if output.status.signal() == Some(Signal::KILL.as_raw()) {
            // By the server, whose log says why.
            self.killed.set(true);
        } else if said.is_empty() {
            let (_, log) = self.server.end();
            panic!("a program that failed says why: {:?}\n{log}", output.status);
        }
    }

    /// A program under the server, to its end, which comes in any case.
    fn run_program(&self) -> Output {
        let mut child = freehold(&["exec", "--reserve", "1MiB", "--socket"])
            .arg(&self.server.socket)
            .args([
                "--",
                "sh",
                "-c",
                "strace -qq -o /dev/null true; seq 5000 | sort -rn | tail -n 1",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                let status = self.server.run(&["status"]);
                let _ = child.kill();
                panic!("a program waits for ever: {}", common::stdout(&status));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        child.wait_with_output().unwrap()
    }

    /// Nothing fails any more: everybody is served, the laws hold.
    fn must_be_well(&mut self, round: u64) {
        if let Some(status) = self.server.child.try_wait().unwrap() {
            panic!("the server ended: {status}");
        }
        let mut root = self.server.observe();
        root.must_be_served();
        root.laws_must_hold();
        assert_eq!(self.bystander.check(1), Some(()), "the bystander lives");
        let client = worker(&self.program, &self.server, "afterwards").expect("it is served");
        client.fill(round).expect("it lives");
        client.check(round).expect("it lives");
        root.laws_must_hold();
    }
}

/// Every third call of the first 200 of each thread.
const EVERY_THIRD: &str = "2..200+3";
const EACH: &str = "1+1";
/// Every second one: what is repeated where it was interrupted must come to an end.
const EVERY_SECOND: &str = "1+2";

/// Makes calls of one kind fail in all threads of a process.
struct Injection(Child);

impl Injection {
    /// Nothing where that is not allowed here.
    fn new(server: u32, call: &str, error: &str, which: &str) -> Option<Self> {
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-o", "/dev/null", "-e"])
            .arg(format!("trace={call}"))
            .arg("-e")
            .arg(format!("inject={call}:error={error}:when={which}"))
            .arg("-p")
            .arg(server.to_string());
        let mut child = command.stderr(Stdio::null()).spawn().ok()?;
        let begun = Instant::now();
        while !is_traced(server) {
            if child.try_wait().unwrap().is_some() || begun.elapsed() > Duration::from_secs(20) {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Self(child))
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        // On SIGINT it lets go of what it traces first. Of a process that has died meanwhile it does not.
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether all threads of a process are traced.
fn is_traced(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    statuses.all(|status| !status.contains("TracerPid:\t0\n"))
}

#[test]
fn player_main() {
    player::main();
}

/// Another number in each run.
fn turn() -> usize {
    let seed = std::env::var("FREEHOLD_SEED").ok();
    seed.map_or(std::process::id() as usize, |seed| seed.parse().expect("a number"))
}

/// The failures of this run, a part of these.
fn failures(calls: &[(&str, &[&str])]) -> Vec<(String, String)> {
    if let Ok(named) = std::env::var("FREEHOLD_FAILURE") {
        let (call, error) = named.split_once(':').expect("CALL:ERROR");
        return vec![(call.to_owned(), error.to_owned())];
    }
    let all = std::env::var_os("FREEHOLD_SOAK").is_some();
    let turn = turn();
    println!("FREEHOLD_SEED={turn}");
    let mut failures = Vec::new();
    for (_, (call, errors)) in (turn..).zip(calls).filter(|(at, _)| all || at % 2 == 0) {
        for (at, error) in errors.iter().enumerate() {
            if all || at == turn / 2 % errors.len() {
                failures.push(((*call).to_owned(), (*error).to_owned()));
            }
        }
    }
    failures
}

#[test]
fn whatever_system_call_fails_the_server_serves_and_the_laws_hold() {
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("NOT CHECKED: strace is not installed");
    }
    let mut bench = Bench::new();
    for (round, (call, error)) in (2..).zip(failures(&CALLS)) {
        println!("FREEHOLD_FAILURE={call}:{error}");
        let Some(injection) = Injection::new(bench.server.child.id(), &call, &error, EVERY_THIRD) else {
            return println!("NOT CHECKED: strace may not trace the server here");
        };
        bench.work(round);
        drop(injection);
        bench.must_be_well(round);
    }
    let (code, log) = bench.server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!bench.killed.get() || log.contains("is killed"), "{log}");
}

/// Sends SIGHUP, for which a server has a handler that does nothing, to each of its threads; how many there are.
fn interrupt(server: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{server}/task")).unwrap().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    // One that has ended is refused.
    let numbers = numbers.map(|thread| send_to_thread(server, thread, Signal::HUP.as_raw()));
    numbers.filter(Result::is_ok).count()
}

/// Set when this goes.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whatever any of its threads waits for, a signal comes in between.
#[test]
fn a_server_that_is_interrupted_all_the_time_serves_and_the_laws_hold() {
    let mut bench = Bench::new();
    let server = bench.server.child.id();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let storm = scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                sent += interrupt(server);
                std::thread::sleep(Duration::from_micros(300));
            }
            sent
        });
        {
            // Also where the work fails.
            let _end = Raise(&over);
            (2..6).for_each(|round| bench.work(round));
        }
        assert!(storm.join().unwrap() > 100, "it was interrupted");
    });
    bench.must_be_well(6);
    assert_eq!(bench.server.end().0, Some(0));
}

/// What a new thread asks for before its work begins. A server starts one for a user who comes, and for much else.
const THREADS: [(&str, &str); 5] = [
    ("clone3", "EAGAIN"),
    ("mmap", "ENOMEM"),
    ("mprotect", "ENOMEM"),
    ("prctl", "EPERM"),
    ("sigaltstack", "ENOMEM"),
];

#[test]
fn a_thread_that_cannot_be_set_up_is_not_the_end_of_the_server() {
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("NOT CHECKED: strace is not installed");
    }
    for (call, error) in THREADS {
        println!("FREEHOLD_FAILURE={call}:{error}, each one");
        let mut server = Server::start(&["--pool", "4MiB", "--log-level", "error"]);
        let Some(injection) = Injection::new(server.child.id(), call, error, EACH) else {
            return println!("NOT CHECKED: strace may not trace the server here");
        };
        for _ in 0..20 {
            // Its user's thread ends with the last connection.
            drop(server::Peer::connect(&server.socket));
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(injection);
        assert!(server.child.try_wait().unwrap().is_none(), "{call}: the server lives");
        server.observe().laws_must_hold();
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{call}: {log}");
    }
}

/// All that a server asks of the kernel, in its whole life.
fn calls_of_a_life() -> Vec<(&'static str, &'static [&'static str])> {
    CALLS.into_iter().chain(OTHERS).collect()
}

/// A server that starts and ends in a folder of its own, with a store that is a file.
fn short_lived(under: &[&str]) -> Server {
    let folder = std::env::temp_dir();
    let store = ["--store", "file", "--store-directory", folder.to_str().unwrap()];
    Server::begin(
        under,
        &[&["--pool", "4MiB", "--log-level", "error"], &store[..]].concat(),
    )
}

/// How many calls of this kind the dynamic linker and the runtime make before the command itself is run.
fn calls_before_work(call: &str) -> usize {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={call}"), "-e", "signal=none"]);
    let output = strace
        .arg(env!("CARGO_BIN_EXE_freehold"))
        .arg("--version")
        .output()
        .unwrap();
    common::stderr(&output).lines().count()
}

/// A start that cannot be is refused with a reason; any other can be connected to, and ends when it is told to.
#[test]
fn a_server_that_cannot_start_says_why() {
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("NOT CHECKED: strace is not installed");
    }
    for (call, error) in failures(&calls_of_a_life()) {
        let which = calls_before_work(&call) + 1 + turn() % 5;
        println!("FREEHOLD_FAILURE={call}:{error}, from call {which} on each fifth");
        let inject = format!("inject={call}:error={error}:when={which}+5");
        let trace = format!("trace={call}");
        // The server is the first process: strace is a grandchild.
        let strace = [
            "strace",
            "-D",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &trace,
            "-e",
            &inject,
        ];
        let mut server = short_lived(&strace);
        match server.is_there() {
            Ok(()) => {
                let (code, log) = server.end();
                assert!(code == Some(0) || !log.is_empty(), "{call}: {code:?}");
                assert!(code.is_some_and(|code| code != PANIC), "{call}: {code:?}\n{log}");
            }
            Err((_, said)) if said.starts_with("strace:") => {
                return println!("NOT CHECKED: strace may not trace the server here: {said}");
            }
            Err((status, said)) => {
                assert!(!said.is_empty(), "{call}: {status} and no word of it");
                assert!(
                    status.code().is_some_and(|code| code != PANIC),
                    "{call}: {status}\n{said}"
                );
            }
        }
    }
}

/// A server that cannot end in order ends all the same, and leaves nothing that keeps the next one from its place.
#[test]
fn a_server_ends_whatever_fails_and_another_takes_its_place() {
    if Command::new("strace").arg("-V").output().is_err() {
        return println!("NOT CHECKED: strace is not installed");
    }
    for (call, error) in failures(&calls_of_a_life()) {
        println!("FREEHOLD_FAILURE={call}:{error}, every second");
        let mut server = short_lived(&[]);
        server.wait_until_there();
        let Some(injection) = Injection::new(server.child.id(), &call, &error, EVERY_SECOND) else {
            return println!("NOT CHECKED: strace may not trace the server here");
        };
        let (code, log) = server.end();
        drop(injection);
        assert!(code.is_some_and(|code| code != PANIC), "{call}: {code:?}\n{log}");
        assert!(code == Some(0) || !log.is_empty(), "{call}: {code:?}");
        server.start_again(&["--pool", "4MiB"]);
        server.observe().laws_must_hold();
        assert_eq!(server.end().0, Some(0));
    }
}
