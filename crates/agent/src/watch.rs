//! The watcher: a thread that sleeps until the server is gone, and then ends the program.
//!
//! Without a server missing pages stay missing, so whoever needs one would wait for ever; nobody reads a wrong byte.

use crate::client::Client;
use crate::report;
use crate::sys;

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
    let socket = Client::at(address).descriptors.socket;
    loop {
        const HANG_UP: u64 = 0x10 | 0x8;
        // `struct pollfd`: the descriptor, nothing asked for, which leaves hanging up and errors.
        let mut wanted = (socket.cast_unsigned()) as u64;
        let place = core::ptr::from_mut(&mut wanted) as usize;
        // SAFETY: the one structure of this call.
        let ready = unsafe { sys::call5(sys::POLL, place, 1, usize::MAX, 0, 0) };
        if ready == Ok(1) && wanted >> 48 & HANG_UP != 0 {
            report::say(&[
                b"the memory server has gone, and with it the program's absent pages: the program is killed",
            ]);
            sys::kill_self();
        }
    }
}
