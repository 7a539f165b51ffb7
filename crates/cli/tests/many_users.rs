//! Several real users at one server of root's, who take whatever they can: root and whoever comes find room.
//!
//! Only root can be somebody else; without it the tests say so and end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::message::{Answer, LIMIT, Regime, RegionKind, Request, ReservationKind, Role};
use rustix::fs::Uid;
use server::{Server, bytes};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Regions that each user who takes all it can asks for.
const REGIONS: usize = 2_048;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not tested: only root can act as other users");
    }
    root
}

/// The command and the agent's library, where every user can run them.
struct Copies(PathBuf);

impl Copies {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("freehold-users-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let copies = Self(folder);
        let command = Path::new(env!("CARGO_BIN_EXE_freehold"));
        copies.copy(command, "freehold");
        copies.copy(&command.with_file_name("libfreehold_agent.so"), "libfreehold_agent.so");
        copies.copy(&std::env::current_exe().unwrap(), "test");
        copies
    }

    /// A program in a reservation, or in the pool, by a user who may have its faults served.
    fn exec(&self, user: u32, server: &Server, reserve: Option<&str>, program: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            &user.to_string(),
            "--regid",
            &user.to_string(),
            "--clear-groups",
        ]);
        command.args(["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace", "--"]);
        command.arg(self.0.join("freehold"));
        command.args(["exec", "--socket"]).arg(&server.socket);
        if let Some(size) = reserve {
            command.args(["--reserve", size]);
        }
        command.arg("--").args(program).current_dir("/").stdin(Stdio::null());
        command
    }

    /// A copy of another program.
    fn copy(&self, program: &Path, name: &str) -> PathBuf {
        let copy = self.0.join(name);
        std::fs::copy(program, &copy).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        copy
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Does something as another user, in a thread whose credentials are that user's.
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

fn ask(socket: &PacketSocket, request: &Request<'_>, sent: &[BorrowedFd<'_>]) -> Result<(), String> {
    socket.send(&bytes(request, 1), sent).unwrap();
    let mut buffer = [0; LIMIT];
    let packet = socket.receive(&mut buffer).unwrap().expect("an answer");
    match Answer::decode(&buffer[..packet.length]).unwrap().1 {
        Answer::Refused { text, .. } => Err(text.to_owned()),
        _ => Ok(()),
    }
}

/// Connections that have opened as many regions of a page as they get, and how many these are.
fn flood(path: &Path, userfault: BorrowedFd<'_>) -> (Vec<PacketSocket>, usize) {
    let (mut sockets, mut opened) = (Vec::new(), 0);
    while opened < REGIONS {
        let socket = PacketSocket::connect(path).unwrap();
        let hello = Request::Hello {
            role: Role::Library,
            agent_thread: 1,
            name: "flood",
        };
        if ask(&socket, &hello, &[userfault]).is_err() {
            break;
        }
        let before = opened;
        let region = Request::OpenRegion {
            name: "",
            pages: 1,
            kind: RegionKind::Private,
            regime: Regime::Conserve,
        };
        while opened < REGIONS && ask(&socket, &region, &[]).is_ok() {
            opened += 1;
        }
        sockets.push(socket);
        if opened == before {
            break;
        }
    }
    (sockets, opened)
}

fn succeeds(output: &Output) {
    let said = (output.status.code(), common::stdout(output), common::stderr(output));
    assert_eq!(said, (Some(0), "here\n".to_owned(), String::new()));
}

#[test]
fn users_who_take_all_they_can_leave_room_for_root_and_for_others() {
    if !is_root() {
        return;
    }
    let copies = Copies::new("tables");
    let server = Server::start(&["--pool", "64MiB", "--quota", "8MiB", "--log-level", "error"]);
    let userfault = Userfault::open(Features::SERVED).unwrap();
    let floods: Vec<_> = (20_001..20_005)
        .map(|user| as_user(user, || flood(&server.socket, userfault.as_fd())))
        .collect();
    let opened: Vec<usize> = floods.iter().map(|(_, opened)| *opened).collect();
    println!("{opened:?} regions");
    assert!(opened.windows(2).all(|pair| pair[0] >= pair[1]), "{opened:?}");
    assert!(opened.iter().all(|opened| *opened >= 128), "{opened:?}");
    for user in [0, 20_005] {
        let reserve = (user == 20_005).then_some("4MiB");
        succeeds(
            &copies
                .exec(user, &server, reserve, &["/bin/echo", "here"])
                .output()
                .unwrap(),
        );
    }
    drop(floods);
}

/// Some of so many forks were made, and their children ended as they should.
fn assert_some_forks_of(most: u32, output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let made: Option<u32> = said.strip_suffix(" 7\n").and_then(|made| made.parse().ok());
    assert!(made.is_some_and(|made| (16..most).contains(&made)), "{said}");
}

/// A fork past a user's part is refused. One that the agent does not see ends the parent, which first says why.
#[test]
fn a_fork_past_a_users_part_is_refused_and_one_unseen_ends_the_program() {
    let program = is_root().then(|| common::compiled("brief")).flatten();
    let Some(program) = program else { return };
    let copies = Copies::new("forks");
    let server = Server::start(&["--pool", "64MiB", "--quota", "8MiB", "--log-level", "error"]);
    let brief = copies.copy(&program, "brief");
    let brief = brief.to_str().unwrap();
    let refused = copies
        .exec(20_001, &server, None, &[brief, "600", "together"])
        .output()
        .unwrap();
    assert!(refused.status.success(), "{refused:?}");
    assert_some_forks_of(600, &refused);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("Resource temporarily unavailable"), "{error}");
    // The agent opens standard error anew, which it may not where that is another user's pipe.
    let errors = copies.0.join("errors");
    let file = std::fs::File::create(&errors).unwrap();
    std::fs::set_permissions(&errors, Permissions::from_mode(0o666)).unwrap();
    let mut command = copies.exec(20_001, &server, None, &[brief, "600", "unseen"]);
    let output = command.stderr(file.try_clone().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    let said = std::fs::read_to_string(&errors).unwrap();
    assert!(
        said.contains("freehold: the memory server has no room for one more child"),
        "{said}"
    );
}

/// So many children at the same time, under a server that has room for 62 clients.
fn forks_with_few_descriptors(program: &Path, children: &str) -> Output {
    let limited = common::with_descriptors(1_000);
    let under = limited.each_ref().map(String::as_str);
    common::freehold_under(&under, &["exec", "--reserve", "64MiB", "--"])
        .arg(program)
        .args([children, "together"])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A child has one of the places that the limit leaves, also while it connects. Each round finds them all.
#[test]
fn as_many_children_as_the_limit_says_have_a_place() {
    let Some(program) = common::compiled("brief") else {
        return;
    };
    for round in 0..6 {
        // Of 62 places one is the parent's, and four are never given to forks.
        let output = forks_with_few_descriptors(&program, "57");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "57 7\n",
            "round {round}: {output:?}"
        );
    }
}

/// A server that may have few descriptors has places for fewer clients: past that a fork is refused as well.
#[test]
fn a_fork_that_the_server_has_no_descriptors_for_is_refused() {
    let Some(program) = common::compiled("brief") else {
        return;
    };
    let output = forks_with_few_descriptors(&program, "300");
    assert!(output.status.success(), "{output:?}");
    assert_some_forks_of(300, &output);
}

/// A process of user 20,001's in a user name space that it owns, where it has other users too, until it is dropped.
struct Space(Child);

impl Space {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "sh", "-c", "echo; exec sleep 1000"]);
        let mut child = command.uid(20_001).gid(20_001).stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let mut space = Self(child);
        if line.is_empty() {
            println!("not tested: other users may make no user name spaces");
            return None;
        }
        for map in ["uid_map", "gid_map"] {
            let path = format!("/proc/{}/{map}", space.0.id());
            let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all(b"0 20001 1\n1 300000 10\n").unwrap();
        }
        space.0.try_wait().unwrap().is_none().then_some(space)
    }

    /// A command in the name space, as one of its users.
    fn command(&self, user: u32) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--user", "--target", &self.0.id().to_string()]);
        inside.args([
            "--setuid",
            &user.to_string(),
            "--setgid",
            &user.to_string(),
            "--",
            "env",
        ]);
        inside
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Set in a process that asks for frames: the server's socket.
const ASK: &str = "FREEHOLD_TEST_ASKS";
/// Frames that it asks for: more than half of a quota.
const FRAMES: u32 = 1_536;

/// The main function of processes that ask for frames, and keep them until their standard input ends.
#[test]
fn asks_for_frames() {
    let Some(path) = std::env::var_os(ASK) else { return };
    let socket = PacketSocket::connect(Path::new(&path)).unwrap();
    let hello = Request::Hello {
        role: Role::Observer,
        agent_thread: 0,
        name: "asks",
    };
    ask(&socket, &hello, &[]).unwrap();
    let reserve = Request::Reserve {
        name: "frames",
        frames: FRAMES,
        kind: ReservationKind::Hard,
    };
    let said = ask(&socket, &reserve, &[]).err();
    println!("said: {}", said.as_deref().unwrap_or("granted"));
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A process that has asked for frames, until it is dropped, and what it was told.
struct Asker(Child, String);

impl Asker {
    /// Run by a command that runs others, as whoever that makes it.
    fn new(mut command: Command, copies: &Copies, server: &Server) -> Self {
        let mut socket = std::ffi::OsString::from(format!("{ASK}="));
        socket.push(&server.socket);
        command
            .arg(socket)
            .arg(copies.0.join("test"))
            .args(["--exact", "asks_for_frames", "--nocapture"]);
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines.filter_map(|line| Some(line.unwrap().split_once("said: ")?.1.to_owned()));
        let said = said.next().expect("an answer");
        Self(child, said)
    }

    /// By a user outside of all name spaces.
    fn of(user: u32, copies: &Copies, server: &Server) -> Self {
        let mut command = Command::new("env");
        command.uid(user).gid(user);
        Self::new(command, copies, server)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn all_users_of_a_name_space_share_its_owners_quota() {
    let Some(space) = is_root().then(Space::new).flatten() else {
        return;
    };
    let copies = Copies::new("spaces");
    let server = Server::start(&["--pool", "128MiB", "--quota", "8MiB", "--log-level", "error"]);
    let holder = Asker::of(20_001, &copies, &server);
    assert_eq!(holder.1, "granted");
    for user in [0, 1, 2] {
        let Asker(_, said) = &Asker::new(space.command(user), &copies, &server);
        assert!(said.contains("user 20001 may reserve 2048"), "{user}: {said}");
    }
    assert_eq!(Asker::of(20_002, &copies, &server).1, "granted");
    drop(holder);
    let inside = Asker::new(space.command(3), &copies, &server);
    assert_eq!(inside.1, "granted");
    let Asker(_, said) = &Asker::of(20_001, &copies, &server);
    assert!(said.contains("user 20001 may reserve 2048"), "{said}");
}

#[test]
fn all_users_together_have_a_quota() {
    if !is_root() {
        return;
    }
    let copies = Copies::new("total");
    let mut options = vec!["--pool", "64MiB", "--quota", "8MiB", "--quota-total", "16MiB"];
    options.extend(["--log-level", "error"]);
    let server = Server::start(&options);
    let holders = [20_001, 20_002].map(|user| Asker::of(user, &copies, &server));
    assert!(holders.iter().all(|holder| holder.1 == "granted"));
    let Asker(_, said) = &Asker::of(20_003, &copies, &server);
    let named = said.contains("all users together may reserve 4096") && said.contains("--quota-total");
    assert!(named, "{said}");
    assert_eq!(Asker::of(0, &copies, &server).1, "granted");
    drop(holders);
}
