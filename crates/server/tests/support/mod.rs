//! A server of its own in the test's process, and clients that are other processes: the test binary once more.
//!
//! The client takes commands over a socket that is its standard input, one packet each, and answers each.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it; tests")]

pub(crate) mod client;

use freehold_core::id::ReservationId;
use freehold_core::limits::{PageRange, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageCount, PageIndex};
use freehold_core::view::TaskCounts;
use freehold_linux::ThreadId;
use freehold_linux::charge::ChargeLimits;
use freehold_linux::socket::PacketSocket;
use freehold_server::{
    ClientId, ClientRole, Engine, MapKey, MapRequest, NewClient, ObjectKey, Pagers, RegionRequest, Settings, Shared,
    TaskKey,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Set in a client: the name of the test that is its main function.
pub(crate) const CHILD: &str = "FREEHOLD_TEST_CLIENT";

/// A running server.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    _pagers: Pagers,
}

impl Server {
    pub(crate) fn start(frames: u32) -> Self {
        Self::with(&Settings::new(FrameCount::new(frames)))
    }

    pub(crate) fn with(settings: &Settings) -> Self {
        let shared = Shared::new(Engine::new(settings).unwrap());
        let pagers = shared.spawn_pagers().unwrap();
        Self {
            shared,
            _pagers: pagers,
        }
    }

    pub(crate) fn reserve(&self, frames: u32) -> ReservationId {
        self.try_reserve(frames, ReservationKind::Hard).unwrap()
    }

    pub(crate) fn try_reserve(
        &self,
        frames: u32,
        kind: ReservationKind,
    ) -> Result<ReservationId, freehold_server::EngineError> {
        let capacity = FrameCount::new(frames);
        self.shared.engine().admit("test", ReservationSpec { capacity, kind })
    }

    /// Opens a region for a test.
    pub(crate) fn region(&self, name: &str, pages: u32, shared: bool) -> (ObjectKey, OwnedFd) {
        self.region_of(0, name, pages, shared)
    }

    /// Opens a region of a user.
    pub(crate) fn region_of(&self, uid: u32, name: &str, pages: u32, shared: bool) -> (ObjectKey, OwnedFd) {
        let request = RegionRequest {
            name,
            shared,
            pages,
            regime: Regime::Conserve,
            uid,
        };
        let opened = self.shared.engine().open_region(&request).unwrap();
        assert_eq!(opened.pages, pages);
        (opened.object, opened.descriptor)
    }

    /// Waits until something holds of the engine; panics after a while.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&mut Engine) -> bool) {
        let begun = Instant::now();
        while !holds(&mut self.shared.engine()) {
            if begun.elapsed() > Duration::from_secs(20) {
                self.complain(what);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Something never comes: shows what the engine knows.
    fn complain(&self, what: &str) -> ! {
        let mut engine = self.shared.engine();
        eprintln!("notices: {:#?}", engine.take_notices());
        eprintln!("laws: {:?} {:?}", engine.core().check_laws(), engine.check_laws());
        let view = engine.view().unwrap();
        for client in &view.clients {
            eprintln!("{}", engine.describe(client.id));
        }
        panic!(
            "never: {what}; {:?}, {:?}, {:?}",
            view.pool, view.reservations, view.orders
        );
    }

    /// Panics if a law of the core or of the engine is broken.
    pub(crate) fn check(&self) {
        let engine = self.shared.engine();
        engine.core().check_laws().unwrap();
        engine.check_laws().unwrap();
    }
}

/// A client process.
pub(crate) struct Client {
    process: Child,
    socket: PacketSocket,
    pub(crate) id: ClientId,
    agent: u32,
    shared: Arc<Shared>,
}

/// Where a client has an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    /// The client's number for it.
    pub(crate) number: u64,
    pub(crate) address: u64,
    pub(crate) key: MapKey,
}

impl Client {
    /// Starts a client: `main` is the test whose body is [`client::main`].
    pub(crate) fn start(server: &Server, main: &str) -> Self {
        Self::start_as(server, main, 0).unwrap()
    }

    /// Starts a client whose user is said to be this one.
    pub(crate) fn start_as(server: &Server, main: &str, uid: u32) -> Result<Self, freehold_server::EngineError> {
        let (mine, its) = PacketSocket::pair().unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", main, "--nocapture", "--test-threads=1"])
            .env(CHILD, main)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&process);
        let mut buffer = [0; 64];
        let mut hello = mine.receive(&mut buffer).unwrap().expect("the client has ended early");
        let new = NewClient {
            role: ClientRole::Library,
            pid: process.id(),
            uid,
            pidfd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap(),
            name: main.to_owned(),
            agent_thread: 0,
            limits: ChargeLimits::default(),
            private: None,
            shared: hello.descriptors.pop(),
        };
        let added = server.shared.engine().add_client(new);
        let (id, handover) = added.inspect_err(|_| {
            let _ = process.kill();
            let _ = process.wait();
        })?;
        let descriptors = [handover.channel.as_fd(), handover.event.as_fd()];
        mine.send(b"welcome", &descriptors).unwrap();
        Ok(Self {
            process,
            socket: mine,
            id,
            agent: 0,
            shared: Arc::clone(&server.shared),
        })
    }

    /// Starts a program: with private memory.
    pub(crate) fn program(server: &Server) -> Self {
        Self::program_of(server, 0).unwrap()
    }

    /// Starts a program whose user is said to be this one.
    pub(crate) fn program_of(server: &Server, uid: u32) -> Result<Self, freehold_server::EngineError> {
        Self::program_in(server, uid, ChargeLimits::default())
    }

    /// Starts a program whose memory cgroup has limits.
    pub(crate) fn program_in(
        server: &Server,
        uid: u32,
        limits: ChargeLimits,
    ) -> Result<Self, freehold_server::EngineError> {
        let (mine, its) = PacketSocket::pair().unwrap();
        let mut process = Command::new(program_file())
            .stdin(Stdio::from(OwnedFd::from(its)))
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&process);
        let mut buffer = [0; 4];
        let mut hello = mine.receive(&mut buffer).unwrap().expect("the program has ended early");
        let shared = hello.descriptors.pop();
        let new = NewClient {
            role: ClientRole::Program,
            pid: process.id(),
            uid,
            pidfd: rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap(),
            name: "program".to_owned(),
            agent_thread: u32::from_le_bytes(buffer),
            limits,
            private: hello.descriptors.pop(),
            shared,
        };
        let added = server.shared.engine().add_client(new);
        let (id, handover) = added.inspect_err(|_| {
            let _ = process.kill();
            let _ = process.wait();
        })?;
        let descriptors = [
            handover.channel.as_fd(),
            handover.transfer.as_fd(),
            handover.event.as_fd(),
        ];
        mine.send(b"welcome", &descriptors).unwrap();
        Ok(Self {
            process,
            socket: mine,
            id,
            agent: u32::from_le_bytes(buffer),
            shared: Arc::clone(&server.shared),
        })
    }

    /// Has a program map private memory; its number there.
    pub(crate) fn anonymous(&self, pages: u64) -> u64 {
        self.ask(&[client::ANONYMOUS, pages])
    }

    /// Writes a pattern to pages of a mapping.
    pub(crate) fn fill(&self, number: u64, first: u64, count: u64, seed: u64) {
        assert_eq!(self.ask(&[client::FILL, number, first, count, seed]), 0);
    }

    /// How many pages do not hold the pattern.
    pub(crate) fn wrong(&self, number: u64, first: u64, count: u64, seed: u64) -> u64 {
        self.ask(&[client::CHECK, number, first, count, seed])
    }

    /// As [`wrong`](Self::wrong), by one thread.
    pub(crate) fn wrong_alone(&self, number: u64, first: u64, count: u64, seed: u64) -> u64 {
        self.ask(&[client::CHECK_ALONE, number, first, count, seed])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The thread of a program that carries orders out.
    pub(crate) fn agent(&self) -> ThreadId {
        let agent = i32::try_from(self.agent).ok();
        agent.and_then(ThreadId::from_raw).expect("a program")
    }

    pub(crate) fn task(&self, reservation: Option<ReservationId>) -> TaskKey {
        self.task_with(reservation, 10)
    }

    pub(crate) fn task_with(&self, reservation: Option<ReservationId>, urgency: u8) -> TaskKey {
        let mut engine = self.shared.engine();
        engine.add_task(self.id, reservation, urgency, "task").unwrap()
    }

    pub(crate) fn counts(&self, task: TaskKey) -> TaskCounts {
        self.shared.engine().counts(self.id, task).unwrap()
    }

    /// Sends a command.
    pub(crate) fn tell(&self, words: &[u64], descriptor: Option<&OwnedFd>) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        self.socket.send(&bytes, &descriptors).unwrap();
    }

    /// The next answer.
    pub(crate) fn answer(&self) -> u64 {
        let answer = self.try_answer();
        if answer.is_none() {
            eprintln!("notices: {:#?}", self.shared.engine().take_notices());
        }
        answer.expect("the client has ended")
    }

    /// Whether an answer, or the end of the client, comes within this time.
    pub(crate) fn answers_within(&self, patience: Duration) -> bool {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec::try_from(patience).unwrap();
        rustix::event::poll(&mut ready, Some(&patience)).unwrap() > 0
    }

    pub(crate) fn try_answer(&self) -> Option<u64> {
        if !self.answers_within(Duration::from_secs(20)) {
            self.complain();
        }
        let mut buffer = [0; 8];
        let packet = self.socket.receive(&mut buffer).ok()??;
        assert_eq!(packet.length, 8);
        Some(u64::from_le_bytes(buffer))
    }

    /// The client does not answer: shows what the engine knows.
    fn complain(&self) -> ! {
        let mut engine = self.shared.engine();
        eprintln!("notices: {:#?}", engine.take_notices());
        eprintln!("laws: {:?} {:?}", engine.core().check_laws(), engine.check_laws());
        panic!("no answer: {}", engine.describe(self.id));
    }

    pub(crate) fn ask(&self, words: &[u64]) -> u64 {
        self.tell(words, None);
        self.answer()
    }

    /// Maps a whole object for a task.
    pub(crate) fn map(&self, task: TaskKey, object: ObjectKey, descriptor: &OwnedFd, pages: u32) -> Mapped {
        self.tell(&[client::MAP, u64::from(pages)], Some(descriptor));
        let number = self.answer();
        let address = self.ask(&[client::ADDRESS, number]);
        let request = MapRequest {
            task,
            object,
            address,
            range: PageRange {
                first: PageIndex::new(0),
                count: PageCount::new(pages),
            },
            writable: true,
        };
        let key = self.shared.engine().map(self.id, &request).unwrap();
        Mapped { number, address, key }
    }

    pub(crate) fn write(&self, mapped: Mapped, page: u64, value: u64) {
        assert_eq!(self.ask(&[client::WRITE, mapped.number, page, value]), value);
    }

    pub(crate) fn read(&self, mapped: Mapped, page: u64) -> u64 {
        self.ask(&[client::READ, mapped.number, page])
    }

    pub(crate) fn read_at(&self, number: u64, page: u64) -> u64 {
        self.ask(&[client::READ, number, page])
    }

    /// Waits for its end; how it ended.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program of `program.c`, compiled once for each test binary.
fn program_file() -> &'static std::path::Path {
    static FILE: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    FILE.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/program.c");
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("program-{}", std::process::id()));
        let status = Command::new("cc")
            .args(["-O1", "-pthread", "-Wall", "-Werror", "-o"])
            .args([file.as_os_str(), source.as_ref()])
            .status()
            .expect("these tests need a C compiler, `cc`");
        assert!(status.success());
        file
    })
}
