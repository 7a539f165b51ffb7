//! The watcher: a thread that sleeps until the server is gone, and then ends the program.
//!
//! Without a server missing pages stay missing, so whoever needs one would wait for ever; nobody reads a wrong byte.

use core::sync::atomic::Ordering;

use crate::client::Client;
use crate::silence::Stopped;
use crate::sys;
use crate::{process, report};

const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;

/// What every thread of this library shares with the program.
pub(crate) const SHARED: usize = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;

/// Starts the watcher; called by the agent thread, whose table of descriptors it shares.
pub(crate) fn start(address: usize) {
    // SAFETY: the stack is the client's and nobody else's, and `watch` keeps to this library.
    let started = unsafe { sys::spawn(SHARED | CLONE_FILES, Client::watcher_stack(address), watch, address) };
    if started.is_err() {
        report::say(&[b"the kernel starts no second thread to watch the memory server: the program ends"]);
        sys::kill_self();
    }
}

extern "C" fn watch(address: usize) -> ! {
    const HANG_UP: u64 = 0x10 | 0x8;
    const MILLISECONDS: usize = 500;
    let client = Client::at(address);
    let mut stopped = Stopped::default();
    loop {
        // `struct pollfd`: the descriptor, nothing asked for, which leaves hanging up and errors.
        let mut wanted = u64::from(client.descriptors.socket.cast_unsigned());
        let place = core::ptr::from_mut(&mut wanted) as usize;
        // SAFETY: the one structure of this call.
        let ready = unsafe { sys::call5(sys::POLL, place, 1, MILLISECONDS, 0, 0) };
        if ready == Ok(1) && wanted >> 48 & HANG_UP != 0 {
            end();
        }
        if process::FILTERED.load(Ordering::Relaxed) == 0 {
            stopped.turn(client.descriptors.socket);
        }
        if process::FILTERED.load(Ordering::Relaxed) == process::STRICT
            && let Some(code) = ended_alone()
        {
            const EXIT_GROUP: usize = 231;
            // SAFETY: ends the process as its last thread would have.
            let _ = unsafe { sys::call5(EXIT_GROUP, code, 0, 0, 0, 0) };
        }
    }
}

/// The exit code, where the program has no thread but the first, which has ended. In the strict mode of `seccomp` a
/// program can end in no other way, and no descriptor tells of it.
fn ended_alone() -> Option<usize> {
    // The directory itself has two names; the first thread counts until all have ended, and two are the agent's.
    let few = sys::links(b"/proc/self/task\0").is_ok_and(|links| links <= 2 + 3);
    let mut text = [0_u8; 1024];
    let Ok(fd) = sys::open(b"/proc/self/stat\0", false) else {
        return None;
    };
    let length = sys::read(fd, &mut text).unwrap_or(0);
    sys::close(fd);
    let text = text.get(..length).unwrap_or_default();
    if !few || !text.windows(4).any(|part| part == b") Z ") {
        return None;
    }
    // The last field: what `wait` would say.
    let number = text.trim_ascii_end().rsplit(|byte| *byte == b' ').next()?;
    let status: usize = core::str::from_utf8(number).ok()?.parse().ok()?;
    Some(status >> 8 & 0xFF)
}

/// Ends the program, whose absent pages nobody can bring any more.
pub(crate) fn end() -> ! {
    report::say(&[b"the memory server has gone, and with it the program's absent pages: the program is killed"]);
    sys::kill_self()
}
