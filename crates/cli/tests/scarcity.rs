//! What a server needs runs out while it serves, or its time stands still: a full disk, no descriptor left, a pause.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "players/player.rs"]
mod player;
#[path = "common/server.rs"]
mod server;
#[path = "players/worker.rs"]
mod worker;

use common::{children, freehold, stderr, stdout};
use freehold_protocol::message::{Question, Request};
use player::Player;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use server::{Said, Server};
use std::io::BufRead;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use worker::{FRAMES, Worker};

#[test]
fn player_main() {
    player::main();
}

fn worker(server: &Server, name: &str, pages: u32) -> Option<Worker> {
    let program = std::env::current_exe().unwrap();
    let user = rustix::process::geteuid().as_raw();
    Worker::start(&program, server, (user, name, pages))
}

/// A file system with room for so many bytes, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Nothing where this may not be mounted.
    fn new(bytes: u32) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("freehold-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(&folder)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        let _ = std::fs::remove_dir(&folder);
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Room for every page is taken when the server begins, or it does not begin: a disk that is full later harms nobody.
#[test]
fn a_disk_that_is_full_is_found_out_before_anybody_is_served() {
    let Some(disk) = SmallDisk::new(1 << 20) else {
        return println!("NOT CHECKED: no file system may be mounted");
    };
    let socket = disk.0.join("socket");
    let output = freehold(&["serve", "--pool", "16MiB", "--store", "file", "--store-directory"])
        .arg(&disk.0)
        .arg("--socket")
        .arg(&socket)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("does not fit the file system"),
        "{}",
        stderr(&output)
    );
    assert!(!socket.exists());
}

/// No descriptor is left: who has memory is served, who asks for more is refused, and later nobody is.
#[test]
fn without_a_descriptor_left_pages_are_served_and_requests_refused() {
    let server = Server::start(&["--pool", "16MiB"]);
    let before = worker(&server, "before", FRAMES * 2).unwrap();
    before.fill(1).unwrap();
    let mut root = server.observe();
    let process = Pid::from_child(&server.child);
    for spare in [0, 1, 2, 3, 5, 8, 12] {
        let Some(usual) = limit_descriptors(&server, spare) else {
            return;
        };
        let ask = Request::Ask {
            question: Question::Status,
            target: "",
        };
        assert!(matches!(root.ask(&ask, &[]), Ok(Said::Document(_) | Said::Refused(..))));
        // Nobody knows how long it waits to be accepted: it is let go.
        let program = std::env::current_exe().unwrap();
        let waiting = Player::start(&program, &server.socket, rustix::process::geteuid().as_raw());
        before.fill(2 + spare).unwrap();
        before.check(2 + spare).unwrap();
        prlimit(Some(process), Resource::Nofile, usual).unwrap();
        drop(waiting);
        root.laws_must_hold();
        let after = worker(&server, "after", FRAMES * 2).unwrap();
        after.fill(9).unwrap();
        after.check(9).unwrap();
    }
    root.laws_must_hold();
}

/// As when a machine sleeps or a clock jumps: the server is stopped for longer than any of its bounds, and takes nobody
/// for unresponsive who has answered meanwhile.
#[test]
fn a_server_that_was_stopped_blames_nobody() {
    let server = Server::start(&["--pool", "16MiB"]);
    let process = Pid::from_child(&server.child);
    let script = "for i in 1 2 3; do seq 60000 | sort -rn | tail -n 1; done";
    let run = |_| {
        freehold(&["exec", "--reserve", "1MiB", "--socket"])
            .arg(&server.socket)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut programs = [0, 1].map(run);
    let begun = Instant::now();
    let mut stops = 0;
    while programs.iter_mut().any(|program| program.try_wait().unwrap().is_none()) {
        assert!(begun.elapsed() < Duration::from_secs(120), "never over");
        std::thread::sleep(Duration::from_millis(300));
        if stops < 3 {
            kill_process(process, Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_millis(1_300));
            kill_process(process, Signal::CONT).unwrap();
            stops += 1;
        }
    }
    for program in programs {
        let output = program.wait_with_output().unwrap();
        assert_eq!(
            stdout(&output),
            "1\n1\n1\n",
            "{}{:?}",
            stderr(&output),
            output.status.signal()
        );
    }
    let mut root = server.observe();
    root.laws_must_hold();
    println!("stopped {stops} times");
}

/// Leaves the server about so many descriptors beyond what it has open, or none at all; how many it might have before.
fn limit_descriptors(server: &Server, spare: u64) -> Option<Rlimit> {
    let process = Pid::from_child(&server.child);
    let folder = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap();
    let open: Vec<u64> = folder
        .map(|file| file.unwrap().file_name().into_string().unwrap().parse().unwrap())
        .collect();
    let free = (0..).find(|number| !open.contains(number)).unwrap();
    let few = Rlimit {
        current: Some(free + spare),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let usual = prlimit(Some(process), Resource::Nofile, few);
    if usual.is_err() {
        println!("NOT CHECKED: the limit of another process may not be set");
    }
    usual.ok()
}

fn exec(server: &Server, words: &[&str]) -> Command {
    let mut command = freehold(&["exec", "--socket"]);
    command.arg(&server.socket).arg("--").args(words).stdin(Stdio::null());
    command
}

fn echo_runs_with(server: &Server, usual: Rlimit) {
    prlimit(Some(Pid::from_child(&server.child)), Resource::Nofile, usual).unwrap();
    let output = exec(server, &["/bin/echo", "here"]).output().unwrap();
    assert_eq!((stdout(&output), stderr(&output)), ("here\n".to_owned(), String::new()));
    server.observe().laws_must_hold();
}

/// A command under a reservation, which has its frames when its first word is read and ends with its input.
fn reserved(server: &Server, size: &str) -> Child {
    let mut command = freehold(&["exec", "--reserve", size, "--socket"]);
    command
        .arg(&server.socket)
        .args(["--", "sh", "-c", "echo here; read end"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
    line
}

/// Others may reserve all but a few frames while a program without a reservation runs, and that goes on with these. One
/// that comes when all are reserved is told so, and does not begin.
#[test]
fn programs_without_a_reservation_have_frames_whoever_reserves() {
    let server = Server::start(&["--pool", "16MiB"]);
    let work = "x=$(seq 20000); echo here; read go; for i in 1 2 3; do echo \"$x\" | cksum; done";
    let mut program = exec(&server, &["sh", "-c", work]);
    program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = program.spawn().unwrap();
    assert_eq!(first_line(&mut program), "here\n");

    let refused = reserved(&server, "16MiB").wait_with_output().unwrap();
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(125), "{said}");
    assert!(
        said.contains("64 frames stay for programs without a reservation"),
        "{said}"
    );

    let mut most = reserved(&server, "16128KiB");
    assert_eq!(first_line(&mut most), "here\n");
    let goes_on = program.wait_with_output().unwrap();
    assert!(goes_on.status.success(), "{}", stderr(&goes_on));
    assert_eq!(stdout(&goes_on), "3231941463 108894\n".repeat(3));
    assert!(most.wait_with_output().unwrap().status.code().is_some());

    let mut all = reserved(&server, "16MiB");
    assert_eq!(first_line(&mut all), "here\n");
    let late = exec(&server, &["/bin/echo", "late"]).output().unwrap();
    assert_eq!((late.status.code(), stdout(&late)), (Some(125), String::new()));
    assert!(
        stderr(&late).contains("all of the pool is reserved"),
        "{}",
        stderr(&late)
    );
    drop(all.stdin.take());
    all.wait().unwrap();
    server.observe().laws_must_hold();
}

/// A fork for which no descriptor is left ends the program, which first says why. The server and whoever comes go on.
#[test]
fn a_fork_without_a_descriptor_left_ends_its_program_with_a_word() {
    let Some(program) = common::compiled("brief") else {
        return;
    };
    let server = Server::start(&["--pool", "64MiB", "--log-level", "error"]);
    let Some(usual) = limit_descriptors(&server, 60) else {
        return;
    };
    let output = exec(&server, &[program.to_str().unwrap(), "400", "together"])
        .output()
        .unwrap();
    let said = (stdout(&output), stderr(&output));
    assert!(!output.status.success(), "{said:?}");
    assert!(
        said.1.contains("the memory server has no room for one more child"),
        "{said:?}"
    );
    echo_runs_with(&server, usual);
}

/// Starts a program that forks, and stops the server while the program waits for it in a fork; the program's process.
fn stopped_in_a_fork(server: &Server, program: &mut Child) -> Pid {
    let process = Pid::from_child(&server.child);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let forks = children(program.id());
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        if let [forks] = *forks
            && children(forks).len() > 2
            && state(&format!("/proc/{forks}/stat")) == 'D'
        {
            return Pid::from_raw(forks.cast_signed()).unwrap();
        }
        assert!(program.try_wait().unwrap().is_none(), "it never waits");
        kill_process(process, Signal::CONT).unwrap();
    }
}

/// The state of a process or thread, of its file `stat`.
fn state(file: &str) -> char {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.chars().next().unwrap_or('?')
}

/// Stops a process whose first thread waits such that it takes no signal, by way of another thread.
fn stop_all_but_first(process: Pid) {
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap();
        let numbers = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
        let numbers = numbers.map(|number| Pid::from_raw(number.parse().unwrap()).unwrap());
        numbers.filter(|thread| *thread != process)
    };
    kill_process(threads().next().unwrap(), Signal::STOP).unwrap();
    while !threads().all(|thread| state(&format!("/proc/{}/stat", thread.as_raw_nonzero())) == 'T') {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a program ends that is stopped when the server has no descriptor for the child that it forks. Nothing where the
/// server, which was stopped in the midst of something, had one after all.
fn end_of_a_stopped_program(server: &Server, forking: &str) -> Option<ExitStatus> {
    let mut program = exec(server, &[forking, "400", "together"]).spawn().unwrap();
    let forks = stopped_in_a_fork(server, &mut program);
    let usual = limit_descriptors(server, 0)?;
    stop_all_but_first(forks);
    let process = Pid::from_child(&server.child);
    kill_process(process, Signal::CONT).unwrap();
    let begun = Instant::now();
    let status = loop {
        let status = program.try_wait().unwrap();
        if status.is_some() || state(&format!("/proc/{}/stat", forks.as_raw_nonzero())) == 'T' {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never over");
        std::thread::sleep(Duration::from_millis(20));
    };
    prlimit(Some(process), Resource::Nofile, usual).unwrap();
    if status.is_none() {
        kill_process(forks, Signal::KILL).unwrap();
        program.wait().unwrap();
    }
    status
}

/// A fork that cannot be read is not read again and again at the priority of a pager thread, and whoever does not say
/// within the bound why it ends does so without a word.
#[test]
fn a_fork_without_a_descriptor_left_ends_a_program_that_is_stopped() {
    let Some(forking) = common::compiled("brief") else {
        return;
    };
    let server = Server::start(&["--pool", "64MiB"]);
    let Some(usual) = limit_descriptors(&server, 60) else {
        return;
    };
    prlimit(Some(Pid::from_child(&server.child)), Resource::Nofile, usual).unwrap();
    let end = (0..20).find_map(|_| {
        let before = rounds(&server);
        let status = end_of_a_stopped_program(&server, forking.to_str().unwrap())?;
        Some((status, rounds(&server) - before))
    });
    let (status, rounds) = end.expect("the server had descriptors each time");
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    assert!(rounds < 20_000, "{rounds} rounds");
    println!("{rounds} rounds");
    echo_runs_with(&server, usual);
}

/// How often pager threads of the server have looked for something to do.
fn rounds(server: &Server) -> u64 {
    let status = server.observe().must_be_served();
    let pagers = status["pagers"].as_array().unwrap().iter();
    pagers.map(|pager| pager["messages"].as_u64().unwrap()).sum()
}
