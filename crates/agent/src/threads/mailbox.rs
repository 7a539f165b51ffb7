//! What the program's threads ask of the agent thread, one request at a time.
//!
//! Their waits are marked: who looks for the ends of jobs must know that a thread that waits here does not block of its
//! own accord.

use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::message::{Inheritance, Request, Stranger};

use crate::client::Client;
use crate::client::attach;
use crate::client::connection::Connection;
use crate::client::told;
use crate::client::userfault;
use crate::forks::inheritance;
use crate::hooks::locks;
use crate::kernel_paths::needed;
use crate::kernel_paths::own_tasks;
use crate::process::{self, Process};
use crate::sys::CpuSet;
use crate::sys::stack;
use crate::threads;
use crate::threads::watch;
use crate::{filters, orders, sys, text};

/// Register the private memory at the two arguments, address and length.
pub(crate) const REGISTER: u32 = 1;
/// Serve the text of the objects whose dynamic sections are in the client's table.
pub(crate) const TEXT: u32 = 2;
/// Children of forks have the content of the private memory at the two arguments, where they have the memory.
pub(crate) const KEEP_ON_FORK: u32 = 3;
/// They have zeros there.
pub(crate) const WIPE_ON_FORK: u32 = 4;
/// They have nothing there.
pub(crate) const DONT_FORK: u32 = 5;
/// They have the memory.
pub(crate) const DO_FORK: u32 = 11;
/// They have of some memory what they have of other: the first argument is the place of an [`inheritance::Alike`].
pub(crate) const INHERIT_ALIKE: u32 = 12;
/// Give the private memory at the two arguments back to the kernel with its content; all of it where the length is 0.
pub(crate) const RELINQUISH: u32 = 6;
/// The same of another process: its number is the first argument.
pub(crate) const RELINQUISH_OTHER: u32 = 7;
/// Have the server lock what is managed of the range at the two arguments.
pub(crate) const LOCK: u32 = 8;
/// Have the server lock the range at the two arguments, where managed memory is about to be.
pub(crate) const LOCK_AHEAD: u32 = 14;
/// Take back what the last such request with this place has locked.
pub(crate) const LOCK_NOT: u32 = 9;
/// Have the server unlock the range at the two arguments.
pub(crate) const UNLOCK: u32 = 10;
/// Wait until the server has been told of all that has happened to the address space.
pub(crate) const AWAIT_TOLD: u32 = 13;
/// Carry out all orders that the server has given so far.
pub(crate) const CARRY_OUT: u32 = 15;
/// Tell the server of the [`Note`] whose address is the first argument.
pub(crate) const STRANGER: u32 = 20;

/// Have a connection for a child that is about to be forked, in `lent` of the process.
pub(crate) const LEND: u32 = 21;
/// Close that.
pub(crate) const LENT: u32 = 22;
/// Whether the device and inode at the two arguments are those of the folder of this process's threads.
pub(crate) const IS_TASKS: u32 = 23;
/// End, and the watcher too.
pub(crate) const END: u32 = 24;

/// A program that runs unmanaged, in memory of this library's that stays until the request is met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note<'a> {
    /// The process, in its own numbering.
    pub(crate) process: u32,
    pub(crate) why: Stranger,
    /// What it is called, up to a zero byte.
    pub(crate) name: &'a [u8],
}

/// Asks and waits; `prepare` runs once the agent is the caller's alone. Whether it was done.
pub(crate) fn ask(process: &Process, request: u32, arguments: [usize; 2], prepare: impl FnOnce()) -> bool {
    let done = hold(process, || {
        prepare();
        exchange(process, request, arguments)
    });
    done.unwrap_or(false)
}

/// Runs `function` while the agent is the caller's alone; `None` where there is no agent any more.
pub(crate) fn hold<T>(process: &Process, function: impl FnOnce() -> T) -> Option<T> {
    let mask = block_signals();
    let done = lock(process).then(|| {
        // SAFETY: this thread has the lock, and blocks all signals; nothing here unwinds.
        let done = unsafe { stack::run(process, function) };
        unlock(process);
        done
    });
    restore_signals(mask);
    done
}

/// Asks and waits, with the lock held. Whether it was done: nothing is where a filter binds the agent thread.
pub(crate) fn exchange(process: &Process, request: u32, arguments: [usize; 2]) -> bool {
    if filters::binds_agent() {
        return false;
    }
    for (place, argument) in process.mailbox.arguments.iter().zip(arguments) {
        place.store(argument, Ordering::Relaxed);
    }
    let client = attach::client_of(process);
    let stays = client.filter(|_| request != END && !filters::is_there());
    let home = stays.and_then(|client| Some((client, bring_near(client)?)));
    let before = process.mailbox.met.load(Ordering::Acquire);
    process.mailbox.request.store(request, Ordering::Release);
    if let Some(client) = client {
        orders::ring(client);
    }
    while process.mailbox.met.load(Ordering::Acquire) == before {
        if !wait(process, &process.mailbox.met, before) {
            return false;
        }
    }
    if let Some((client, home)) = home {
        sys::set_affinity(client.thread as usize, &home);
    }
    let [answer, _] = &process.mailbox.arguments;
    answer.load(Ordering::Relaxed) == 1
}

/// Has the agent thread run on the caller's CPU, where it comes before the caller: woken from another, either takes
/// several times as long. Where it was, if it is to go back there: the server has put it beside its own thread.
///
/// Where the kernel refuses, it comes from where it is.
fn bring_near(client: &Client) -> Option<CpuSet> {
    const BITS: usize = u64::BITS as usize;
    let thread = client.thread as usize;
    let cpu = sys::cpu()? as usize;
    let mut here = CpuSet::default();
    *here.get_mut(cpu / BITS)? = 1 << (cpu % BITS);
    let before = sys::affinity(thread)?;
    (before != here && sys::set_affinity(thread, &here)).then_some(before)
}

/// The agent thread's side: meets a request if there is one. `meanwhile` is called where it has to wait.
pub(crate) fn answer(client: &'static Client, session: &mut Connection, meanwhile: &mut dyn FnMut()) -> bool {
    let Some(process) = process::process() else {
        return false;
    };
    let request = process.mailbox.request.load(Ordering::Acquire);
    if request == 0 {
        return false;
    }
    let [first, second] = &process.mailbox.arguments;
    let range = [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)];
    let [start, length] = range;
    let done = match request {
        REGISTER => {
            told::await_all(client, process, session, meanwhile);
            let modes = userfault::MISSING | userfault::WRITE_PROTECT;
            userfault::register(client.descriptors.private, start, length, modes).is_ok()
        }
        AWAIT_TOLD => {
            told::await_all(client, process, session, meanwhile);
            true
        }
        CARRY_OUT => {
            for _ in 0..orders::BATCHES {
                meanwhile();
            }
            true
        }
        TEXT => {
            text::serve(client, session, meanwhile);
            threads::rise(client);
            true
        }
        INHERIT_ALIKE => inheritance::admit_alike(session, start, meanwhile),
        STRANGER => {
            // SAFETY: the caller of `ask` waits, and has this structure on a stack of this library's.
            let note = unsafe { &*core::ptr::with_exposed_provenance::<Note<'_>>(first.load(Ordering::Relaxed)) };
            tell(session, note)
        }
        IS_TASKS => own_tasks::are_at(range),
        END => {
            threads::begin_end(client);
            true
        }
        LEND => lend(process, session),
        LENT => {
            sys::close(i32::try_from(process.fork.lent.swap(0, Ordering::Relaxed)).unwrap_or(-1));
            true
        }
        other => about_memory(client, session, other, range, meanwhile),
    };
    if done && request == RELINQUISH && length == 0 {
        needed::leave_untouched(client);
    }
    first.store(usize::from(done), Ordering::Relaxed);
    process.mailbox.request.store(0, Ordering::Relaxed);
    process.mailbox.met.fetch_add(1, Ordering::Release);
    sys::futex_wake(&process.mailbox.met);
    true
}

/// Meets a request about a range, by asking the server.
fn about_memory(
    client: &Client,
    session: &mut Connection,
    request: u32,
    range: [usize; 2],
    meanwhile: &mut dyn FnMut(),
) -> bool {
    let [start, length] = range;
    if let Some(how) = inherited(request) {
        return inheritance::admit(client, session, range, how, meanwhile);
    }
    match request {
        LOCK => locks::admit(client, session, range, meanwhile),
        LOCK_AHEAD => locks::admit_ahead(session, range, meanwhile),
        LOCK_NOT => locks::take_back(session, start, meanwhile),
        UNLOCK => locks::give_back(session, range, meanwhile),
        _ => of_the_server(request, start, length).is_some_and(|request| session.order(&request, meanwhile).is_ok()),
    }
}

/// What children are to have, by a request about that.
fn inherited(request: u32) -> Option<Inheritance> {
    match request {
        KEEP_ON_FORK => Some(Inheritance::Content),
        WIPE_ON_FORK => Some(Inheritance::Zeros),
        DONT_FORK => Some(Inheritance::Nothing),
        DO_FORK => Some(Inheritance::Mapping),
        _ => None,
    }
}

/// What is to be asked of the server for a request that is its alone.
fn of_the_server(request: u32, first: usize, second: usize) -> Option<Request<'static>> {
    let (address, length) = (first as u64, second as u64);
    match request {
        RELINQUISH => Some(Request::Relinquish {
            process: 0,
            address,
            length,
        }),
        RELINQUISH_OTHER => Some(Request::Relinquish {
            process: u32::try_from(first).ok().filter(|process| *process > 0)?,
            address: 0,
            length: 0,
        }),
        _ => None,
    }
}

/// Asks the server for a connection that is another's.
fn lend(process: &Process, session: &mut Connection) -> bool {
    let asked = session.send(&Request::Lend {}, &[]);
    let answer = asked.and_then(|()| session.receive().map(|(_, [end, ..])| end));
    match answer.map(u32::try_from) {
        Ok(Ok(end)) => {
            process.fork.lent.store(end, Ordering::Relaxed);
            true
        }
        _ => false,
    }
}

/// Tells the server of a program that runs unmanaged.
fn tell(session: &mut Connection, note: &Note<'_>) -> bool {
    let name = note.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let stranger = Request::Stranger {
        process: note.process,
        why: note.why,
        name: core::str::from_utf8(name).unwrap_or("(not UTF-8)"),
    };
    session
        .send(&stranger, &[])
        .and_then(|()| session.receive().map(|_| ()))
        .is_ok()
}

/// Takes the mailbox's lock; false where its holder has ended with the agent.
fn lock(process: &Process) -> bool {
    let word = &process.mailbox.lock;
    acquire_by(word, || wait(process, word, 2))
}

/// Waits while a word has a value, for a while; false where the agent, and with it the process that it serves, has
/// ended. A process that shares that one's memory, as the child of a `vfork`, may go on.
fn wait(process: &Process, word: &AtomicU32, value: u32) -> bool {
    sys::futex_wait_awhile_for_agent(word, value);
    let is_over = attach::client_of(process).is_some_and(|client| client.life.is_over());
    // The process itself may be without an agent for a moment. It asks for its number only then: a filter of the
    // program's may forbid that.
    if !is_over || sys::pid() == process.pid.load(Ordering::Relaxed) {
        return true;
    }
    watch::outlive();
    false
}

fn unlock(process: &Process) {
    release(&process.mailbox.lock);
}

/// Takes a lock, a word that is 0 while nobody has it. All signals are blocked from before until after that.
pub(crate) fn acquire(word: &AtomicU32) {
    acquire_by(word, || {
        sys::futex_wait_for_agent(word, 2);
        true
    });
}

/// Takes a lock; `wait` waits while the word is 2, and says whether the lock is still to be had: false where it is not.
fn acquire_by(word: &AtomicU32, wait: impl Fn() -> bool) -> bool {
    let first = word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
    // 2: somebody waits.
    while first.is_err() && word.swap(2, Ordering::Acquire) != 0 {
        if !wait() {
            return false;
        }
    }
    true
}

/// Gives a lock back.
pub(crate) fn release(word: &AtomicU32) {
    if word.swap(0, Ordering::Release) == 2 {
        sys::futex_wake(word);
    }
}

/// While there is one, signals of the calling thread wait: a handler that does not return would leave what it has come
/// into as it is, be it by a jump or by the end of the thread. Not under a filter of system calls, which may forbid it.
#[derive(Debug)]
pub(crate) struct Quiet(Option<u64>);

impl Quiet {
    pub(crate) fn begin() -> Self {
        Self((!filters::is_there()).then(block_signals))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(mask) = self.0 {
            restore_signals(mask);
        }
    }
}

/// Blocks every signal of the calling thread, so that no handler comes back here while the lock is held.
pub(crate) fn block_signals() -> u64 {
    set_mask(u64::MAX)
}

/// Lets through again what was let through before.
pub(crate) fn restore_signals(mask: u64) {
    set_mask(mask);
}

fn set_mask(mask: u64) -> u64 {
    const SET_MASK: usize = 2;
    let mut before = 0_u64;
    let (new, old) = (
        core::ptr::from_ref(&mask) as usize,
        core::ptr::from_mut(&mut before) as usize,
    );
    // SAFETY: the two sets of this call, of eight bytes each.
    let _ = unsafe { sys::call5(sys::SIGPROCMASK, SET_MASK, new, old, 8, 0) };
    before
}
