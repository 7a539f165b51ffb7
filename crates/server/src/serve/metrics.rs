//! `GET /metrics` over plain HTTP, for Prometheus. One thread has all askers, each with little time, so that none
//! waits for another; whoever reaches the address sees everything, so it should be a local one.

use crate::control::Registry;
use freehold_linux::{Errno, service};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an asker has to ask and to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked whether the server ends.
const LOOK: Duration = Duration::from_millis(500);
/// The longest request.
const REQUEST: usize = 4_096;
/// Askers at a time: the oldest makes room for one more.
const ASKERS: usize = 64;

/// Begins to answer at `address`; where it really is (port 0 is any).
///
/// # Errors
/// The system's refusal.
pub(super) fn start(registry: &Arc<Registry>, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let registry = Arc::clone(registry);
    service::spawn("metrics", move || {
        let mut askers = Vec::new();
        while !registry.is_ending() {
            if serve(&registry, &listener, &mut askers).is_err() {
                // Too many open files, say: the next try may be better.
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    })?;
    Ok(bound)
}

/// One who asks: first the request comes, then the answer goes.
#[derive(Debug)]
struct Asker {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    sent: usize,
    until: Instant,
}

/// Waits until somebody can go on, and lets him.
fn serve(registry: &Registry, listener: &TcpListener, askers: &mut Vec<Asker>) -> io::Result<()> {
    let mut wanted = vec![PollFd::new(listener, PollFlags::IN)];
    wanted.extend(askers.iter().map(|asker| PollFd::new(&asker.stream, asker.wants())));
    let timeout = Timespec::try_from(LOOK).ok();
    match rustix::event::poll(&mut wanted, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let ready: Vec<bool> = wanted.iter().map(|one| !one.revents().is_empty()).collect();
    let mut ready = ready.into_iter();
    let comes = ready.next() == Some(true);
    let now = Instant::now();
    askers.retain_mut(|asker| {
        let is_ready = ready.next() == Some(true);
        // Who goes away or is too slow is his own loss.
        now < asker.until && (!is_ready || asker.go_on(|request| answer(registry, request)).unwrap_or(false))
    });
    if comes {
        accept(listener, askers, now)?;
    }
    Ok(())
}

fn accept(listener: &TcpListener, askers: &mut Vec<Asker>, now: Instant) -> io::Result<()> {
    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(true)?;
    if askers.len() >= ASKERS {
        // They are in the order in which they came.
        askers.remove(0);
    }
    askers.push(Asker {
        stream,
        request: Vec::new(),
        answer: None,
        sent: 0,
        until: now + PATIENCE,
    });
    Ok(())
}

impl Asker {
    fn wants(&self) -> PollFlags {
        if self.answer.is_some() {
            PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// Reads or writes as much as goes; whether there is more to come.
    fn go_on(&mut self, answer: impl Fn(&[u8]) -> Vec<u8>) -> io::Result<bool> {
        if self.answer.is_none() {
            let mut part = [0; 512];
            let count = match self.stream.read(&mut part) {
                Err(error) if is_early(&error) => return Ok(true),
                read => read?,
            };
            self.request.extend_from_slice(part.get(..count).unwrap_or_default());
            let whole = self.request.windows(4).any(|end| end == b"\r\n\r\n");
            if count > 0 && !whole && self.request.len() < REQUEST {
                return Ok(true);
            }
            self.answer = Some(answer(&self.request));
        }
        let text = self.answer.as_deref().unwrap_or_default();
        let rest = text.get(self.sent..).unwrap_or_default();
        match self.stream.write(rest) {
            Err(error) if is_early(&error) => Ok(true),
            written => {
                let count = written?;
                self.sent += count;
                Ok(count > 0 && self.sent < text.len())
            }
        }
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn answer(registry: &Registry, request: &[u8]) -> Vec<u8> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, body) = match asked(request) {
        Asked::Metrics => match registry.snapshots.metrics(&registry.shared) {
            Ok(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            Err(error) => ("503 Service Unavailable", PLAIN, format!("{error}\n")),
        },
        Asked::Other => ("404 Not Found", PLAIN, "metrics are at /metrics\n".to_owned()),
        Asked::Wrong => ("400 Bad Request", PLAIN, "only GET is understood\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics,
    Other,
    Wrong,
}

fn asked(request: &[u8]) -> Asked {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next()) {
        (Some(b"GET"), Some(path), Some(version)) if version.starts_with(b"HTTP/1.") => {
            let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
            if path == b"/metrics" {
                Asked::Metrics
            } else {
                Asked::Other
            }
        }
        _ => Asked::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(asked(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Asked::Metrics);
        assert_eq!(asked(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Asked::Metrics);
        assert_eq!(asked(b"GET / HTTP/1.1\r\n\r\n"), Asked::Other);
        for wrong in [
            &b""[..],
            b"POST /metrics HTTP/1.1\r\n\r\n",
            b"GET /metrics",
            b"\xff\xfe",
        ] {
            assert_eq!(asked(wrong), Asked::Wrong);
        }
    }
}
