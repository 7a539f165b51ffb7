//! What modules print. A real-time thread copies its text into memory and goes on; a thread of the time-sharing side
//! writes it to the module's log.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use freehold_linux::futex;
use freehold_linux::pi_mutex::PiMutex;

const ROOM: usize = 64 * 1024;
/// At most so much is copied under the lock.
const STEP: usize = 4096;

/// Text on its way to a log.
#[derive(Debug)]
pub(crate) struct Output {
    text: PiMutex<Text>,
    doorbell: AtomicU32,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Text {
    bytes: Box<[u8]>,
    begin: usize,
    used: usize,
    lost: usize,
}

impl Output {
    pub(crate) fn new() -> Self {
        // Written to, so that the pages are there.
        let bytes = vec![1; ROOM].into_boxed_slice();
        Self {
            text: PiMutex::new(Text {
                bytes,
                begin: 0,
                used: 0,
                lost: 0,
            }),
            doorbell: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Adds `line`, all of it or nothing. Never waits for the log.
    pub(crate) fn add(&self, line: &[u8]) {
        let mut text = self.text.lock();
        if line.len() > ROOM - text.used {
            text.lost += line.len();
        } else {
            let place = (text.begin + text.used) % ROOM;
            let first = line.len().min(ROOM - place);
            text.bytes[place..place + first].copy_from_slice(&line[..first]);
            text.bytes[..line.len() - first].copy_from_slice(&line[first..]);
            text.used += line.len();
        }
        drop(text);
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake(&self.doorbell, 1);
    }

    /// Has [`Output::write_to`] end when all is written.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.doorbell.fetch_add(1, Ordering::Release);
        futex::wake(&self.doorbell, u32::MAX);
    }

    /// Writes what comes, until the end.
    pub(crate) fn write_to(&self, log: &mut File) {
        let mut step = vec![0; STEP];
        loop {
            let seen = self.doorbell.load(Ordering::Acquire);
            let ended = self.ended.load(Ordering::Acquire);
            let (count, lost) = self.take(&mut step);
            // A log that cannot be written loses text; there is nobody to be told.
            let _ = log.write_all(&step[..count]);
            if lost > 0 {
                let _ = writeln!(log, "freehold rtl: {lost} bytes came faster than they could be written");
            }
            if count == 0 {
                if ended {
                    return;
                }
                let _ = futex::wait(&self.doorbell, seen, None);
            }
        }
    }

    fn take(&self, to: &mut [u8]) -> (usize, usize) {
        let mut text = self.text.lock();
        let count = text.used.min(to.len()).min(ROOM - text.begin);
        to[..count].copy_from_slice(&text.bytes[text.begin..text.begin + count]);
        text.begin = (text.begin + count) % ROOM;
        text.used -= count;
        (count, std::mem::take(&mut text.lost))
    }
}
