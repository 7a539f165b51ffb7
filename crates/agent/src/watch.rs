//! The watcher: a thread that sleeps until the server is gone, and then ends the program.
//!
//! Without a server missing pages stay missing, so whoever needs one would wait for ever; nobody reads a wrong byte.

use crate::client::Client;
use crate::silence::Stopped;
use crate::sys;
use crate::{filters, left_alone, report};

const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;

/// What every thread of this library shares with the program.
pub(crate) const SHARED: usize = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;

/// The threads of this library: the agent thread and the watcher.
pub(crate) const THREADS: u64 = 2;

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
        let ready = unsafe { sys::own::call(sys::POLL, place, 1, MILLISECONDS, 0, 0) };
        if ready == Ok(1) && wanted >> 48 & HANG_UP != 0 {
            end();
        }
        if !filters::is_there() {
            stopped.turn(client.descriptors.socket);
        }
        if !filters::binds_agent() {
            left_alone::end();
        }
    }
}

/// Ends the program, whose absent pages nobody can bring any more.
pub(crate) fn end() -> ! {
    report::say(&[b"the memory server has gone, and with it the program's absent pages: the program is killed"]);
    sys::kill_self()
}
