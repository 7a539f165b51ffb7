//! `GET /metrics` over plain HTTP, for Prometheus. One asker at a time, each with little time; whoever reaches the
//! address sees everything, so it should be a local one.

use crate::control::World;
use freehold_linux::service;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an asker has to ask, and to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const REQUEST: usize = 4_096;

/// Begins to answer at `address`; where it really is (port 0 is any).
///
/// # Errors
/// The system's refusal.
pub(super) fn start(world: &Arc<World>, address: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    let world = Arc::clone(world);
    service::spawn("metrics", move || {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    // An asker that goes away or is too slow is its own loss.
                    let _ = answer(&world, stream);
                }
                // Too many open files, say: the next try may be better.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
            if world.is_ending() {
                return;
            }
        }
    })?;
    Ok(bound)
}

fn answer(world: &World, mut stream: TcpStream) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
    }
    let (status, kind, body) = match asked(&request) {
        Asked::Metrics => match world.snapshots.metrics(&world.shared) {
            Ok(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            Err(error) => (
                "503 Service Unavailable",
                "text/plain; charset=utf-8",
                format!("{error}\n"),
            ),
        },
        Asked::Other => (
            "404 Not Found",
            "text/plain; charset=utf-8",
            "metrics are at /metrics\n".to_owned(),
        ),
        Asked::Wrong => (
            "400 Bad Request",
            "text/plain; charset=utf-8",
            "only GET is understood\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
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
