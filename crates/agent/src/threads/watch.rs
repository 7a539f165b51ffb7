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

/// Starts the watcher. Called by the agent thread, whose table of descriptors it shares, and which stands in for it
/// where the kernel starts no more threads: a user or a control group may have as many as they may.
pub(crate) fn start(client: &Client) {
    const EVENTFD: usize = 290;
    // Made here: the program may forbid such calls before the watcher has run at all.
    // SAFETY: touches no memory. Without one the watcher ends after its next look.
    let rouse = unsafe { sys::call5(EVENTFD, 0, sys::CLOEXEC, 0, 0, 0) }.map_or(-1, sys::descriptor);
    client.life.set_rouse(rouse);
    try_start(client);
}

fn try_start(client: &Client) {
    let address = core::ptr::from_ref(client) as usize;
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
    client
        .life
        .set_watcher(started.map_or(0, |thread| u32::try_from(thread).unwrap_or(0)));
}

/// One of the agent thread's turns while there is no watcher: what that would look at, and another try to start it.
pub(crate) fn stand_in(client: &Client) {
    const AT_ONCE: usize = 0;
    if is_over(client, AT_ONCE) {
        end();
    }
    end_left_alone(client, 1);
    client.life.unfiltered(|| try_start(client));
}

/// `struct pollfd`: a descriptor, and what it is asked for.
fn pollfd(fd: i32, wanted: u16) -> u64 {
    u64::from(fd.cast_unsigned()) | u64::from(wanted) << 32
}

extern "C" fn watch(address: usize) -> ! {
    const MILLISECONDS: usize = 500;
    let client = Client::at(address);
    let mut stopped = Stopped::default();
    // The agent thread may be about to end its own such calls.
    client.life.await_watcher();
    while !client.life.is_ending() {
        if is_over(client, MILLISECONDS) {
            end();
        }
        client.life.unfiltered(|| stopped.turn(client.descriptors.socket));
        end_left_alone(client, THREADS);
    }
    threads::end_thread(&client.life)
}

/// Waits so long at most for the end of the connection, or to be roused: whether it is over.
fn is_over(client: &Client, milliseconds: usize) -> bool {
    const HANG_UP: u64 = 0x10 | 0x8;
    const READABLE: u16 = 1;
    // `struct pollfd`: the descriptor, nothing asked for, which leaves hanging up and errors; and what rouses.
    let mut wanted = [
        pollfd(client.descriptors.socket, 0),
        pollfd(client.life.rouse(), READABLE),
    ];
    let (place, count) = (wanted.as_mut_ptr() as usize, wanted.len());
    // SAFETY: the structures of this call.
    let ready = unsafe { sys::own::call(sys::POLL, place, count, milliseconds, 0, 0) };
    let [connection, _] = wanted;
    ready.is_ok_and(|ready| ready > 0) && connection >> 48 & HANG_UP != 0
}

/// Ends the program where none of its threads is left, but so many of this library's.
fn end_left_alone(client: &Client, own: u64) {
    let Some(status) = left_alone::status(client, own) else {
        return;
    };
    if filters::binds_agent() {
        threads::end_both(client, status);
    }
    left_alone::end(status);
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
