//! One connection's socket: requests and their answers, in order.
//!
//! A request that is *asked* waits for its answer; one at a time. One that is *posted* does not: a thread in the middle
//! of its jobs must not wait for the server's control thread, which is in no hurry. Answers to those carry a marked
//! serial number, and whoever reads next passes over them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::socket::{Packet, PacketSocket};
use freehold_linux::{Errno, ThreadId, peer_exit};
use freehold_protocol::message::{Answer, LIMIT, Request};

use crate::error::{ConnectError, RequestError};

/// Marks the serial number of a request whose answer nobody waits for.
const POSTED: u32 = 1 << 31;
/// How long a server may take to greet: whoever takes longer is none, or is stopped.
pub(crate) const GREETING: Duration = Duration::from_secs(20);
/// Posted requests that may be unanswered at a time.
const MOST_POSTED: u32 = 64;

/// The socket, and what is said over it.
#[derive(Debug)]
pub(crate) struct Link {
    socket: PacketSocket,
    sending: PiMutex<Sending>,
    receiving: PiMutex<Box<[u8; LIMIT]>>,
    /// Posted and not answered yet.
    posted: AtomicU32,
    /// Requests that could not be posted, or were refused.
    lost: AtomicU64,
    /// The process that made the connection.
    owner: u32,
}

#[derive(Debug)]
struct Sending {
    serial: u32,
    buffer: Box<[u8; LIMIT]>,
}

impl Link {
    /// Connects.
    pub(crate) fn connect(path: &Path) -> Result<Self, ConnectError> {
        let socket = PacketSocket::connect(path).map_err(|errno| {
            let path = path.to_owned();
            match errno {
                Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR => ConnectError::NoServer { path },
                Errno::ACCESS | Errno::PERM => ConnectError::Forbidden { path },
                errno => ConnectError::Socket { path, errno },
            }
        })?;
        socket.set_blocking(false)?;
        // A forked child connects anew: its locks and its tasks are to have its own number.
        ThreadId::follow_forks()?;
        Ok(Self::over(socket))
    }

    /// Over a socket that does not block.
    pub(crate) fn over(socket: PacketSocket) -> Self {
        let buffer = || Box::new([0; LIMIT]);
        Self {
            socket,
            sending: PiMutex::new(Sending {
                serial: 0,
                buffer: buffer(),
            }),
            receiving: PiMutex::new(buffer()),
            posted: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            owner: std::process::id(),
        }
    }

    /// Whether the calling process is the one that connected, and not a child of a fork.
    pub(crate) fn is_own(&self) -> bool {
        std::process::id() == self.owner
    }

    /// Requests that could not be posted, or were refused later.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends a request and waits for its answer, which `read` takes apart; `None` for an answer of another kind.
    pub(crate) fn ask<T>(
        &self,
        request: &Request<'_>,
        descriptors: &[BorrowedFd<'_>],
        read: impl FnOnce(Answer<'_>, Vec<OwnedFd>) -> Option<T>,
    ) -> Result<T, RequestError> {
        self.ask_within(None, request, descriptors, read)
    }

    /// As [`Link::ask`], and waits only so long.
    pub(crate) fn ask_within<T>(
        &self,
        patience: Option<Duration>,
        request: &Request<'_>,
        descriptors: &[BorrowedFd<'_>],
        read: impl FnOnce(Answer<'_>, Vec<OwnedFd>) -> Option<T>,
    ) -> Result<T, RequestError> {
        let until = patience.map(|patience| Instant::now() + patience);
        if !self.is_own() {
            return Err(RequestError::Forked);
        }
        let mut buffer = self.receiving.lock();
        let serial = loop {
            match self.send(request, descriptors, 0) {
                Err(RequestError::System(Errno::AGAIN)) => {
                    // The server reads only on when its answers are read.
                    self.take_posted(&mut buffer)?;
                    self.wait(true, until)?;
                }
                sent => break sent?,
            }
        };
        loop {
            let Some(packet) = self.receive(&mut buffer)? else {
                self.wait(false, until)?;
                continue;
            };
            let bytes = buffer.get(..packet.length).unwrap_or_default();
            let (answered, answer) = Answer::decode(bytes).map_err(RequestError::Malformed)?;
            if answered & POSTED != 0 {
                self.passed_over(&answer);
                continue;
            }
            if answered != serial {
                return Err(RequestError::Answer("it answers another request"));
            }
            if let Answer::Refused { why, text } = answer {
                let text = text.to_owned();
                return Err(RequestError::Refused { why, text });
            }
            return read(answer, packet.descriptors).ok_or(RequestError::Answer("it is of another kind"));
        }
    }

    /// As [`Link::ask`], for requests whose answer is `Done`.
    pub(crate) fn ask_done(&self, request: &Request<'_>) -> Result<(), RequestError> {
        self.ask(request, &[], |answer, _| {
            matches!(answer, Answer::Done {}).then_some(())
        })
    }

    /// Sends a request and waits for nothing. Where the server is behind, it is not sent, and counted as lost. Does not
    /// allocate, and waits for no other request.
    pub(crate) fn post(&self, request: &Request<'_>) {
        if self.posted.load(Ordering::Relaxed) >= MOST_POSTED
            && let Some(mut buffer) = self.receiving.try_lock()
        {
            let _ = self.take_posted(&mut buffer);
        }
        let room = self.posted.fetch_add(1, Ordering::Relaxed) < MOST_POSTED;
        if !room || self.send(request, &[], POSTED).is_err() {
            self.posted.fetch_sub(1, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, request: &Request<'_>, descriptors: &[BorrowedFd<'_>], mark: u32) -> Result<u32, RequestError> {
        let mut sending = self.sending.lock();
        let serial = sending.serial.wrapping_add(1) & !POSTED | mark;
        let length = request
            .encode(serial, &mut sending.buffer[..])
            .map_err(RequestError::Unsayable)?;
        let bytes = sending.buffer.get(..length).unwrap_or_default();
        self.socket.send(bytes, descriptors).map_err(failed)?;
        sending.serial = serial & !POSTED;
        Ok(serial)
    }

    /// Waits until the socket can be written to, or read from.
    fn wait(&self, write: bool, until: Option<Instant>) -> Result<(), RequestError> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match peer_exit::ready(self.socket.as_fd(), write, left) {
            Ok(true) => Ok(()),
            Ok(false) => Err(RequestError::Silent),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The next answer, if it is there.
    fn receive(&self, buffer: &mut [u8; LIMIT]) -> Result<Option<Packet>, RequestError> {
        match self.socket.receive(buffer) {
            Ok(Some(packet)) if packet.cut_off => Err(RequestError::Answer("it is too long")),
            Ok(Some(packet)) => Ok(Some(packet)),
            Ok(None) => Err(RequestError::Gone),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Reads the answers to posted requests that are there. Nobody else waits for an answer.
    fn take_posted(&self, buffer: &mut [u8; LIMIT]) -> Result<(), RequestError> {
        while let Some(packet) = self.receive(buffer)? {
            let bytes = buffer.get(..packet.length).unwrap_or_default();
            let (_, answer) = Answer::decode(bytes).map_err(RequestError::Malformed)?;
            self.passed_over(&answer);
        }
        Ok(())
    }

    fn passed_over(&self, answer: &Answer<'_>) {
        self.posted.fetch_sub(1, Ordering::Relaxed);
        if !matches!(answer, Answer::Done {}) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn failed(errno: Errno) -> RequestError {
    match errno {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => RequestError::Gone,
        errno => RequestError::System(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, MOST_POSTED};
    use crate::error::RequestError;
    use freehold_linux::socket::PacketSocket;
    use freehold_protocol::message::{Answer, LIMIT, Refusal, Request};
    use std::time::Duration;

    fn pair() -> (Link, PacketSocket) {
        let (client, server) = PacketSocket::pair().unwrap();
        client.set_blocking(false).unwrap();
        (Link::over(client), server)
    }

    /// Answers each request with what `answer` makes of it until the client is gone; how many there were.
    fn serve(server: PacketSocket, answer: impl Fn(u32, Request<'_>) -> Vec<u8>) -> usize {
        let mut buffer = [0; LIMIT];
        let mut served = 0;
        while let Ok(Some(packet)) = server.receive(&mut buffer) {
            let (serial, request) = Request::decode(&buffer[..packet.length]).unwrap();
            let bytes = answer(serial, request);
            if bytes.is_empty() || server.send(&bytes, &[]).is_err() {
                break;
            }
            served += 1;
        }
        served
    }

    fn encoded(serial: u32, answer: Answer<'_>) -> Vec<u8> {
        let mut buffer = vec![0; LIMIT];
        let length = answer.encode(serial, &mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    const ASK: Request<'_> = Request::AddTask {
        membership: 0,
        urgency: 0,
        name: "task",
    };
    const POST: Request<'_> = Request::JobEnd {
        task: 1,
        response: 5,
        missed: false,
    };

    fn made(answer: Answer<'_>) -> Option<u32> {
        match answer {
            Answer::Made { handle } => Some(handle),
            _ => None,
        }
    }

    #[test]
    fn answers_find_their_requests_with_posts_between() {
        let (link, server) = pair();
        let serving = std::thread::spawn(move || {
            serve(server, |serial, request| match request {
                Request::AddTask { .. } => encoded(serial, Answer::Made { handle: 9 }),
                _ => encoded(serial, Answer::Done {}),
            })
        });
        for _ in 0..10 {
            for _ in 0..3 {
                link.post(&POST);
            }
            assert_eq!(link.ask(&ASK, &[], |answer, _| made(answer)).unwrap(), 9);
        }
        assert_eq!(link.lost(), 0);
        drop(link);
        assert_eq!(serving.join().unwrap(), 40);
    }

    #[test]
    fn a_server_that_is_behind_costs_posts_and_no_waiting() {
        let (link, server) = pair();
        for _ in 0..MOST_POSTED + 5 {
            link.post(&POST);
        }
        assert_eq!(link.lost(), 5);
        let serving = std::thread::spawn(move || {
            serve(server, |serial, request| match request {
                Request::AddTask { .. } => encoded(serial, Answer::Made { handle: 9 }),
                _ => encoded(serial, Answer::Done {}),
            })
        });
        assert_eq!(link.ask(&ASK, &[], |answer, _| made(answer)).unwrap(), 9);
        link.post(&POST);
        assert_eq!(link.lost(), 5);
        assert_eq!(link.ask(&ASK, &[], |answer, _| made(answer)).unwrap(), 9);
        drop(link);
        assert_eq!(serving.join().unwrap(), MOST_POSTED as usize + 3);
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for_beyond_patience() {
        let (link, server) = pair();
        let patience = Some(Duration::from_millis(1));
        let error = link.ask_within(patience, &ASK, &[], |answer, _| made(answer));
        assert!(matches!(error, Err(RequestError::Silent)), "{error:?}");
        drop(server);
    }

    #[test]
    fn refusals_and_nonsense_are_told_apart() {
        fn refusal(serial: u32) -> Vec<u8> {
            let (why, text) = (Refusal::Exhausted, "no frames");
            encoded(serial, Answer::Refused { why, text })
        }
        type Case = (fn(u32) -> Vec<u8>, fn(&RequestError) -> bool);
        let cases: [Case; 5] = [
            (
                refusal,
                |error| matches!(error, RequestError::Refused { why: Refusal::Exhausted, text } if text == "no frames"),
            ),
            (
                |serial| encoded(serial + 1, Answer::Made { handle: 9 }),
                |error| matches!(error, RequestError::Answer(_)),
            ),
            (
                |serial| encoded(serial, Answer::Done {}),
                |error| matches!(error, RequestError::Answer(_)),
            ),
            (|_| vec![7; 20], |error| matches!(error, RequestError::Malformed(_))),
            (|_| Vec::new(), |error| matches!(error, RequestError::Gone)),
        ];
        for (answer, expected) in cases {
            let (link, server) = pair();
            let serving = std::thread::spawn(move || serve(server, move |serial, _| answer(serial)));
            let error = link.ask(&ASK, &[], |answer, _| made(answer)).unwrap_err();
            assert!(expected(&error), "{error:?}");
            drop(link);
            serving.join().unwrap();
        }
    }
}
