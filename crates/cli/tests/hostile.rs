//! Peers that do not keep to the protocol, against a real server: they are refused or cut off, and an honest client
//! beside them is served.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "hostile/requests.rs"]
mod requests;
#[path = "common/server.rs"]
mod server;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use freehold_linux::Errno;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::VERSION;
use freehold_protocol::message::{
    Answer, HEADER, LIMIT, OPENED_LAST, Question, Refusal, Regime, Request, ReservationKind, Role,
};
use freehold_protocol::packet::messages;
use requests::requests;
use rustix::fs::{Mode, OFlags};
use rustix::net::Shutdown;
use server::{Peer, Said, Server, bytes};

use common::freehold;

const OPEN: Request<'static> = Request::OpenFile {
    regime: Regime::Conserve,
    path: "x",
};

/// A page of an object, mapped by the first task.
fn map_of(object: u32) -> Request<'static> {
    Request::Map {
        task: 1,
        object,
        address: 1 << 30,
        first: 0,
        pages: 1,
        writable: false,
    }
}

const SMALL: [&str; 2] = ["--pool", "16MiB"];

/// Small steps of a generator that needs no crate.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 11
}

#[test]
fn garbage_is_refused_and_ends_only_its_connection() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    let seed = std::env::var("FREEHOLD_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("seed {seed}");
    let mut state = seed;
    for round in 0..300 {
        let peer = server.connect();
        let length = usize::try_from(next(&mut state)).unwrap() % (2 * LIMIT) + 1;
        let mut garbage: Vec<u8> = (0..length).map(|_| next(&mut state).to_le_bytes()[0]).collect();
        if round % 3 == 0 {
            // With a header that is right as far as it goes.
            let start = bytes(&requests()[round % 19], 5);
            let kept = start.len().min(length).min(HEADER);
            garbage[..kept].copy_from_slice(&start[..kept]);
        }
        if peer.send(&garbage, &[]).is_ok() {
            assert!(matches!(peer.hear(), Some((_, Said::Refused(..))) | None));
            assert!(peer.is_closed());
        }
        if round % 10 == 0 {
            honest.must_be_served();
        }
    }
    honest.must_be_served();
}

#[test]
fn every_request_cut_anywhere_is_refused() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    for request in requests() {
        let whole = bytes(&request, 77);
        for cut in 1..whole.len() {
            let peer = server.observe();
            peer.send(&whole[..cut], &[]).unwrap();
            let (serial, said) = peer.hear().expect("every request is answered");
            assert!(
                matches!(said, Said::Refused(Refusal::Malformed, _)),
                "{request:?} cut to {cut}: {said:?}"
            );
            assert!(serial == 77 || (cut < 12 && serial == 0));
            assert!(peer.is_closed());
        }
        honest.must_be_served();
    }
}

#[test]
fn wrong_requests_are_refused_one_by_one_and_the_connection_goes_on() {
    let server = Server::start(&SMALL);
    let mut peer = server.observe();
    for request in requests() {
        let said = peer.ask(&request, &[]).unwrap();
        assert!(matches!(said, Said::Refused(..)), "{request:?}: {said:?}");
    }
    peer.must_be_served();
    // The first request must be `Hello`.
    for request in requests().into_iter().skip(1) {
        let mut silent = server.connect();
        let said = silent.ask(&request, &[]).unwrap();
        assert!(
            matches!(said, Said::Refused(Refusal::State, _)),
            "{request:?}: {said:?}"
        );
        assert!(silent.is_closed());
    }
}

#[test]
fn another_version_is_told_which_is_spoken() {
    let server = Server::start(&SMALL);
    let mut hello = bytes(&requests()[0], 3);
    hello[4] ^= 0xff;
    let peer = server.connect();
    peer.send(&hello, &[]).unwrap();
    match peer.hear() {
        Some((3, Said::Refused(Refusal::Version, text))) => {
            assert!(text.contains(&format!("version {VERSION}")), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(peer.is_closed());
}

/// Why each request of a packet is refused.
fn refusals(peer: &Peer) -> Vec<(u32, Refusal)> {
    let mut buffer = [0; LIMIT];
    let packet = peer.socket.receive(&mut buffer).unwrap().expect("an answer");
    let refused = |message| match Answer::decode(message) {
        Ok((serial, Answer::Refused { why, .. })) => (serial, why),
        other => panic!("{other:?}"),
    };
    messages(&buffer[..packet.length]).map(refused).collect()
}

#[test]
fn requests_that_share_a_packet_are_met_one_by_one_and_only_those_that_may() {
    let server = Server::start(&SMALL);
    let (mut honest, mut peer) = (server.observe(), server.observe());
    let open_before = descriptors_of(&server);
    let (map, open) = (map_of(1), OPEN);
    let packet = |requests: &[Request<'_>]| {
        let numbered = (1..).zip(requests);
        numbered
            .flat_map(|(serial, request)| bytes(request, serial))
            .collect::<Vec<u8>>()
    };
    // As many as there is room for; too few descriptors, and too many.
    let maps = vec![map; LIMIT / bytes(&map, 1).len()];
    let (state, last) = (Refusal::State, Refusal::Descriptor);
    for (requests, descriptors, last) in [
        (&maps[..], 0, state),
        (&[map, open, map], 3, last),
        (&[open, open], 1, state),
    ] {
        peer.send(&packet(requests), &vec![peer.as_fd(); descriptors]).unwrap();
        let mut found = Vec::new();
        while found.len() < requests.len() {
            found.extend(refusals(&peer));
        }
        let mut expected: Vec<_> = (1..).zip(requests).map(|(serial, _)| (serial, state)).collect();
        expected.last_mut().unwrap().1 = last;
        assert_eq!(found, expected, "an observer has no memory");
        peer.must_be_served();
    }
    // The first is met, the second may not be there, and the third is not looked at any more.
    for second in [bytes(&Request::Release { reservation: 1 }, 2), vec![1; HEADER], vec![7]] {
        let peer = server.observe();
        peer.send(&[bytes(&map, 1), second, bytes(&map, 3)].concat(), &[])
            .unwrap();
        let found = refusals(&peer);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0], found[1].1), ((1, Refusal::State), Refusal::Malformed));
        assert!(peer.is_closed());
    }
    honest.must_be_served();
    assert_closed(&server, open_before);
}

/// What was opened last may be named without its handle, but only if it was opened.
#[test]
fn what_was_not_opened_last_cannot_be_mapped() {
    let server = Server::start(&SMALL);
    let mut peer = server.connect();
    let Ok(userfault) = Userfault::open(Features::SERVED) else {
        return println!("NOT CHECKED: no userfaultfd");
    };
    let mut ask = |request: &Request<'_>, descriptors: &[BorrowedFd<'_>]| match peer.ask(request, descriptors) {
        Ok(Said::Other(text)) => text.split_whitespace().next().unwrap_or_default().to_owned(),
        Ok(Said::Refused(why, _)) => format!("{why:?}"),
        other => panic!("{other:?}"),
    };
    let hello = Request::Hello {
        role: Role::Library,
        agent_thread: 0,
        name: "x",
    };
    assert_eq!(ask(&hello, &[userfault.as_fd()]), "Welcome");
    let task = Request::AddTask {
        membership: 0,
        urgency: 0,
        name: "x",
    };
    assert_eq!(ask(&task, &[]), "Made");
    let (map, open) = (map_of(OPENED_LAST), OPEN);
    let (file, folder) = (File::open("Cargo.toml").unwrap(), File::open("src").unwrap());
    assert_eq!(ask(&map, &[]), "Unknown");
    assert_eq!(ask(&open, &[file.as_fd()]), "Opened");
    assert_eq!(ask(&map, &[]), "Made");
    assert_eq!(ask(&open, &[folder.as_fd()]), "Descriptor");
    assert_eq!(
        ask(&map, &[]),
        "Unknown",
        "of a file that is not opened nothing is mapped"
    );
    assert_eq!(ask(&open, &[file.as_fd()]), "Opened");
    assert_eq!(ask(&Request::Unmap { mapping: 1 }, &[]), "Done");
    let close = Request::CloseObject { object: 1 };
    assert_eq!(ask(&close, &[]), "Done");
    assert_eq!(ask(&map, &[]), "Made", "it was opened twice");
    assert_eq!(ask(&close, &[]), "Done");
    assert_eq!(ask(&map, &[]), "Unknown", "nor of one that is closed");
}

#[test]
fn floods_and_slow_readers_do_not_keep_others_from_being_served() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for flooder in 0..4 {
            let (server, stop, sent) = (&server, &stop, &sent);
            scope.spawn(move || {
                let ask = match flooder % 2 {
                    0 => bytes(&Request::Release { reservation: 1 }, 1),
                    _ => bytes(
                        &Request::Ask {
                            question: Question::Status,
                            target: "",
                        },
                        1,
                    ),
                };
                while !stop.load(Ordering::Relaxed) {
                    // Never reads: its answers fill the socket, and it is cut off.
                    let peer = server.observe();
                    peer.socket.set_blocking(false).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        match peer.send(&ask, &[]) {
                            Ok(()) => {
                                sent.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Errno::AGAIN) => std::thread::yield_now(),
                            Err(_) => break,
                        }
                    }
                }
            });
        }
        while sent.load(Ordering::Relaxed) < 20_000 {
            honest.must_be_served();
        }
        for _ in 0..100 {
            honest.must_be_served();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn half_closed_connections_end() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    for way in [Shutdown::Write, Shutdown::Both, Shutdown::Read] {
        for greeted in [false, true] {
            let peer = if greeted { server.observe() } else { server.connect() };
            rustix::net::shutdown(&peer.socket, way).unwrap();
            match way {
                // Nobody hears the answer, and the server notices when it sends one.
                Shutdown::Read => {
                    let ask = bytes(&Request::Release { reservation: 1 }, 1);
                    while peer.send(&ask, &[]).is_ok() {}
                }
                _ => assert!(peer.hear().is_none()),
            }
        }
    }
    // An empty packet is the end to the kernel.
    let peer = server.observe();
    rustix::net::send(&peer.socket, &[], rustix::net::SendFlags::empty()).unwrap();
    assert!(peer.is_closed());
    honest.must_be_served();
}

fn hostile_descriptors() -> Vec<(&'static str, OwnedFd)> {
    let (pipe, _) = rustix::pipe::pipe().unwrap();
    let path = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let directory = rustix::fs::open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let memfd = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let (socket, _) = freehold_linux::socket::PacketSocket::pair().unwrap();
    vec![
        ("a pipe", pipe),
        ("a path", path),
        ("a directory", directory),
        ("a device", File::open("/dev/zero").unwrap().into()),
        ("a memory object", memfd),
        ("a socket", socket.into()),
        (
            "an event",
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap(),
        ),
    ]
}

#[test]
fn descriptors_that_are_not_what_they_must_be_are_refused_and_closed() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    let open_before = descriptors_of(&server);
    for (what, descriptor) in hostile_descriptors() {
        for (role, count) in [
            (Role::Library, 1),
            (Role::Program, 2),
            (Role::Program, 1),
            (Role::Observer, 1),
        ] {
            let mut peer = server.connect();
            let sent = vec![descriptor.as_fd(); count];
            let hello = Request::Hello {
                role,
                agent_thread: 1,
                name: "x",
            };
            let said = peer.ask(&hello, &sent).unwrap();
            assert!(
                matches!(said, Said::Refused(Refusal::Descriptor, _)),
                "{what} as {role:?}: {said:?}"
            );
        }
        let mut observer = server.observe();
        for request in requests() {
            let said = observer.ask(&request, &[descriptor.as_fd()]);
            assert!(
                matches!(said, Ok(Said::Refused(..))),
                "{what} with {request:?}: {said:?}"
            );
        }
    }
    // None, where one is needed; and more than the protocol has.
    let mut peer = server.connect();
    let library = Request::Hello {
        role: Role::Library,
        agent_thread: 1,
        name: "x",
    };
    assert!(matches!(
        peer.ask(&library, &[]),
        Ok(Said::Refused(Refusal::Descriptor, _))
    ));
    let peer = server.observe();
    send_many(&peer, &bytes(&requests()[3], 9), 200);
    assert!(matches!(peer.hear(), Some((_, Said::Refused(Refusal::Malformed, _)))));
    assert!(peer.is_closed());
    drop(peer);
    honest.must_be_served();
    assert_closed(&server, open_before);
}

/// What was sent has been closed, but for what is still on its way.
fn assert_closed(server: &Server, open_before: usize) {
    let settled = (0..2_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        descriptors_of(server) <= open_before
    });
    assert!(
        settled,
        "{open_before} descriptors before, {} after",
        descriptors_of(server)
    );
}

fn descriptors_of(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.child.id()))
        .unwrap()
        .count()
}

/// Sends more descriptors than the library of honest peers allows.
fn send_many(peer: &Peer, bytes: &[u8], count: usize) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let many: Vec<BorrowedFd<'_>> = vec![peer.as_fd(); count];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
    let parts = [std::io::IoSlice::new(bytes)];
    rustix::net::sendmsg(&peer.socket, &parts, &mut control, rustix::net::SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn thousands_of_connections_are_refused_beyond_the_limit_and_forgotten_afterwards() {
    // More descriptors than many shells give.
    let most = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: most.maximum,
        ..most
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    for _ in 0..3 {
        let mut held = Vec::new();
        let mut refused = 0;
        for _ in 0..2_500 {
            let mut peer = server.connect();
            match peer.ask(&requests()[0], &[]) {
                Ok(Said::Other(_)) => held.push(peer),
                Ok(Said::Refused(Refusal::Exhausted, _)) | Err(_) => refused += 1,
                Ok(other) => panic!("{other:?}"),
            }
        }
        assert!(
            held.len() > 100 && refused > 500,
            "{} held, {refused} refused",
            held.len()
        );
        honest.must_be_served();
        drop(held);
        // There is room again.
        let room = (0..2_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            server
                .connect()
                .ask(&requests()[0], &[])
                .is_ok_and(|said| matches!(said, Said::Other(_)))
        });
        assert!(room);
    }
    honest.must_be_served();
}

#[test]
fn whoever_dies_in_the_middle_leaves_nothing() {
    let server = Server::start(&SMALL);
    let mut honest = server.observe();
    for round in 0..200 {
        let mut peer = server.observe();
        let reserve = Request::Reserve {
            name: "short-lived",
            frames: 512,
            kind: ReservationKind::Hard,
        };
        if round % 2 == 0 {
            assert!(matches!(peer.ask(&reserve, &[]), Ok(Said::Reserved(..))));
        } else {
            // Gone before the answer.
            peer.send(&bytes(&reserve, 1), &[]).unwrap();
        }
    }
    let empty = (0..2_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        let status = honest.must_be_served();
        status["reservations"].as_array().unwrap().is_empty() && status["memory"]["committed"] == 0
    });
    assert!(empty, "{}", honest.must_be_served());
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    // The test's server writes into a pipe that is not read: far more than a pipe holds is refused here.
    let server = Server::start(&[&SMALL[..], &["--log", "json", "--log-level", "debug"]].concat());
    let mut honest = server.observe();
    for _ in 0..3_000 {
        server.observe();
    }
    honest.must_be_served();
    // The command sees the same server.
    let output = freehold(&["status", "--socket"]).arg(&server.socket).output().unwrap();
    assert!(output.status.success());
}
