//! Calls that the kernel refuses to a process of several threads: taking a name space of users of its own, or joining
//! one (unshare(2), setns(2)).
//!
//! A program that has one thread is not refused for the agent's two. They end before the call, and others begin after
//! it and go on where those were. Meanwhile the server serves faults as ever, and what it orders waits. The agent's
//! descriptors are in the program's table for that time, of which nobody else has a thread.
//!
//! A call may do more at the same time: what would keep a process from having another thread ever after (a name space
//! of processes, or of times, for its children), or what takes long (of mounts, of the network). That is done by a
//! second call, once the agent is there again.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use freehold_protocol::message::Request;

use crate::client::attach;
use crate::client::connection::Connection;
use crate::client::{Client, Descriptors};
use crate::process::Process;
use crate::sys::table::Table;
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;
use crate::threads::sched::Raised;
use crate::threads::watch;
use crate::threads::{self, Go};
use crate::{hooks, report};

const NEW_USER: usize = 0x1000_0000;
const NEW_PID: usize = 0x2000_0000;
const NEW_TIME: usize = 0x80;

/// The C library's `unshare`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    answered(unshare_all(flags.cast_unsigned() as usize))
}

/// The C library's `setns`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    answered(join(fd, kind.cast_unsigned() as usize))
}

fn answered(answer: Answer) -> c_int {
    match answer {
        Ok(answer) => sys::descriptor(answer),
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// The program's `unshare`.
pub(crate) fn unshare_all(flags: usize) -> Answer {
    /// `CLONE_VM`, `CLONE_SIGHAND`, `CLONE_THREAD`: a process of one thread shares none.
    const ONE_THREAD: usize = 0x100 | 0x800 | 0x1_0000;
    /// All that the kernel takes.
    const KNOWN: usize = ONE_THREAD | NEW_USER | NEW_PID | NEW_TIME | 0x200 | 0x400 | 0x6_0000 | 0x4E00_0000;
    let call = |flags| {
        // SAFETY: touches no memory.
        unsafe { sys::call5(sys::UNSHARE, flags, 0, 0, 0, 0) }
    };
    let first = flags & (NEW_USER | ONE_THREAD);
    if first == 0 || flags & !KNOWN != 0 {
        return call(flags);
    }
    let rest = flags & !first;
    alone(|| call(first), || if rest == 0 { Ok(0) } else { call(rest) }).unwrap_or_else(|| call(flags))
}

/// The program's `setns`.
pub(crate) fn join(fd: i32, kind: usize) -> Answer {
    let call = |kind| {
        // SAFETY: touches no memory.
        unsafe { sys::call5(sys::SETNS, sys::arg(fd), kind, 0, 0, 0) }
    };
    let asked = if kind == 0 { kind_of(fd) } else { kind };
    if asked & (NEW_USER | NEW_TIME) == 0 {
        return call(kind);
    }
    // Of a process's name spaces several can be joined at once.
    let rest = kind & NEW_PID;
    let done = alone(|| call(kind & !NEW_PID), || if rest == 0 { Ok(0) } else { call(rest) });
    done.unwrap_or_else(|| call(kind))
}

/// Which kind of name space a descriptor is of; 0 where it is of none (ioctl_ns(2)).
fn kind_of(fd: i32) -> usize {
    const GET_KIND: usize = 0xB703;
    // SAFETY: touches no memory.
    unsafe { sys::call5(sys::IOCTL, sys::arg(fd), GET_KIND, 0, 0, 0) }.unwrap_or(0)
}

/// Whether the program has this thread only, beside the agent's two.
pub(crate) fn is_only_thread() -> bool {
    // The directory itself has two names.
    const THREE: u64 = 2 + 1 + watch::THREADS;
    hooks::is_managed() && sys::links(b"/proc/self/task\0") == Ok(THREE)
}

/// Makes one call without the agent, and where it succeeds another one with it. None where the agent stays.
fn alone(first: impl FnOnce() -> Answer, second: impl FnOnce() -> Answer) -> Option<Answer> {
    let process = hooks::client_process().filter(|_| is_only_thread())?;
    let done = mailbox::hold(process, || {
        let client = attach::client_of(process)?;
        let absence = Absence::begin(process, client)?;
        let done = first();
        absence.end(process.client.load(Ordering::Acquire));
        Some(done.and_then(|_| second()))
    });
    done.flatten()
}

/// The time without an agent.
struct Absence {
    /// The agent's descriptors, in the program's table.
    descriptors: Descriptors,
    raised: Raised,
}

impl Absence {
    /// Has the agent's threads end. None where others could not begin later, or not with its descriptors.
    fn begin(process: &Process, client: &Client) -> Option<Self> {
        let raised = Raised::to(client.thread)?;
        let can_start = threads::can_start(process.client.load(Ordering::Acquire));
        let Some(descriptors) = can_start.then(|| duplicates(client)).flatten() else {
            raised.undo();
            return None;
        };
        mailbox::exchange(process, mailbox::END, [0; 2]);
        threads::await_end(client);
        Some(Self { descriptors, raised })
    }

    /// Has others begin, in the program's place.
    fn end(self, address: usize) {
        // SAFETY: this is the process's only thread.
        let client = unsafe { Client::at_mut(address) };
        client.descriptors = self.descriptors;
        client.thread = begin_again(address);
        self.raised.end(client.thread);
        let answer_by = Request::AnswerBy {
            agent_thread: client.thread,
        };
        let mut session = Connection::over(client.descriptors.socket);
        if session.order(&answer_by, &mut || ()).is_err() {
            watch::end();
        }
        threads::let_go(&Client::at(address).life, Go::Rise);
        self.descriptors.close();
    }
}

/// The agent's descriptors, in the calling thread's table: all of them, or none.
fn duplicates(client: &Client) -> Option<Descriptors> {
    let table = Table::of(client.thread).ok()?;
    let mut taken = Descriptors::NONE;
    let pairs = taken.each_mut().into_iter().zip(client.descriptors.all());
    let whole = pairs
        .filter(|(_, from)| *from >= 0)
        .all(|(to, from)| table.duplicate(from).map(|fd| *to = fd).is_ok());
    if !whole {
        taken.close();
    }
    whole.then_some(taken)
}

/// Starts an agent thread where there was one a moment ago. Its number.
fn begin_again(address: usize) -> u32 {
    const NAP: usize = 1_000_000;
    const TRIES: u32 = 1_000;
    let mut refused = Errno::AGAIN;
    for _ in 0..TRIES {
        match threads::start(address) {
            Ok(thread) => return thread,
            // Others of the same user may have taken its place.
            Err(errno) => refused = errno,
        }
        sys::nap(NAP);
    }
    report::end(b"the kernel starts the agent's thread no more", refused)
}
