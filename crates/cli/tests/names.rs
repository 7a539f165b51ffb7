//! Names that others have chosen: what they may do to whoever reads them, and whose they are.
//!
//! Only root can be somebody else; without it the tests with several users say so and end.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::message::{Answer, LIMIT, Regime, RegionKind, Request, ReservationKind, Role};
use freehold_protocol::shown::is_unseen;
use rustix::fs::{Gid, Uid};
use serde_json::Value;
use server::{Said, Server, bytes};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 12_345;
const SMALL: [&str; 4] = ["--pool", "16MiB", "--quota", "1MiB"];

/// Turns what follows about, ends the line for some, clears the screen, is nowhere to be seen.
const EVIL: &str = "gain\u{202e}niag\u{2066}\u{2028}\u{2029}\u{200b}\u{200f}\u{feff}\u{ad}\u{85}\u{1b}[2J\u{e0041}";

fn is_harmless(text: &str) -> bool {
    !text.chars().any(|character| is_unseen(character) && character != '\n')
}

#[test]
fn a_name_does_nothing_to_what_stands_around_it() {
    let mut server = Server::start(&SMALL);
    let mut peer = server.observe();
    let reserve = Request::Reserve {
        name: EVIL,
        frames: 4,
        kind: ReservationKind::Hard,
    };
    assert!(matches!(peer.ask(&reserve, &[]), Ok(Said::Reserved(..))));
    let too_much = Request::Reserve {
        name: EVIL,
        frames: u32::MAX,
        kind: ReservationKind::Hard,
    };
    assert!(matches!(peer.ask(&too_much, &[]), Ok(Said::Refused(..))));
    let status: Value = peer.must_be_served();
    let name = status["reservations"][0]["name"].as_str().unwrap().to_owned();
    assert!(
        name.starts_with(r"gain\u{202e}niag\u{2066}\u{2028}") && is_harmless(&name),
        "{name}"
    );
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["top", "--once"],
        &["explain", &name],
        &["explain", EVIL],
    ] {
        let output = server.run(arguments);
        let (said, errors) = (common::stdout(&output), common::stderr(&output));
        assert!(
            said.contains("gain") || errors.contains("gain"),
            "{arguments:?}: {said}{errors}"
        );
        assert!(
            is_harmless(&said) && is_harmless(&errors),
            "{arguments:?}: {said:?}{errors:?}"
        );
    }
    drop(peer);
    let (_, log) = server.end();
    assert!(is_harmless(&log), "{log:?}");
}

/// Whether there can be other users; says so where not.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("not tested: only root can act as other users");
    }
    root
}

/// Does something as another user, in a thread whose credentials are that user's.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let become_user = move || {
            let (group, id) = (Gid::from_raw(user), Uid::from_raw(user));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(id, id, id).unwrap();
            act()
        };
        scope.spawn(become_user).join().unwrap()
    })
}

/// A client with memory.
struct Client(PacketSocket);

impl Client {
    /// Connects as the user that the thread is.
    fn connect(path: &Path, userfault: &Userfault) -> Self {
        let client = Self(PacketSocket::connect(path).unwrap());
        let hello = Request::Hello {
            role: Role::Library,
            agent_thread: 1,
            name: "x",
        };
        client.ask(&hello, &[userfault.as_fd()]).unwrap();
        client
    }

    /// The descriptors that come with the answer; the text of a refusal.
    fn ask(&self, request: &Request<'_>, sent: &[BorrowedFd<'_>]) -> Result<Vec<OwnedFd>, String> {
        self.0.send(&bytes(request, 1), sent).unwrap();
        let mut buffer = [0; LIMIT];
        let packet = self.0.receive(&mut buffer).unwrap().expect("an answer");
        match Answer::decode(&buffer[..packet.length]).unwrap().1 {
            Answer::Refused { text, .. } => Err(text.to_owned()),
            _ => Ok(packet.descriptors),
        }
    }

    /// Which object a region of so many pages is.
    fn region(&self, name: &str, pages: u32) -> Result<u64, String> {
        let open = Request::OpenRegion {
            name,
            pages,
            kind: RegionKind::Shared,
            regime: Regime::Conserve,
        };
        let object = File::from(self.ask(&open, &[])?.pop().unwrap());
        Ok(object.metadata().unwrap().ino())
    }
}

#[test]
fn a_region_is_its_users_and_root_is_not_given_anothers() {
    if !is_root() {
        return;
    }
    let server = Server::start(&SMALL);
    let userfault = Userfault::open(Features::SERVED).unwrap();
    let nobody = as_user(NOBODY, || Client::connect(&server.socket, &userfault));
    let somebody = as_user(SOMEBODY, || Client::connect(&server.socket, &userfault));
    let root = Client::connect(&server.socket, &userfault);
    // It is there before root's, in the size that root's has.
    let theirs = nobody.region("log", 4).unwrap();
    let own = root.region("log", 4).unwrap();
    assert_ne!(own, theirs, "root was given what nobody had called so");
    assert_eq!(root.region("log", 4), Ok(own));
    assert_eq!(root.region("65534:log", 4), Ok(theirs));
    assert_eq!(nobody.region("log", 4), Ok(theirs));
    assert_eq!(nobody.region("65534:log", 4), Ok(theirs));
    // Another size is no refusal: it is another region.
    let another = somebody.region("log", 7).unwrap();
    assert!(another != own && another != theirs);
    for (client, name, why) in [
        (&somebody, "65534:log", "user 65534's"),
        (&nobody, "0:log", "user 0's"),
        (&root, "65534:none", "has no region"),
    ] {
        let refused = client.region(name, 4).unwrap_err();
        assert!(refused.contains(why), "{name}: {refused}");
    }
    let names = |status: &Value| -> Vec<String> {
        let rows = status["objects"].as_array().unwrap().iter();
        let mut names: Vec<_> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let status = server.observe().must_be_served();
    assert_eq!(names(&status), ["12345:log", "65534:log", "log"]);
    let explained = server.run(&["explain", "65534:log"]);
    assert!(
        common::stdout(&explained).contains("65534:log"),
        "{}",
        common::stderr(&explained)
    );
    let status = as_user(NOBODY, || server.observe()).must_be_served();
    assert_eq!(
        names(&status),
        ["log"],
        "a user's own regions are called as he calls them"
    );
}

#[test]
fn a_file_is_called_what_the_server_finds_and_not_what_its_first_opener_says() {
    let server = Server::start(&SMALL);
    let Ok(userfault) = Userfault::open(Features::SERVED) else {
        println!("not tested: no userfaultfd");
        return;
    };
    let client = Client::connect(&server.socket, &userfault);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("a\u{202e}b-{}", std::process::id()));
    std::fs::write(&path, [7; 4096]).unwrap();
    let file = File::open(&path).unwrap();
    let open = Request::OpenFile {
        regime: Regime::Conserve,
        path: "/etc/shadow",
    };
    client.ask(&open, &[file.as_fd()]).unwrap();
    let status = server.observe().must_be_served();
    let shown = status["objects"][0]["name"].as_str().unwrap();
    let expected = path
        .canonicalize()
        .unwrap()
        .to_str()
        .unwrap()
        .replace('\u{202e}', r"\u{202e}");
    assert_eq!(shown, expected);
    std::fs::remove_file(&path).unwrap();
}
