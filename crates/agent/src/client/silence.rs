//! A memory server that does not answer.
//!
//! Before a program is managed it waits for the server as long as commands do, and no longer: nothing of it has run
//! yet, so it can be refused. Afterwards its absent pages are the server's. Whoever has stopped the server may continue
//! it, so the program waits, and its user is told once what for.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::client::settings::SETTINGS;
use crate::report;
use crate::sys::{self, Answer, Errno, arg};

/// After so many seconds without an answer the program's user is told.
const TOLD: u32 = 5;
/// How often the kernel ends a wait, for that to be looked at. Seconds.
const TICK: u64 = 1;
/// Looks of the watcher at the server's process of which all must find it stopped.
const LOOKS: u32 = 3;
/// How many of the watcher's turns are between two looks.
const TURNS: u32 = 4;

const SET_OPTION: usize = 54;
const GET_OPTION: usize = 55;
const SOL_SOCKET: usize = 1;
const RECEIVE_TIMEOUT: usize = 20;
const SEND_TIMEOUT: usize = 21;
const PEER_CREDENTIALS: usize = 17;

/// How long a connection waits for answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Until then, in seconds of the monotonic clock.
    Until(u64),
    /// For ever, for so many seconds so far.
    Endless(u32),
}

impl Patience {
    /// For as long as a program may wait to become a client.
    pub(crate) fn to_be_greeted() -> Self {
        Self::Until(now().saturating_add(SETTINGS.patience()))
    }

    /// A second has gone by without an answer: whether to go on waiting.
    pub(crate) fn goes_on(&mut self) -> bool {
        match self {
            Self::Until(end) => now() < *end,
            Self::Endless(waited) => {
                *waited = waited.saturating_add(1);
                if *waited == TOLD {
                    tell();
                }
                true
            }
        }
    }

    /// There was an answer.
    pub(crate) fn is_answered(&mut self) {
        if let Self::Endless(waited) = self {
            *waited = 0;
        }
    }
}

/// Says once that the server does not answer.
fn tell() {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.swap(1, Ordering::Relaxed) == 0 {
        report::say(&[b"the memory server does not answer: this program waits for it"]);
    }
}

/// Has receiving end after each second.
pub(crate) fn tick(socket: i32) {
    set_timeout(socket, RECEIVE_TIMEOUT, TICK);
}

/// Has connecting, or sending, end after as long as a program may wait to become a client; or never.
pub(crate) fn bound_sending(socket: i32, bounded: bool) {
    set_timeout(socket, SEND_TIMEOUT, if bounded { SETTINGS.patience() } else { 0 });
}

fn set_timeout(socket: i32, option: usize, seconds: u64) {
    // `struct timeval`: seconds, and microseconds.
    let span = [seconds, 0];
    let place = span.as_ptr() as usize;
    // SAFETY: reads the structure. Without the option the wait is longer, and nothing else.
    let _ = unsafe { sys::call5(SET_OPTION, arg(socket), SOL_SOCKET, option, place, size_of_val(&span)) };
}

fn now() -> u64 {
    const CLOCK_GETTIME: usize = 228;
    const MONOTONIC: usize = 1;
    let mut time = [0_u64; 2];
    // SAFETY: writes a `struct timespec`, two words.
    let _ = unsafe { sys::call5(CLOCK_GETTIME, MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0) };
    let [seconds, _] = time;
    seconds
}

/// What the watcher knows of a server that was stopped.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    turns: u32,
    looks: u32,
}

impl Stopped {
    /// One of the watcher's turns: the server of a connection is told of once it was found stopped at several looks in
    /// a row. Threads that wait for pages in the kernel cannot say so themselves.
    pub(crate) fn turn(&mut self, socket: i32) {
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(TURNS) {
            return;
        }
        let stopped = server(socket).is_ok_and(|pid| pid > 0 && is_stopped(pid));
        self.looks = if stopped { self.looks.saturating_add(1) } else { 0 };
        if self.looks == LOOKS {
            tell();
        }
    }
}

/// The process at the other end, in this one's numbering; 0 where it has none there.
fn server(socket: i32) -> Result<u32, Errno> {
    // `struct ucred`: process, user, group.
    let mut peer = [0_u32; 3];
    let mut length = u32::try_from(size_of_val(&peer)).unwrap_or(0);
    let (place, room) = (peer.as_mut_ptr() as usize, core::ptr::from_mut(&mut length) as usize);
    // SAFETY: writes inside the structure.
    let asked: Answer = unsafe { sys::call5(GET_OPTION, arg(socket), SOL_SOCKET, PEER_CREDENTIALS, place, room) };
    let [pid, ..] = peer;
    asked.map(|_| pid)
}

/// Whether a process is stopped, by a signal or by whoever traces it.
fn is_stopped(pid: u32) -> bool {
    let mut digits = [0; 20];
    let number = report::digits(u64::from(pid), &mut digits);
    let mut path = [0_u8; 40];
    let bytes = [&b"/proc/"[..], number, b"/stat\0"].into_iter().flatten();
    let mut length = 0;
    for (to, from) in path.iter_mut().zip(bytes) {
        *to = *from;
        length += 1;
    }
    let Ok(file) = sys::open(path.get(..length).unwrap_or_default(), false) else {
        return false;
    };
    let mut text = [0_u8; 256];
    let length = sys::read(file, &mut text).unwrap_or(0);
    sys::close(file);
    let text = text.get(..length).unwrap_or_default();
    // The state follows the name, which may hold anything but ends at the last bracket.
    let end = text.iter().rposition(|byte| *byte == b')');
    let state = end.and_then(|end| text.get(end + 2));
    matches!(state, Some(b'T' | b't'))
}
