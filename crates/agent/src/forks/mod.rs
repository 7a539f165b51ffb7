//! What runs before a fork, and after it in the parent: a child that cannot reach the server's socket by its path
//! inherits a connection.
//!
//! A program may take a namespace of mounts of its own, another root, another user, or the socket's folder may go. Its
//! child must not depend on that: until it is a client, only the server holds what makes inherited memory fault. Where
//! the path leads to the socket no more, the agent thread has the server make a connection, and the thread that forks
//! takes it from the agent's table (`pidfd_getfd`, Linux 6.9) into the program's, for the time of the fork.

pub(super) mod inheritance;

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::client::attach;
use crate::client::settings::SETTINGS;
use crate::hooks::behind::behind;
use crate::process::{self, Process};
use crate::sys::table::Table;
use crate::sys::{self, AT_FDCWD, Errno};
use crate::threads::mailbox;
use crate::{filters, hooks};

/// The connection that a child inherits, in the program's table; -1 without. A child has it as it was at the fork.
static INHERITED: AtomicI32 = AtomicI32::new(-1);
/// The socket as it was found at the start: device and inode.
static SOCKET: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The signal mask of the thread that forks, for its child, where that has been changed.
static MASK: AtomicU64 = AtomicU64::new(0);
static IS_MASKED: AtomicU32 = AtomicU32::new(0);

/// Notes which socket the server has, while its path leads there.
pub(crate) fn note_socket() {
    if let Some(found) = socket() {
        for (place, word) in SOCKET.iter().zip(found) {
            place.store(word, Ordering::Relaxed);
        }
    }
}

fn path() -> [u8; 108] {
    let mut path = [0_u8; 108];
    for (to, from) in path.iter_mut().take(107).zip(SETTINGS.socket()) {
        *to = *from;
    }
    path
}

fn socket() -> Option<[u64; 2]> {
    sys::place(&path()).ok()
}

/// Whether this thread, and so its child, may connect to the same socket by the path.
fn is_within_reach() -> bool {
    const WRITABLE: usize = 2;
    let [device, inode] = SOCKET.each_ref().map(|place| place.load(Ordering::Relaxed));
    socket() == Some([device, inode]) && sys::may(AT_FDCWD, path().as_ptr() as usize, WRITABLE, 0)
}

/// The process that is about to fork, if it is a client.
fn client() -> Option<&'static Process> {
    let ready = |process: &&Process| process.phase.load(Ordering::Acquire) == process::READY;
    process::process().filter(|process| !filters::is_there() && ready(process))
}

/// Whether the server has no place for one more child of this program: it would be the program's end.
pub(crate) fn has_no_place() -> bool {
    let client = client().and_then(attach::client_of);
    client.is_some_and(|client| client.channel().full.load(Ordering::Relaxed) != 0)
}

/// The C library's `fork`. A child that the server has no place for is refused as one past the user's number of
/// processes is (`RLIMIT_NPROC`).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> c_int {
    if has_no_place() {
        return hooks::fail(Errno::AGAIN, -1);
    }
    behind!(FORK as unsafe extern "C" fn() -> c_int,)
}

/// Before a fork. Signals are blocked from here on: a handler that forks too would wait for itself.
pub(crate) extern "C" fn before() {
    let Some(process) = client() else { return };
    let mask = mailbox::block_signals();
    mailbox::acquire(&process.fork.lock);
    process.fork.thread.store(sys::thread_pointer(), Ordering::Relaxed);
    process.fork.mask.store(mask, Ordering::Relaxed);
    MASK.store(mask, Ordering::Relaxed);
    IS_MASKED.store(1, Ordering::Relaxed);
    if !is_within_reach() && mailbox::ask(process, mailbox::LEND, [0; 2], || ()) {
        INHERITED.store(take(process).unwrap_or(-1), Ordering::Relaxed);
        mailbox::ask(process, mailbox::LENT, [0; 2], || ());
    }
}

/// A duplicate of what the agent thread was given, in the calling thread's table.
fn take(process: &Process) -> Option<i32> {
    let lent = process.fork.lent.load(Ordering::Relaxed);
    let agent = Table::of(attach::client_of(process)?.thread).ok()?;
    agent.duplicate(i32::try_from(lent).ok()?).ok()
}

/// After a fork, in the parent, or where there was none.
pub(crate) extern "C" fn after() {
    // Another thread may have set up a filter meanwhile: what was begun is ended all the same.
    let own = |process: &&Process| process.fork.thread.load(Ordering::Relaxed) == sys::thread_pointer();
    let Some(process) = process::process().filter(own) else {
        return;
    };
    process.fork.thread.store(0, Ordering::Relaxed);
    sys::close(INHERITED.swap(-1, Ordering::Relaxed));
    let mask = process.fork.mask.load(Ordering::Relaxed);
    IS_MASKED.store(0, Ordering::Relaxed);
    mailbox::release(&process.fork.lock);
    mailbox::restore_signals(mask);
}

/// In the child of the thread that forked: the connection that it has inherited is its own.
pub(crate) fn inherit(process: &Process) {
    let inherited = INHERITED.swap(-1, Ordering::Relaxed);
    if let Ok(inherited) = u32::try_from(inherited) {
        process.fork.lent.store(inherited + 1, Ordering::Relaxed);
    }
}

/// In the child that connects: the connection that it has inherited, if it has.
pub(crate) fn inherited() -> Option<i32> {
    let lent = process::process()?.fork.lent.swap(0, Ordering::Relaxed);
    lent.checked_sub(1).and_then(|lent| i32::try_from(lent).ok())
}

/// In the child, once it is a client: the signals that its parent had let through.
pub(crate) fn restore_signals() {
    if IS_MASKED.swap(0, Ordering::Relaxed) == 1 {
        mailbox::restore_signals(MASK.load(Ordering::Relaxed));
    }
}
