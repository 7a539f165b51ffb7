//! The agent's threads, from their start to their end.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::client::Client;
use crate::filters::own_calls;
use crate::sys::{self, Errno};
use crate::{mailbox, orders, report, watch};

const CLONE_FILES: usize = 0x400;

/// How far the agent thread has come, as its starter and itself know it.
#[derive(Debug)]
pub(crate) struct Life {
    /// 0 wait, 1 go, 2 end.
    go: AtomicU32,
    /// 1 when it has a table of descriptors of its own.
    detached: AtomicU32,
    /// 1 when it has its class, and no capabilities any more, and the watcher has been started.
    risen: AtomicU32,
}

/// Starts the agent thread of the client at an address: it waits until it is told to go. Its number.
pub(crate) fn start(address: usize) -> Result<u32, Errno> {
    // The agent's threads take the mask along: signals of the process are the program's threads' to handle.
    let mask = mailbox::block_signals();
    let flags = watch::SHARED | CLONE_FILES;
    // SAFETY: the stack is the client's, and `begin` keeps to this library.
    let thread = unsafe { sys::spawn(flags, Client::agent_stack(address), begin, address) };
    mailbox::restore_signals(mask);
    thread.map(|thread| u32::try_from(thread).unwrap_or(0))
}

/// Tells the agent thread to go, and waits until it has taken its descriptors along; or to end.
pub(crate) fn let_go(life: &Life, goes: bool) {
    life.go.store(if goes { 1 } else { 2 }, Ordering::Release);
    sys::futex_wake(&life.go);
    while goes && life.detached.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&life.detached, 0);
    }
}

/// Where the agent thread begins: `address` is its client's.
extern "C" fn begin(address: usize) -> ! {
    let client = Client::at(address);
    loop {
        match client.life.go.load(Ordering::Acquire) {
            0 => sys::futex_wait(&client.life.go, 0),
            1 => break,
            _ => end_thread(),
        }
    }
    detach(client);
    own_calls::begin(client);
    if client.forked {
        rise(client);
    }
    client.life.detached.store(1, Ordering::Release);
    sys::futex_wake(&client.life.detached);
    orders::work(client)
}

fn end_thread() -> ! {
    const EXIT: usize = 60;
    loop {
        // SAFETY: ends this thread alone, which holds nothing.
        let _ = unsafe { sys::call5(EXIT, 0, 0, 0, 0, 0) };
    }
}

/// Before anything of the program runs: this thread comes before the program's from now on, where that is allowed,
/// because others may wait for frames that it is to give; and gives up all capabilities, so that it is no way around
/// what the program gives up. Then there is somebody to see the server go.
///
/// Not before a program's text is announced: woken by each answer of the server, this thread would take the CPU from
/// it, instead of reading all answers at once.
pub(crate) fn rise(client: &Client) {
    const SET_SCHEDULER: usize = 144;
    const FIFO_RESET_ON_FORK: usize = 1 | 0x4000_0000;
    if client.life.risen.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    let priority = 60_u32;
    let place = core::ptr::from_ref(&priority) as usize;
    // SAFETY: reads the one number; where it is refused, nothing changes.
    let _ = unsafe { sys::call5(SET_SCHEDULER, 0, FIFO_RESET_ON_FORK, place, 0, 0) };
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0_u32; 6];
    // SAFETY: the two structures of this call. Where it is refused, nothing changes.
    let _ = unsafe { sys::call5(sys::CAPSET, header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0) };
    watch::start(core::ptr::from_ref(client) as usize);
}

/// Takes a table of descriptors of its own, and closes in it all that is the program's.
fn detach(client: &Client) {
    const UNSHARE: usize = 272;
    // SAFETY: touches no memory.
    if let Err(errno) = unsafe { sys::call5(UNSHARE, CLONE_FILES, 0, 0, 0, 0) } {
        report::end(b"the kernel gives the agent no table of descriptors of its own", errno);
    }
    let mut own = client.descriptors.all();
    own.sort_unstable();
    let mut from = 0_usize;
    for fd in own {
        let Ok(fd) = usize::try_from(fd) else { continue };
        if fd > from {
            close_between(from, fd - 1);
        }
        from = fd + 1;
    }
    close_between(from, u32::MAX as usize);
}

fn close_between(first: usize, last: usize) {
    // SAFETY: touches no memory.
    let _ = unsafe { sys::call5(sys::CLOSE_RANGE, first, last, 0, 0, 0) };
}
