//! The watcher: a thread that sleeps until the server is gone, and then ends the program.
//!
//! Without a server missing pages stay missing, so whoever needs one would wait for ever; nobody reads a wrong byte.

use crate::client::Client;
use crate::client::silence::Stopped;
use crate::client::{markers, userfault};
use crate::sys;
use crate::threads;
use crate::threads::left_alone;
use crate::{filters, report};

const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;

/// What every thread of this library shares with the program.
pub(crate) const SHARED: usize = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;

/// The threads of this library: the agent thread and the watcher.
pub(crate) const THREADS: u64 = 2;

/// Starts the watcher: its number. Called by the agent thread, whose table of descriptors it shares.
pub(crate) fn start(address: usize) -> u32 {
    const EVENTFD: usize = 290;
    // Made here: the program may forbid such calls before the watcher has run at all.
    // SAFETY: touches no memory. Without one the watcher ends after its next look.
    let rouse = unsafe { sys::call5(EVENTFD, 0, sys::CLOEXEC, 0, 0, 0) }.map_or(-1, sys::descriptor);
    Client::at(address).life.set_rouse(rouse);
    // SAFETY: the stack is the client's and nobody else's, and `watch` keeps to this library.
    let started = unsafe {
        sys::spawn(
            SHARED | CLONE_FILES,
            Client::watcher_stack(address),
            watch,
            address,
            None,
        )
    };
    let Ok(thread) = started else {
        report::say(&[b"the kernel starts no second thread to watch the memory server: the program ends"]);
        sys::kill_self();
    };
    u32::try_from(thread).unwrap_or(0)
}

/// `struct pollfd`: a descriptor, and what it is asked for.
fn pollfd(fd: i32, wanted: u16) -> u64 {
    u64::from(fd.cast_unsigned()) | u64::from(wanted) << 32
}

extern "C" fn watch(address: usize) -> ! {
    const HANG_UP: u64 = 0x10 | 0x8;
    const READABLE: u16 = 1;
    const MILLISECONDS: usize = 500;
    let client = Client::at(address);
    let mut stopped = Stopped::default();
    let rouse = client.life.rouse();
    while !client.life.is_ending() {
        // `struct pollfd`: the descriptor, nothing asked for, which leaves hanging up and errors; and what rouses.
        let mut wanted = [pollfd(client.descriptors.socket, 0), pollfd(rouse, READABLE)];
        let (place, count) = (wanted.as_mut_ptr() as usize, wanted.len());
        // SAFETY: the structures of this call.
        let ready = unsafe { sys::own::call(sys::POLL, place, count, MILLISECONDS, 0, 0) };
        let [wanted, _] = wanted;
        if ready.is_ok_and(|ready| ready > 0) && wanted >> 48 & HANG_UP != 0 {
            end();
        }
        client.life.unfiltered(|| stopped.turn(client.descriptors.socket));
        if let Some(status) = left_alone::status(client) {
            if filters::binds_agent() {
                threads::end_both(client, status);
            }
            left_alone::end(status);
        }
    }
    threads::end_thread(&client.life)
}

/// The agent's threads have ended with their process, and the caller's, which shares the memory (`vfork`, `CLONE_VM`),
/// has not. Without a server it would find zeros where memory is absent, and ends too.
pub(crate) fn outlive() {
    let Ok(own) = userfault::open(userfault::MOVER) else {
        return;
    };
    let is_served = markers::is_served(own);
    sys::close(own);
    if !is_served {
        end();
    }
}

/// Ends the program, whose absent pages nobody can bring any more.
pub(crate) fn end() -> ! {
    if filters::binds_agent() {
        // A filter may end the one thread that makes a call, and leave the program to its zeros.
        sys::crash();
    }
    report::say(&[b"the memory server has gone, and with it the program's absent pages: the program is killed"]);
    sys::kill_self()
}
