//! Bytes as sessions with a server in this process: connections, packets, requests, descriptors and hang-ups in any
//! order. A panic of the server ends the process; after the bytes an honest client is served, the laws hold, and what
//! the sessions had is gone.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_core::units::{Duration as Span, FrameCount, PageCount};
use freehold_linux::Errno;
use freehold_linux::memory::read_document;
use freehold_linux::socket::PacketSocket;
use freehold_linux::userfault::{Features, Userfault};
use freehold_protocol::message::{
    Answer, HEADER, JobReport, LIMIT, PinningPolicy, PinningSettings, Question, Ratio, Regime, RegionKind, Request,
    ReservationKind, Role, UnpinnedGoTo,
};
use freehold_server::serve::{Options, serve};
use freehold_server::{Limits, Quotas, Settings, Tables};
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Connections at a time.
const CONNECTIONS: usize = 4;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in a thread of this process, for as long as that lives.
pub(crate) struct Target {
    socket: PathBuf,
    honest: PacketSocket,
    /// What may be sent along.
    descriptors: Vec<OwnedFd>,
}

impl Drop for Target {
    fn drop(&mut self) {
        // The server ends with the process, without a word.
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(self.socket.with_extension("lck"));
    }
}

/// What is left of the bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Small numbers, which handles are, and at times large ones.
    fn number(&mut self) -> u64 {
        match self.byte().unwrap_or(0) {
            255 => u64::MAX,
            byte @ 200.. => 1 << (byte - 200),
            byte => u64::from(byte % 16),
        }
    }

    fn word(&mut self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    fn flag(&mut self) -> bool {
        self.byte().unwrap_or(0) % 2 == 1
    }

    fn some(&mut self, most: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        some
    }
}

impl Target {
    /// Starts the server; nothing where it cannot be had here.
    pub(crate) fn start() -> Option<Self> {
        let socket = std::env::temp_dir().join(format!("freehold-session-{}", std::process::id()));
        let options = Options {
            settings: small(),
            quotas: Quotas::new(rustix::process::geteuid().as_raw(), FrameCount::ZERO),
            limits: Limits::default(),
            socket: socket.clone(),
            mode: 0o600,
            devices: None,
            metrics: None,
        };
        std::thread::spawn(move || {
            let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            serve(&options, &stop).unwrap();
        });
        let begun = Instant::now();
        let honest = loop {
            match PacketSocket::connect(&socket) {
                Ok(honest) => break honest,
                Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => return None,
            }
        };
        set_socket_timeout(&honest, Timeout::Recv, Some(PATIENCE)).unwrap();
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let descriptors = vec![
            Userfault::open(Features::SERVED)
                .ok()?
                .as_fd()
                .try_clone_to_owned()
                .unwrap(),
            std::fs::File::open("/proc/self/exe").unwrap().into(),
            pipe,
            std::fs::File::open("/").unwrap().into(),
        ];
        let target = Self {
            socket,
            honest,
            descriptors,
        };
        target.ask(&observer());
        Some(target)
    }

    /// Plays the bytes, and looks at the server afterwards.
    pub(crate) fn play(&self, bytes: &[u8]) {
        let mut bytes = Bytes(bytes);
        let mut connections: Vec<PacketSocket> = Vec::new();
        while let Some(what) = bytes.byte() {
            match what % 8 {
                0 if connections.len() < CONNECTIONS => {
                    let connection = PacketSocket::connect(&self.socket).unwrap();
                    connection.set_blocking(false).unwrap();
                    if bytes.flag() {
                        send(&connection, &observer(), &[]);
                    } else {
                        send(&connection, &library(), &[self.descriptors[0].as_fd()]);
                    }
                    connections.push(connection);
                }
                0 => {
                    connections.remove(usize::from(what / 8) % CONNECTIONS);
                }
                _ if connections.is_empty() => {}
                1 => {
                    let connection = &connections[usize::from(what / 8) % connections.len()];
                    let length = usize::from(bytes.byte().unwrap_or(0)) + 1;
                    let _ = connection.send(bytes.some(length), &self.along(&mut bytes));
                }
                2 => {
                    let connection = &connections[usize::from(what / 8) % connections.len()];
                    let _ = connection.send(&several(&mut bytes), &self.along(&mut bytes));
                }
                3 => read_all(&connections[usize::from(what / 8) % connections.len()]),
                _ => {
                    let connection = &connections[usize::from(what / 8) % connections.len()];
                    let request = request(&mut bytes);
                    let descriptors = match request {
                        Request::OpenFile { .. } if bytes.flag() => vec![self.descriptors[1].as_fd()],
                        _ => self.along(&mut bytes),
                    };
                    send(connection, &request, &descriptors);
                    read_all(connection);
                }
            }
        }
        drop(connections);
        self.must_be_well();
    }

    /// None most of the time.
    fn along(&self, bytes: &mut Bytes<'_>) -> Vec<BorrowedFd<'_>> {
        match bytes.byte().unwrap_or(0) {
            byte @ 240.. => (0..byte % 5)
                .map(|at| self.descriptors[usize::from(at) % self.descriptors.len()].as_fd())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn must_be_well(&self) {
        let laws = self.document(Question::Laws);
        assert_eq!(laws, r#"{"broken":[]}"#);
        let begun = Instant::now();
        loop {
            let status: serde_json::Value = serde_json::from_str(&self.document(Question::Status)).unwrap();
            let gone =
                ["clients", "reservations", "pinned_pools"].map(|rows| status[rows].as_array().unwrap().is_empty());
            if gone == [true; 3] && status["memory"]["committed"] == 0 {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "what sessions had is still there: {status}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ask(&self, request: &Request<'_>) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut buffer = [0; LIMIT];
        let length = request.encode(1, &mut buffer).unwrap();
        self.honest.send(&buffer[..length], &[]).unwrap();
        let packet = self
            .honest
            .receive(&mut buffer)
            .unwrap()
            .expect("an honest client is served");
        (buffer[..packet.length].to_vec(), packet.descriptors)
    }

    fn document(&self, question: Question) -> String {
        let (bytes, descriptors) = self.ask(&Request::Ask { question, target: "" });
        match Answer::decode(&bytes).unwrap().1 {
            Answer::Document { length } => {
                String::from_utf8(read_document(&descriptors[0], length, 1 << 24).unwrap()).unwrap()
            }
            other => panic!("an honest client was not served: {other:?}"),
        }
    }
}

/// Small tables, since all of them are looked at after each session.
fn small() -> Settings {
    let mut settings = Settings::new(FrameCount::new(512));
    settings.pages = PageCount::new(4_096);
    settings.tables = Tables {
        compared_pages: PageCount::new(1_024),
        objects: 128,
        tasks: 128,
        mappings: 256,
        clients: 16,
        reservations: 32,
        ..settings.tables
    };
    settings
}

fn observer() -> Request<'static> {
    Request::Hello {
        role: Role::Observer,
        agent_thread: 0,
        name: "session",
    }
}

fn library() -> Request<'static> {
    Request::Hello {
        role: Role::Library,
        agent_thread: 0,
        name: "session",
    }
}

/// A connection that is over, or whose other side does not read, is as good.
fn send(connection: &PacketSocket, request: &Request<'_>, descriptors: &[BorrowedFd<'_>]) {
    let mut buffer = [0; LIMIT];
    let length = request.encode(7, &mut buffer).unwrap();
    let _ = connection.send(&buffer[..length], descriptors);
}

/// Several requests in one packet.
fn several(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut packet = Vec::new();
    for _ in 0..bytes.byte().unwrap_or(0) % 6 + 1 {
        let mut buffer = [0; LIMIT];
        let length = request(bytes).encode(9, &mut buffer).unwrap();
        packet.extend_from_slice(&buffer[..length]);
    }
    let keep = packet.len().clamp(HEADER, LIMIT);
    packet.truncate(keep);
    packet
}

/// Reads what is there, strictly.
fn read_all(connection: &PacketSocket) {
    let mut buffer = [0; LIMIT];
    loop {
        match connection.receive(&mut buffer) {
            Ok(Some(packet)) => {
                let first = freehold_protocol::packet::split(&buffer[..packet.length]).0;
                Answer::decode(first).expect("the server speaks the protocol");
            }
            Ok(None) | Err(Errno::AGAIN | Errno::PIPE | Errno::CONNRESET) => return,
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// A request of any kind, with fields from the bytes.
fn request(bytes: &mut Bytes<'_>) -> Request<'static> {
    let name = ["a", "b", "a much longer name of something", ""][usize::from(bytes.byte().unwrap_or(0)) % 4];
    let (one, two) = (bytes.word(), bytes.word());
    let regime = if bytes.flag() {
        Regime::Conserve
    } else {
        Regime::Unmanaged
    };
    match bytes.byte().unwrap_or(0) % 23 {
        0 => observer(),
        1 | 2 => Request::Reserve {
            name,
            frames: one,
            kind: if bytes.flag() {
                ReservationKind::Hard
            } else {
                ReservationKind::Firm
            },
        },
        3 => Request::Join {
            ticket_high: bytes.number(),
            ticket_low: bytes.number(),
        },
        4 => Request::Release { reservation: one },
        5 | 6 => Request::AddTask {
            membership: one,
            urgency: two.to_le_bytes()[0],
            name,
        },
        7 => Request::RemoveTask { task: one },
        8 => Request::OpenFile { regime, path: name },
        9 | 10 => Request::OpenRegion {
            name,
            pages: one,
            kind: if bytes.flag() {
                RegionKind::Shared
            } else {
                RegionKind::Private
            },
            regime,
        },
        11 | 12 => Request::Map {
            task: one,
            object: two,
            address: (bytes.number() << 12).wrapping_add(1 << 30),
            first: bytes.word(),
            pages: bytes.word(),
            writable: bytes.flag(),
        },
        13 => Request::Unmap { mapping: one },
        14 => Request::CloseObject { object: one },
        15 => open_pool(name, bytes, (one, two)),
        _ => lesser_request(name, bytes, (one, two)),
    }
}

fn lesser_request(name: &'static str, bytes: &mut Bytes<'_>, (one, two): (u32, u32)) -> Request<'static> {
    match bytes.byte().unwrap_or(0) % 12 {
        0 => Request::Lock {
            reservation: one,
            object: two,
            first: bytes.word(),
            pages: bytes.word(),
        },
        1 => Request::Unlock {
            reservation: one,
            object: two,
            first: bytes.word(),
            pages: bytes.word(),
        },
        2 => Request::JobEnd {
            task: one,
            response: bytes.number(),
            missed: bytes.flag(),
        },
        3 => Request::Count { task: one },
        4 => Request::CountProcess { process: one },
        5 => Request::Sample {
            period: bytes.number() << 20,
            process: 0,
        },
        6 => Request::Forked { parent: one },
        7 => Request::Keep {
            address: bytes.number() << 12,
            length: bytes.number() << 12,
        },
        8 => Request::Ask {
            question: [Question::Explain, Question::WhatIf, Question::Metrics, Question::Advise]
                [usize::from(bytes.byte().unwrap_or(0)) % 4],
            target: name,
        },
        _ => Request::ReportJob {
            pool: one,
            job: JobReport {
                missed: bytes.flag(),
                running: Span::new(bytes.number()),
                remaining: Span::new(bytes.number()),
                swap_ins: two,
                swap_time: Span::new(bytes.number()),
                swap_delay: Span::new(bytes.number()),
                delay: Span::new(bytes.number()),
                memory_delay: Span::new(bytes.number()),
                slack: Span::new(bytes.number()),
            },
            next_release: bytes.number(),
        },
    }
}

fn open_pool(name: &'static str, bytes: &mut Bytes<'_>, (one, two): (u32, u32)) -> Request<'static> {
    let ratio = |number: u32| Ratio::from_millionths(number % 1_000_000 + 1).unwrap_or(Ratio::ONE);
    let policy = if bytes.flag() {
        PinningPolicy::All
    } else {
        PinningPolicy::Adaptive
    };
    let settings = PinningSettings {
        policy,
        period: Span::new(bytes.number()),
        budget: Span::new(bytes.number()),
        swap_budget: bytes.flag(),
        highest_swap_budget: Span::new(bytes.number()),
        initial_capacity: PageCount::new(one),
        highest_capacity: PageCount::new(two),
        alpha: ratio(bytes.word()),
        beta: ratio(bytes.word()),
        gamma: bytes.word(),
        lambda: ratio(bytes.word()),
        unpinned_go_to: if bytes.flag() {
            UnpinnedGoTo::Text
        } else {
            UnpinnedGoTo::Listing
        },
        memory_share: bytes.flag(),
        steady: bytes.flag(),
        restore: PageCount::new(bytes.word()),
    };
    Request::OpenPool { name, settings }
}
