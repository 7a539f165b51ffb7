//! A real server process for tests, and peers that speak its protocol by hand.
#![allow(dead_code, reason = "not every test file uses everything")]

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use freehold_linux::Errno;
use freehold_linux::memory::read_document;
use freehold_linux::socket::PacketSocket;
use freehold_protocol::message::{Answer, LIMIT, Question, Refusal, Request, Role};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// How long anything may take before a test gives up: long, since nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a directory of its own, killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    directory: PathBuf,
    pub(crate) socket: PathBuf,
}

impl Server {
    /// Starts `freehold serve` with these options, and waits until its socket is there.
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut server = Self::begin(&[], options);
        server.wait_until_there();
        server
    }

    /// Starts it as the last argument of another command, in which its process is the first, or alone. It is not waited
    /// for.
    pub(crate) fn begin(under: &[&str], options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("freehold-serve-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let socket = directory.join("socket");
        let child = command(under, &socket, options).spawn().expect("the server starts");
        Self {
            child,
            directory,
            socket,
        }
    }

    /// Waits until the socket can be connected to.
    pub(crate) fn wait_until_there(&mut self) {
        if let Err((status, errors)) = self.is_there() {
            panic!("the server ended: {status}\n{errors}");
        }
    }

    /// Waits until the socket can be connected to or the server has ended: how, and what it wrote.
    pub(crate) fn is_there(&mut self) -> Result<(), (ExitStatus, String)> {
        let deadline = Instant::now() + PATIENCE;
        while PacketSocket::connect(&self.socket).is_err() {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Err((status, self.errors()));
            }
            assert!(Instant::now() < deadline, "the server is not there");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Starts another one at the same place.
    pub(crate) fn start_again(&mut self, options: &[&str]) {
        self.child = command(&[], &self.socket, options).spawn().expect("the server starts");
        self.wait_until_there();
    }

    /// Connects without a word.
    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(&self.socket).expect("the server listens")
    }

    /// Connects and says hello as an observer.
    pub(crate) fn observe(&self) -> Peer {
        let mut peer = self.connect();
        let hello = Request::Hello {
            role: Role::Observer,
            agent_thread: 0,
            name: "test",
        };
        assert!(matches!(peer.ask(&hello, &[]), Ok(Said::Other(_))));
        peer
    }

    /// Runs the command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = super::common::freehold(arguments);
        command.arg("--socket").arg(&self.socket);
        command.output().expect("the command starts")
    }

    /// Asks it to end, and waits until it has: its exit status and what it wrote.
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
        let status = self.child.wait().expect("a child");
        (status.code(), self.errors())
    }

    /// What it wrote to standard error, after its end.
    fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).expect("text");
        }
        text
    }
}

fn command(under: &[&str], socket: &Path, options: &[&str]) -> Command {
    let mut command = super::common::freehold_under(under, &["serve", "--socket"]);
    command.arg(socket).args(options);
    // A pipe that nobody reads while the server runs: that must not stop it.
    command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .stdin(Stdio::null());
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// An answer, as far as these tests look at it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A refusal.
    Refused(Refusal, String),
    /// A document.
    Document(String),
    /// A reservation: handle and ticket.
    Reserved(u32, u64, u64),
    /// Something else, as it prints.
    Other(String),
}

/// One end of a connection that says what it likes.
pub(crate) struct Peer {
    pub(crate) socket: PacketSocket,
    serial: u32,
}

impl Peer {
    /// Connects; waits for answers only so long.
    pub(crate) fn connect(path: &Path) -> Result<Self, Errno> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match PacketSocket::connect(path) {
                Ok(socket) => {
                    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
                    return Ok(Self { socket, serial: 0 });
                }
                // The backlog is full.
                Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.socket.send(bytes, descriptors)
    }

    /// The next answer with its serial number; `None` at the end of the connection.
    pub(crate) fn hear(&self) -> Option<(u32, Said)> {
        let mut buffer = [0; LIMIT];
        let packet = match self.socket.receive(&mut buffer) {
            Ok(packet) => packet?,
            Err(Errno::CONNRESET | Errno::PIPE) => return None,
            Err(errno) => panic!("no answer: {errno}"),
        };
        let (serial, answer) = Answer::decode(&buffer[..packet.length]).expect("the server speaks the protocol");
        let said = match answer {
            Answer::Refused { why, text } => Said::Refused(why, text.to_owned()),
            Answer::Document { length } => {
                let bytes = read_document(&packet.descriptors[0], length, 1 << 24).expect("a sealed document");
                Said::Document(String::from_utf8(bytes).expect("text"))
            }
            Answer::Reserved {
                reservation,
                ticket_high,
                ticket_low,
                ..
            } => Said::Reserved(reservation, ticket_high, ticket_low),
            other => Said::Other(format!("{other:?}")),
        };
        Some((serial, said))
    }

    /// Asks and hears the answer; an error where the connection is over.
    pub(crate) fn ask(&mut self, request: &Request<'_>, descriptors: &[BorrowedFd<'_>]) -> Result<Said, Errno> {
        self.serial += 1;
        let mut buffer = [0; LIMIT];
        let length = request.encode(self.serial, &mut buffer).expect("a request fits");
        self.send(&buffer[..length], descriptors)?;
        let (serial, said) = self.hear().ok_or(Errno::PIPE)?;
        // What the server says unasked, before it closes, has no number.
        assert!(serial == self.serial || (serial == 0 && matches!(said, Said::Refused(..))));
        Ok(said)
    }

    /// Asks for the status, as an honest client that must be served.
    pub(crate) fn must_be_served(&mut self) -> serde_json::Value {
        let ask = Request::Ask {
            question: Question::Status,
            target: "",
        };
        match self.ask(&ask, &[]) {
            Ok(Said::Document(text)) => serde_json::from_str(&text).expect("a document"),
            other => panic!("an honest client was not served: {other:?}"),
        }
    }

    /// Panics if a law does not hold; for root and the server's own user.
    pub(crate) fn laws_must_hold(&mut self) {
        let ask = Request::Ask {
            question: Question::Laws,
            target: "",
        };
        match self.ask(&ask, &[]) {
            Ok(Said::Document(text)) => assert_eq!(text, r#"{"broken":[]}"#),
            other => panic!("the laws were not checked: {other:?}"),
        }
    }

    /// Whether the server has closed this connection, once all its answers are heard.
    pub(crate) fn is_closed(&self) -> bool {
        while self.hear().is_some() {}
        true
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The bytes of a request.
pub(crate) fn bytes(request: &Request<'_>, serial: u32) -> Vec<u8> {
    let mut buffer = [0; LIMIT];
    let length = request.encode(serial, &mut buffer).expect("a request fits");
    buffer[..length].to_vec()
}
