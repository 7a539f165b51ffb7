//! Logs: structured, on standard error, and never in anybody's way.
//!
//! Lines go through a queue to a thread of their own: a terminal or pipe that nobody reads stops that thread and not
//! the server, and what does not fit the queue is counted and said later. What clients can cause is said only so often.

use crate::control::Bucket;
use freehold_linux::service;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

pub use tracing_subscriber::filter::LevelFilter as Level;

/// Lines that may wait to be written.
const LINES: usize = 1_024;
/// Lines a second about what clients cause, and at once.
const RATE: u32 = 20;
const BURST: u32 = 100;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Lines on their way to standard error.
#[derive(Clone, Debug)]
struct Queue {
    sender: SyncSender<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

/// Lines in the queue, or being written.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);
/// How long lines that wait are waited for when the process ends, and how often is looked.
const PATIENCE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_micros(100);

/// One line.
#[derive(Debug)]
struct Line {
    queue: Queue,
    bytes: Vec<u8>,
}

/// Starts logging for the whole process; a second call changes nothing.
///
/// # Errors
/// The system's refusal of a thread.
pub fn start(format: Format, level: Level) -> io::Result<()> {
    let (sender, receiver) = sync_channel(LINES);
    let lost = Arc::new(AtomicU64::new(0));
    let queue = Queue {
        sender,
        lost: Arc::clone(&lost),
    };
    service::spawn("log", move || write_lines(&receiver, &lost, &mut io::stderr()))?;
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(queue)
        .with_ansi(false);
    // A logger that is there already stays: a server inside a test, say.
    let _ = match format {
        Format::Text => builder.with_target(false).try_init(),
        Format::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    Ok(())
}

/// Gives lines that wait a moment to be written, before the process ends.
pub fn flush() {
    let until = Instant::now() + PATIENCE;
    // A slow reader is not waited for.
    while UNWRITTEN.load(Ordering::Acquire) > 0 && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

fn write_lines(receiver: &Receiver<Vec<u8>>, lost: &AtomicU64, to: &mut impl Write) {
    while let Ok(line) = receiver.recv() {
        // Where standard error is gone there is nobody to be told.
        let _ = to.write_all(&line);
        UNWRITTEN.fetch_sub(1, Ordering::Release);
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = writeln!(
                to,
                "{count} log lines were lost: standard error was not read fast enough"
            );
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line {
            queue: self.clone(),
            bytes: Vec::new(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.bytes);
        UNWRITTEN.fetch_add(1, Ordering::Relaxed);
        if let Err(refused) = self.queue.sender.try_send(line) {
            UNWRITTEN.fetch_sub(1, Ordering::Relaxed);
            let full = matches!(refused, TrySendError::Full(_));
            self.queue.lost.fetch_add(u64::from(full), Ordering::Relaxed);
        }
    }
}

/// Says at most so much about what clients cause, and how much it has not said.
#[derive(Debug)]
pub(crate) struct RateLimitedLog {
    state: Mutex<(Bucket, u64)>,
}

impl RateLimitedLog {
    /// Nothing said yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: Mutex::new((Bucket::new(RATE, BURST, now), 0)),
        }
    }

    /// Whether one more line may be written; if so, how many were not since the last.
    pub(crate) fn allows(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (bucket, unsaid) = &mut *state;
        if bucket.take(1, Instant::now()).is_ok() {
            return Some(std::mem::take(unsaid));
        }
        *unsaid += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_counted_and_nobody_waits() {
        let (sender, receiver) = sync_channel(2);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Queue {
            sender,
            lost: Arc::clone(&lost),
        };
        for number in 0..5 {
            writeln!(queue.make_writer(), "line {number}").unwrap();
        }
        drop(queue);
        let mut written = Vec::new();
        write_lines(&receiver, &lost, &mut written);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(
            written,
            "line 0\n3 log lines were lost: standard error was not read fast enough\nline 1\n"
        );
    }

    #[test]
    fn a_flood_is_said_once_and_counted() {
        let rate_limited_log = RateLimitedLog::new(Instant::now());
        let said = (0..10_000).filter(|_| rate_limited_log.allows().is_some()).count();
        assert!((100..5_000).contains(&said), "{said}");
        std::thread::sleep(Duration::from_millis(100));
        assert!(rate_limited_log.allows().is_some_and(|unsaid| unsaid > 0));
    }
}
