//! A server's life, its documents, tickets and rights, as the command shows them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{document, freehold, status, stderr, stdout};
use freehold_client::{Connection, Options, Regime, RegionKind, RegionSpec};
use freehold_protocol::message::{Question, Refusal, Request, ReservationKind};
use freehold_report::explanation::Explanation;
use freehold_report::status::StatusDocument;
use freehold_report::what_if::WhatIf;
use server::{Peer, Said, Server};

const SMALL: [&str; 2] = ["--pool", "16MiB"];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn reserve(peer: &mut Peer, name: &str, frames: u32) -> Said {
    let kind = ReservationKind::Hard;
    peer.ask(&Request::Reserve { name, frames, kind }, &[]).unwrap()
}

#[test]
fn one_server_for_each_socket_from_its_start_to_its_end() {
    let mut server = Server::start(&SMALL);
    let mode = std::fs::metadata(&server.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = server.run(&["serve", "--pool", "16MiB"]);
    assert_eq!(status(&second), 1);
    assert!(
        stderr(&second).contains("another server listens"),
        "{}",
        stderr(&second)
    );
    // It ends on SIGTERM, tells whoever is connected, and takes its socket away.
    let peer = server.observe();
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(matches!(peer.hear(), Some((0, Said::Refused(Refusal::Ending, _)))));
    assert!(peer.is_closed());
    assert!(!server.socket.exists());
    assert!(log.contains("serving") && log.contains("ended"), "{log}");
    let nobody = server.run(&["status"]);
    assert_eq!(status(&nobody), 1);
    assert!(
        stderr(&nobody).contains("no memory server answers"),
        "{}",
        stderr(&nobody)
    );
    // What a killed server leaves behind is replaced.
    server.start_again(&SMALL);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(server.socket.exists());
    server.start_again(&SMALL);
    server.observe().must_be_served();
}

#[test]
fn the_service_manager_is_told() {
    let directory = std::env::temp_dir().join(format!("freehold-notify-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (told, socket) = (directory.join("notify"), directory.join("socket"));
    let manager = std::os::unix::net::UnixDatagram::bind(&told).unwrap();
    manager
        .set_read_timeout(Some(std::time::Duration::from_secs(60)))
        .unwrap();
    let mut command = freehold(&["serve", "--pool", "16MiB", "--socket"]);
    let mut child = command.arg(&socket).env("NOTIFY_SOCKET", &told).spawn().unwrap();
    let mut buffer = [0; 256];
    let length = manager.recv(&mut buffer).unwrap();
    assert!(buffer[..length].starts_with(b"READY=1"));
    assert!(socket.exists());
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let length = manager.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"STOPPING=1");
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn wrong_usage_is_said_before_anything_begins() {
    for (arguments, word) in [
        (&["serve", "--pool", "1KiB"][..], "at least"),
        (&["serve", "--pool", "x"], "size"),
        (&["serve", "--allow", "nobody-of-this-name=1MiB"], "/etc/passwd"),
        (&["serve", "--unresponsive", "sulk"], "kill"),
        (&["serve", "--priority", "100"], "1..=99"),
        (&["serve", "--socket-mode", "999"], "octal"),
        (&["explain"], "TARGET"),
    ] {
        let output = freehold(arguments).output().unwrap();
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn documents_have_the_names_of_the_contract() {
    let server = Server::start(&SMALL);
    let mut holder = server.observe();
    assert!(matches!(reserve(&mut holder, "r1", 1_000), Said::Reserved(..)));
    let output = server.run(&["status", "--json"]);
    assert_eq!(status(&output), 0);
    let json = document(&output);
    let row = &json["reservations"][0];
    for (field, value) in [
        ("capacity", 1_000),
        ("active", 0),
        ("inactive", 0),
        ("free", 1_000),
        ("locked", 0),
        ("in_flight", 0),
        ("owed", 0),
        ("borrowed", 0),
        ("owned", 0),
        ("conserved", 0),
        ("outside", 0),
        ("held", 1_000),
        ("peak", 1_000),
    ] {
        assert_eq!(row[field], value, "{field}");
    }
    assert_eq!((&row["name"], &row["type"]), (&"r1".into(), &"hard".into()));
    for field in ["reads", "writes", "read_bytes"] {
        assert!(json["store"][field].is_u64(), "{field}");
    }
    for field in ["pool", "used", "peak", "outside", "resident_measured"] {
        assert!(json["memory"][field].is_u64(), "{field}");
    }
    let parsed: StatusDocument = serde_json::from_value(json).unwrap();
    assert_eq!(
        (parsed.memory.pool, parsed.memory.committed, parsed.partial),
        (4_096, 1_000, false)
    );
    assert_eq!(parsed.server.pid, server.child.id());
    let page = stdout(&server.run(&["status"]));
    assert!(page.contains("r1") && page.contains("4096 frames"), "{page}");
}

#[test]
fn explanations_name_the_guarantee_and_what_would_have_to_give() {
    let server = Server::start(&SMALL);
    let mut holder = server.observe();
    assert!(matches!(reserve(&mut holder, "r1", 3_000), Said::Reserved(..)));
    let output = server.run(&["explain", "r1", "--json"]);
    let explanation: Explanation = serde_json::from_value(document(&output)).unwrap();
    assert_eq!(
        (&*explanation.kind, explanation.guarantees[0].frames),
        ("reservation", 3_000)
    );
    assert!(stdout(&server.run(&["explain", "r1"])).contains("guarantee: it has 3000 frames"));
    for (size, admitted) in [
        ("4MiB", true),
        ("1096KiB", true),
        ("4388KiB", false),
        ("16MiB firm", false),
    ] {
        let output = server.run(&["explain", "--what-if", size, "--json"]);
        let judged: WhatIf = serde_json::from_value(document(&output)).unwrap();
        assert_eq!(status(&output), i32::from(!judged.admitted));
        assert_eq!(
            (judged.admitted, judged.gives.is_empty()),
            (admitted, admitted),
            "{size}: {judged:?}"
        );
        // The judgement is what happens.
        let mut other = server.observe();
        let frames = u32::try_from(judged.frames).unwrap();
        let said = reserve(&mut other, "r2", frames);
        assert_eq!(matches!(said, Said::Reserved(..)), admitted, "{size}: {said:?}");
    }
    for target in ["nobody", "1", "1:0x1000", "99999999:0"] {
        let output = server.run(&["explain", target]);
        assert_eq!(status(&output), 2, "{target}: {}", stderr(&output));
    }
    let both = document(&server.run(&["explain", "r1", "--what-if", "1MiB", "--json"]));
    assert!(both["explanation"].is_object() && both["what_if"].is_object());
}

#[test]
fn tickets_let_others_join_and_the_last_holder_ends_the_reservation() {
    let server = Server::start(&SMALL);
    let mut maker = server.observe();
    let Said::Reserved(_, ticket_high, ticket_low) = reserve(&mut maker, "r1", 1_000) else {
        panic!("not admitted");
    };
    let mut other = server.observe();
    for wrong in [(0, 0), (ticket_low, ticket_high), (ticket_high, ticket_low ^ 1)] {
        let join = Request::Join {
            ticket_high: wrong.0,
            ticket_low: wrong.1,
        };
        assert!(matches!(other.ask(&join, &[]), Ok(Said::Refused(Refusal::Unknown, _))));
    }
    let join = Request::Join {
        ticket_high,
        ticket_low,
    };
    let Ok(Said::Reserved(handle, ..)) = other.ask(&join, &[]) else {
        panic!("not joined");
    };
    drop(maker);
    // The other still holds it, until it lets go.
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(other.must_be_served()["memory"]["committed"], 1_000);
    }
    assert_eq!(
        other.ask(&Request::Release { reservation: handle }, &[]),
        Ok(Said::Other("Done".to_owned()))
    );
    assert_eq!(other.must_be_served()["memory"]["committed"], 0);
    assert!(matches!(other.ask(&join, &[]), Ok(Said::Refused(Refusal::Unknown, _))));
    let released = other.ask(&Request::Release { reservation: handle }, &[]);
    assert!(matches!(released, Ok(Said::Refused(Refusal::Unknown, _))));
}

/// Run as another user by the tests below; nothing where nobody asks for it.
#[test]
fn helper_as_another_user() {
    let Some(socket) = std::env::var_os("FREEHOLD_TEST_SOCKET") else {
        return;
    };
    let mut peer = Peer::connect(socket.as_ref()).unwrap();
    let hello = Request::Hello {
        role: freehold_protocol::message::Role::Observer,
        agent_thread: 0,
        name: "other",
    };
    peer.ask(&hello, &[]).unwrap();
    // 1 MiB is its quota.
    let Said::Refused(Refusal::Exhausted, text) = reserve(&mut peer, "large", 257) else {
        panic!("a user got more than its quota");
    };
    assert!(text.contains("may reserve 256"), "{text}");
    assert!(matches!(reserve(&mut peer, "small", 200), Said::Reserved(..)));
    assert!(matches!(
        reserve(&mut peer, "more", 57),
        Said::Refused(Refusal::Exhausted, _)
    ));
    let mut again = Peer::connect(socket.as_ref()).unwrap();
    again.ask(&hello, &[]).unwrap();
    assert!(matches!(
        reserve(&mut again, "more", 57),
        Said::Refused(Refusal::Exhausted, _)
    ));
    assert!(matches!(reserve(&mut again, "rest", 56), Said::Reserved(..)));
    // It sees its own, and of others the sizes.
    let seen = again.must_be_served();
    assert_eq!(seen["partial"], true);
    let names: Vec<&str> = seen["reservations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"small") && names.contains(&"rest"), "{names:?}");
    assert!(
        names.contains(&"(another user's)") && !names.contains(&"secret"),
        "{names:?}"
    );
}

#[test]
fn users_have_quotas_and_see_what_is_their_own() {
    if !is_root() {
        eprintln!("skipped: only root can be another user");
        return;
    }
    let server = Server::start(&["--pool", "16MiB", "--quota", "1MiB"]);
    let mut holder = server.observe();
    assert!(matches!(reserve(&mut holder, "secret", 1_000), Said::Reserved(..)));
    let mode = std::fs::metadata(&server.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    // A copy that the other user can run, wherever the workspace is.
    let copy = server.socket.with_file_name("helper");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut helper = Command::new(&copy);
    helper
        .args(["--exact", "helper_as_another_user", "--nocapture"])
        .env("FREEHOLD_TEST_SOCKET", &server.socket);
    let output = helper.current_dir("/").uid(65_534).gid(65_534).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("1 passed"), "{}", stdout(&output));
    holder.must_be_served();
}

#[test]
fn a_client_is_seen_with_what_it_shares() {
    let server = Server::start(&SMALL);
    let mut options = Options::named("painter");
    options.socket = Some(server.socket.clone());
    let connection = match Connection::open(&options) {
        Ok(connection) => connection,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let reservation = connection.reserve("r1", 128, ReservationKind::Hard).unwrap();
    let spec = RegionSpec {
        name: "canvas",
        pages: 200,
        kind: RegionKind::Shared,
        regime: Regime::Conserve,
    };
    let region = connection.open_region(&spec).unwrap();
    let task = connection.add_task(Some(&reservation), 0, "brush").unwrap();
    let mapping = task.map(&region).unwrap();
    for round in 0..3_u64 {
        for page in 0..200 {
            mapping.write_word(page * 512, round << 32 | page as u64).unwrap();
        }
    }
    for page in 0..200 {
        assert_eq!(mapping.read_word(page * 512), Some(2 << 32 | page as u64));
    }
    let seen: StatusDocument = serde_json::from_value(document(&server.run(&["status", "--json"]))).unwrap();
    let client = seen.clients.iter().find(|client| client.name == "painter").unwrap();
    let pid = std::process::id();
    assert_eq!((client.pid, &*client.tasks[0].name), (pid, "brush"));
    assert!(client.tasks[0].swap_ins > 0 && client.tasks[0].evictions > 0 && client.faults > 0);
    let object = seen.objects.iter().find(|object| object.name == "canvas").unwrap();
    assert_eq!((object.pages, object.mappers[0].pid), (200, pid));
    assert!(object.resident > 0 && object.resident <= 128);
    let row = &seen.reservations[0].counts();
    assert_eq!((row.usable(), row.lists.owed, row.frames.outside), (128, 0, 0));
    explanations_of_a_client(&server, mapping.base().addr());
}

/// This process, with `canvas` at `address`, as the command explains it.
fn explanations_of_a_client(server: &Server, address: usize) {
    let pid = std::process::id();
    assert!(stdout(&server.run(&["explain", "canvas"])).contains("r1 owns"));
    let explained = stdout(&server.run(&["explain", &pid.to_string()]));
    assert!(
        explained.contains("task brush has 128 frames") && explained.contains("next: page"),
        "{explained}"
    );
    let place = format!("{pid}:{:#x}", address);
    let explained: Explanation = serde_json::from_value(document(&server.run(&["explain", &place, "--json"]))).unwrap();
    let page = explained.page.unwrap();
    assert_eq!((&*page.object, page.page), ("canvas", 0));
    // What nobody manages is said, with the reason.
    let mine = 0_u64;
    let place = format!("{pid}:{:#x}", std::ptr::from_ref(&mine).addr());
    assert!(stdout(&server.run(&["explain", &place])).contains("not protected"));
    let top = stdout(&server.run(&["top", "--once"]));
    for part in [
        "reservations (",
        "r1",
        "tasks (a second):",
        "brush",
        "who shares what",
        "canvas",
    ] {
        assert!(top.contains(part), "{part} is not in\n{top}");
    }
    let piped = server.run(&["top"]);
    assert_eq!(status(&piped), 2, "{}", stderr(&piped));
    let metrics = server.observe().ask(
        &Request::Ask {
            question: Question::Metrics,
            target: "",
        },
        &[],
    );
    assert!(matches!(metrics, Ok(Said::Document(text)) if text.contains("task=\"brush\"")));
}

#[test]
fn a_reservation_waits_for_frames_that_others_use_and_gets_them() {
    let server = Server::start(&SMALL);
    let mut options = Options::named("hog");
    options.socket = Some(server.socket.clone());
    let connection = match Connection::open(&options) {
        Ok(connection) => connection,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let spec = RegionSpec {
        name: "heap",
        pages: 3_500,
        kind: RegionKind::Private,
        regime: Regime::Conserve,
    };
    let region = connection.open_region(&spec).unwrap();
    let task = connection.add_task(None, 0, "hog").unwrap();
    let mapping = task.map(&region).unwrap();
    for page in 0..3_500_u32 {
        mapping.write_word(page as usize * 512, u64::from(page)).unwrap();
    }
    let mut peer = server.observe();
    let judged: WhatIf = {
        let output = server.run(&["explain", "--what-if", "8MiB", "--json"]);
        serde_json::from_value(document(&output)).unwrap()
    };
    assert!(judged.admitted && judged.to_gather > 1_000, "{judged:?}");
    assert!(matches!(reserve(&mut peer, "late", 2_048), Said::Reserved(..)));
    assert_eq!(peer.must_be_served()["reservations"][0]["held"], 2_048);
    // Nothing of the one that gave way is lost.
    for page in 0..3_500_u32 {
        assert_eq!(mapping.read_word(page as usize * 512), Some(u64::from(page)));
    }
}
