//! Processes that are not what they were: set-user-id programs, traced ones, such whose number belongs to another now,
//! and very many of them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "players/player.rs"]
mod player;
#[path = "common/server.rs"]
mod server;
#[path = "players/worker.rs"]
mod worker;

use common::{compiled, freehold, stderr, stdout};
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::message::{Question, Refusal, Request, Role};
use player::Heard;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::sched_getaffinity;
use server::{Peer, Said, Server};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use worker::{FRAMES, Worker, copy_program, hello, program_for_everybody};

const USER: u32 = 30_001;
const PAGES: u32 = 60;

#[test]
fn player_main() {
    player::main();
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("NOT CHECKED: only root can be several users");
    }
    root
}

fn server_for_all() -> Server {
    Server::start(&["--pool", "16MiB", "--quota", "1MiB"])
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A copy of a program that runs as root whoever starts it; nothing where such programs do not.
fn set_user_id(server: &Server, program: &str) -> Option<PathBuf> {
    let copy = server
        .socket
        .with_file_name(format!("root-{}", program.replace('/', "-")));
    copy_program(Path::new(program), &copy, 0o4755);
    let id = set_user_id_works(server)?;
    (id == "0").then_some(copy)
}

/// Who `id -u` says to be that was started by another user.
fn set_user_id_works(server: &Server) -> Option<String> {
    let copy = server.socket.with_file_name("root-id");
    copy_program(Path::new("/usr/bin/id"), &copy, 0o4755);
    let output = Command::new(&copy).arg("-u").uid(USER).gid(USER).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A managed program starts one that runs as root: that is root's as ever, and no client.
#[test]
fn a_set_user_id_program_is_started_by_a_managed_one_without_an_agent() {
    if !is_root() {
        return;
    }
    let server = server_for_all();
    let Some(maps) = set_user_id(&server, "/usr/bin/cat") else {
        return println!("NOT CHECKED: set-user-id programs do not run as root here");
    };
    let command = std::env::temp_dir().join(format!("freehold-odd-{}", std::process::id()));
    std::fs::create_dir_all(&command).unwrap();
    let built = PathBuf::from(env!("CARGO_BIN_EXE_freehold"));
    for name in ["freehold", "libfreehold_agent.so"] {
        copy_program(&built.with_file_name(name), &command.join(name), 0o755);
    }
    let script = format!(
        "{} /proc/self/status /proc/self/maps; cat /proc/self/maps | grep -c agent",
        maps.display()
    );
    // The user's own but for the right that `exec` needs.
    let output = Command::new("setpriv")
        .args([
            "--reuid",
            &USER.to_string(),
            "--regid",
            &USER.to_string(),
            "--clear-groups",
        ])
        .args(["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"])
        .arg(command.join("freehold"))
        .args(["exec", "--reserve", "512KiB", "--socket"])
        .arg(&server.socket)
        .args(["--", "/bin/sh", "-c", &script])
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    std::fs::remove_dir_all(&command).unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    assert!(
        said.contains(&format!("Uid:\t{USER}\t0\t0\t0")),
        "it runs as root: {said}"
    );
    let (its, own) = said.rsplit_once("[stack]").unwrap();
    assert!(
        !its.contains("freehold_agent"),
        "the agent is loaded into a program of root's: {its}"
    );
    let own: u32 = own.lines().last().unwrap().parse().unwrap();
    assert!(own > 0, "the agent is loaded into those of the user: {said}");
    server.observe().laws_must_hold();
}

/// Run by the test below as a set-user-id program; nothing where nobody asks for it.
#[test]
fn helper_that_names_its_server() {
    if std::env::var_os("FREEHOLD_TEST_NAMES").is_some() {
        println!("it connects to {}", freehold_client::default_socket().display());
    }
}

/// Whoever starts a program of root's does not choose the server that has its memory in hand.
#[test]
fn a_set_user_id_program_does_not_connect_where_its_caller_says() {
    if !is_root() {
        return;
    }
    let server = server_for_all();
    if set_user_id_works(&server).as_deref() != Some("0") {
        return println!("NOT CHECKED: set-user-id programs do not run as root here");
    }
    let (plain, raised) = (program_for_everybody(&server), server.socket.with_file_name("raised"));
    copy_program(&plain, &raised, 0o4755);
    let named = |program: &Path| {
        let output = Command::new(program)
            .args(["--exact", "helper_that_names_its_server", "--nocapture"])
            .env("FREEHOLD_TEST_NAMES", "1")
            .env("FREEHOLD_SOCKET", "/elsewhere/socket")
            .env("XDG_RUNTIME_DIR", server.socket.parent().unwrap())
            .current_dir("/")
            .uid(USER)
            .gid(USER)
            .output()
            .unwrap();
        let said = stdout(&output);
        let line = said.lines().find_map(|line| line.split_once("it connects to "));
        line.expect("a line").1.trim().to_owned()
    };
    assert_eq!(named(&plain), "/elsewhere/socket");
    assert_eq!(named(&raised), "/run/freehold/socket");
}

/// A client becomes a program of root's and keeps its connection: the server tells its user nothing of that program.
#[test]
fn what_a_client_has_become_is_not_explained_to_its_user() {
    if !is_root() {
        return;
    }
    let server = server_for_all();
    let Some(sleep) = set_user_id(&server, "/usr/bin/sleep") else {
        return println!("NOT CHECKED: set-user-id programs do not run as root here");
    };
    let program = program_for_everybody(&server);
    let worker = Worker::start(&program, &server, (USER, "changing", PAGES)).unwrap();
    let asker = player::Player::start(&program, &server.socket, USER);
    let observer = Request::Hello {
        role: Role::Observer,
        agent_thread: 0,
        name: "asker",
    };
    assert_eq!(asker.ask(&observer), Heard::Other);
    let pid = worker.player.pid();
    let explain = |target: &str| {
        asker.document(&Request::Ask {
            question: Question::Explain,
            target,
        })
    };
    assert!(
        explain(&pid.to_string()).is_some_and(|text| text.contains("pages: ")),
        "its own is explained"
    );
    worker.player.become_program(&sleep);
    let maps = format!("/proc/{pid}/maps");
    until("it sleeps as root", || {
        std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("root-"))
    });
    let place = std::fs::read_to_string(&maps).unwrap();
    let place = format!("{pid}:0x{}", place.split('-').next().unwrap());
    for target in [pid.to_string(), place] {
        let text = explain(&target).unwrap_or_default();
        assert!(text.contains("not user 30001's any more"), "{target}: {text}");
    }
    server.observe().laws_must_hold();
}

/// Who may look into a process sees and writes its pages through the kernel, or is refused: it never sees a wrong byte.
#[test]
fn another_process_reads_and_writes_the_memory_of_a_client() {
    let server = Server::start(&["--pool", "16MiB"]);
    let user = rustix::process::geteuid().as_raw();
    let program = std::env::current_exe().unwrap();
    let worker = Worker::start(&program, &server, (user, "read", PAGES)).unwrap();
    worker.fill(3).unwrap();
    let may = sched_getaffinity(None).unwrap();
    let memory = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{}/mem", worker.player.pid()));
    let Ok(memory) = memory else {
        return println!("NOT CHECKED: the memory of another process cannot be opened");
    };
    let place = worker.player.place(worker.mapping);
    let mut read = 0;
    let round_of = |page: u32| if page.is_multiple_of(2) { 4 } else { 3 };
    let mut rounds = Vec::new();
    for page in 0..PAGES {
        let mut word = [0; 8];
        let at = place + u64::from(page) * 4096;
        let seen = memory.read_exact_at(&mut word, at).is_ok();
        rounds.push(if seen { round_of(page) } else { 3 });
        if seen {
            read += 1;
            assert_eq!(u64::from_le_bytes(word), Worker::word(3, page), "page {page}");
            memory
                .write_all_at(&Worker::word(round_of(page), page).to_le_bytes(), at)
                .unwrap();
        }
    }
    // The kernel brings no page for that which is away (EIO).
    assert!(read >= FRAMES / 2, "{read} pages were read");
    for (page, round) in (0..PAGES).zip(rounds) {
        let found = worker.player.read(worker.mapping, page);
        assert_eq!(found, Some(Worker::word(round, page)), "page {page}");
    }
    // The server has left the reader's thread where it may run.
    assert_eq!(sched_getaffinity(None).unwrap(), may);
    server.observe().laws_must_hold();
}

/// A debugger stops a client at every signal and system call: it goes on slowly, and others not at all more slowly.
#[test]
fn a_traced_client_is_served() {
    let server = Server::start(&["--pool", "16MiB"]);
    let user = rustix::process::geteuid().as_raw();
    let program = std::env::current_exe().unwrap();
    let [traced, other] =
        ["traced", "other"].map(|name| Worker::start(&program, &server, (user, name, PAGES)).unwrap());
    let strace = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-p", &traced.player.pid().to_string()])
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut strace) = strace else {
        return println!("NOT CHECKED: strace is not installed");
    };
    for round in 1..4 {
        for worker in [&traced, &other] {
            worker.fill(round).unwrap();
            worker.check(round).unwrap();
        }
    }
    let traced_still = strace.try_wait().unwrap().is_none();
    let _ = kill_process(Pid::from_child(&strace), Signal::INT);
    strace.wait().unwrap();
    if !traced_still {
        println!("NOT CHECKED: strace may not trace here");
    }
    server.observe().laws_must_hold();
}

/// A process of ours that has the number `wanted`; nothing where others are always faster.
fn with_number(wanted: u32) -> Option<Child> {
    for _ in 0..2_000 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (wanted - 1).to_string()).ok()?;
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        if child.id() == wanted {
            return Some(child);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    None
}

/// A client dies while the server cannot look, and its number is another's when it does.
#[test]
fn who_has_the_number_of_a_dead_client_is_not_taken_for_it() {
    if !is_root() {
        return;
    }
    let server = server_for_all();
    let program = program_for_everybody(&server);
    let mut worker = Worker::start(&program, &server, (USER, "dies", PAGES)).unwrap();
    worker.fill(1).unwrap();
    let (pid, process) = (worker.player.pid(), Pid::from_child(&server.child));
    kill_process(process, Signal::STOP).unwrap();
    worker.player.kill();
    let heir = with_number(pid);
    kill_process(process, Signal::CONT).unwrap();
    let Some(mut heir) = heir else {
        return println!("NOT CHECKED: a process number cannot be had again here");
    };
    let mut root = server.observe();
    until("the client is gone", || {
        root.must_be_served()["clients"].as_array().unwrap().is_empty()
    });
    let count = Request::CountProcess { process: pid };
    assert!(matches!(root.ask(&count, &[]), Ok(Said::Refused(Refusal::Unknown, _))));
    assert!(heir.try_wait().unwrap().is_none(), "it lives");
    let its = Pid::from_child(&heir);
    assert_eq!(sched_getaffinity(Some(its)).unwrap(), sched_getaffinity(None).unwrap());
    root.laws_must_hold();
    heir.kill().unwrap();
    heir.wait().unwrap();
}

/// Raises what this process and its children may open to what is possible.
fn raise_descriptors() {
    let most = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: most.maximum,
        ..most
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[test]
fn one_client_more_than_the_table_has_is_refused_until_one_goes() {
    raise_descriptors();
    let server = Server::start(&["--pool", "16MiB"]);
    let mut root = server.observe();
    let Ok(userfault) = Userfault::open(Features::SERVED) else {
        return println!("NOT CHECKED: no userfaultfd");
    };
    let greet = || {
        let mut peer = server.connect();
        let said = peer.ask(&hello("one of many"), &[userfault.as_fd()]);
        (peer, said)
    };
    let mut held: Vec<Peer> = Vec::new();
    let refused = loop {
        match greet() {
            (peer, Ok(Said::Other(_))) => held.push(peer),
            (_, other) => break other,
        }
        assert!(held.len() <= 1_024, "more than there is room for");
    };
    println!("{} clients, then {refused:?}", held.len());
    let Ok(Said::Refused(Refusal::Exhausted, text)) = refused else {
        panic!("{refused:?}");
    };
    // Fewer only where descriptors are fewer.
    assert!(
        held.len() == 1_024 || text.contains("descriptor") || text.contains("open files"),
        "{text}"
    );
    assert_eq!(root.must_be_served()["clients"].as_array().unwrap().len(), held.len());
    root.laws_must_hold();
    held.pop();
    until("there is room for one", || matches!(greet().1, Ok(Said::Other(_))));
    drop(held);
    until("all are gone", || {
        root.must_be_served()["clients"].as_array().unwrap().is_empty()
    });
    root.laws_must_hold();
}

#[test]
fn hundreds_of_children_leave_nothing() {
    let Some(program) = compiled("forks") else { return };
    let server = Server::start(&["--pool", "32MiB"]);
    let children = if std::env::var_os("FREEHOLD_SOAK").is_some() {
        "2000"
    } else {
        "200"
    };
    let output = freehold(&["exec", "--reserve", "8MiB", "--socket"])
        .arg(&server.socket)
        .arg("--")
        .arg(program)
        .arg(children)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "ok\n", "{}", stderr(&output));
    let mut root = server.observe();
    until("all are gone", || {
        let status = root.must_be_served();
        status["clients"].as_array().unwrap().is_empty() && status["memory"]["committed"] == 0
    });
    root.laws_must_hold();
}

#[test]
fn a_program_is_told_of_its_own_threads_only() {
    let Some(program) = compiled("own_threads") else { return };
    let server = server_for_all();
    for exec in [None, Some("8MiB"), Some("256KiB")] {
        let output = match exec {
            None => Command::new(&program).output().unwrap(),
            Some(size) => freehold(&["exec", "--reserve", size, "--socket"])
                .arg(&server.socket)
                .arg("--")
                .arg(&program)
                .output()
                .unwrap(),
        };
        // Other folders are as they are; only root takes another root.
        let root = if rustix::process::geteuid().is_root() { 0 } else { -1 };
        let expected = format!("0 2 2\n1\n2\n1\n{root} 1\n1\n");
        assert_eq!(stdout(&output), expected, "{exec:?}: {}", stderr(&output));
        assert!(output.status.success(), "{output:?}");
    }
}

/// The paths that a program's map shows for text and constants that the server has (`ui`: its missing pages are told).
fn served_paths(of: &Command) -> Vec<String> {
    let mut command = Command::new(of.get_program());
    let output = command.args(of.get_args()).args(["cat", "/proc/self/smaps"]).output();
    let map = stdout(&output.unwrap());
    let mut path = "";
    let mut served = Vec::new();
    for line in map.lines() {
        if let Some(at) = line.find('/') {
            path = &line[at..];
        } else if line.starts_with("VmFlags:") && line.contains(" ui") {
            served.push(path.to_owned());
        }
    }
    served.dedup();
    served
}

#[test]
fn the_map_of_a_program_names_the_libraries_whose_pages_are_managed() {
    let program = env!("CARGO_BIN_EXE_freehold");
    let mut exec = Command::new(program);
    let paths = served_paths(exec.args(["exec", "--reserve", "4MiB"]));
    let ends = |name: &str| paths.iter().any(|path| path.ends_with(&format!("/{name}")));
    // Where profilers and debuggers find the symbols.
    if is_root() {
        assert!(ends("cat") && ends("libc.so.6"), "{paths:?}");
        for path in &paths {
            assert!(Path::new(path).is_file(), "{path}");
        }
    }
    // A server without the right to mount.
    let mut exec = Command::new("setpriv");
    exec.args([
        "--bounding-set=-sys_admin",
        "--inh-caps=-sys_admin",
        program,
        "exec",
        "--reserve",
        "4MiB",
    ]);
    let paths = served_paths(&exec);
    for name in ["cat", "libc.so.6"] {
        let name = format!("/memfd:freehold-file:{name} (deleted)");
        assert!(paths.contains(&name), "{name}: {paths:?}");
    }
}
