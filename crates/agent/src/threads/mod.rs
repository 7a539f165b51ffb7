//! The agent's threads, from their start to their end, which others may follow.

pub mod alone;
pub(super) mod left_alone;
pub(super) mod mailbox;
pub(super) mod sched;
pub(super) mod watch;

use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::channel::Position;

use crate::client::Client;
use crate::filters::own_calls;
use crate::sys::{self, Errno};
use crate::{filters, orders, report};

const CLONE_FILES: usize = 0x400;

/// How far the agent thread has come, as its starter and itself know it.
#[derive(Debug)]
pub(crate) struct Life {
    /// 1 as long as it is there: the kernel makes it 0 when it has ended, however that was.
    there: AtomicU32,
    /// What it waits for at first: a number of [`Go`], or 0.
    go: AtomicU32,
    /// 1 when it has a table of descriptors of its own.
    detached: AtomicU32,
    /// 1 when it has its class, and no capabilities any more, and the watcher has been started, if that could be.
    risen: AtomicU32,
    /// The watcher's number; 0 where there is none.
    watcher: AtomicU32,
    /// What the watcher hears of its end by, in the agent's table: its number and 1, or 0.
    rouse: AtomicU32,
    /// 1 when both threads are to end, 2 when the agent thread has nothing left to do.
    ending: AtomicU32,
    /// 1 while the watcher, or who stands in for it, makes calls that a filter of the program's would not let pass.
    apart: AtomicU32,
    /// What `wait` is to say of a program that has no thread left.
    status: AtomicU32,
    /// Orders taken and replies given, by all agent threads of this client so far.
    passed: [AtomicU32; 2],
}

/// What an agent thread is told that waits to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// Begin; it is told later when to rise.
    Begin = 1,
    /// Begin, and rise at once.
    Rise = 2,
    /// End.
    End = 3,
}

impl Life {
    /// Forgets the thread that has ended, but for what it has passed.
    fn begin_anew(&self) {
        let words = [
            &self.go,
            &self.detached,
            &self.risen,
            &self.watcher,
            &self.rouse,
            &self.apart,
            &self.ending,
        ];
        for word in words {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Where an agent thread goes on: in the orders, and in the replies.
    pub(crate) fn positions(&self) -> [Position; 2] {
        let passed = self.passed.each_ref();
        passed.map(|count| Position::after(count.load(Ordering::Relaxed)))
    }

    /// Whether the agent thread has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.there.load(Ordering::Acquire) == 0
    }

    /// Whether both threads are to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst) != 0
    }

    /// Whether there should be a watcher, and is none.
    pub(crate) fn lacks_watcher(&self) -> bool {
        self.risen.load(Ordering::Relaxed) != 0 && self.watcher.load(Ordering::Relaxed) == 0
    }

    /// There is a watcher of that number, or none.
    fn set_watcher(&self, thread: u32) {
        self.watcher.store(thread, Ordering::Relaxed);
    }

    /// There is a descriptor that the watcher is to wait for.
    pub(crate) fn set_rouse(&self, fd: i32) {
        self.rouse.store(u32::try_from(fd + 1).unwrap_or(0), Ordering::SeqCst);
    }

    /// Has the watcher, or who stands in for it, make calls of all kinds, where the program has no filter, and is about
    /// to set up none.
    pub(crate) fn unfiltered(&self, calls: impl FnOnce()) {
        self.apart.store(1, Ordering::SeqCst);
        if !filters::is_there() {
            calls();
        }
        self.apart.store(0, Ordering::SeqCst);
    }

    /// Waits until the watcher makes no calls that a filter would not let pass. It begins none once there is a filter.
    /// No longer than a second or two: the program's own threads may keep it from running.
    pub(crate) fn await_watcher(&self) {
        const NAP: usize = 20_000;
        const NAPS: usize = 20_000;
        for _ in 0..NAPS {
            if self.apart.load(Ordering::SeqCst) == 0 {
                return;
            }
            sys::nap(NAP);
        }
    }

    pub(crate) fn rouse(&self) -> i32 {
        i32::try_from(self.rouse.load(Ordering::SeqCst)).map_or(-1, |number| number - 1)
    }
}

/// Starts the agent thread of the client at an address: it waits until it is told to go. Its number.
pub(crate) fn start(address: usize) -> Result<u32, Errno> {
    // The agent's threads take the mask along: signals of the process are the program's threads' to handle.
    let mask = mailbox::block_signals();
    let flags = watch::SHARED | CLONE_FILES;
    let there = &Client::at(address).life.there;
    there.store(1, Ordering::Relaxed);
    // SAFETY: the stack is the client's and nobody else's, as the word is, and `begin` keeps to this library.
    let thread = unsafe { sys::spawn(flags, Client::agent_stack(address), begin, address, Some(there)) };
    mailbox::restore_signals(mask);
    thread.map(|thread| u32::try_from(thread).unwrap_or(0))
}

/// Whether the kernel starts a thread here now: it does not where children are to have a name space of processes of
/// their own, nor past a limit. The agent thread waits meanwhile.
pub(crate) fn can_start(address: usize) -> bool {
    extern "C" fn end_at_once(address: usize) -> ! {
        end_thread(&Client::at(address).life)
    }
    let flags = watch::SHARED | CLONE_FILES;
    // SAFETY: the stack is the client's and nobody else's, and the thread ends. All signals are blocked.
    let thread = unsafe { sys::spawn(flags, Client::short_stack(address), end_at_once, address, None) };
    let Ok(thread) = thread else { return false };
    await_thread(u32::try_from(thread).unwrap_or(0));
    true
}

/// Waits until the kernel has a thread no more.
fn await_thread(thread: u32) {
    const NAP: usize = 50_000;
    while sys::is_thread(thread) {
        sys::nap(NAP);
    }
}

/// Tells the agent thread to go, and waits until it has taken its descriptors along; or to end.
pub(crate) fn let_go(life: &Life, go: Go) {
    life.go.store(go as u32, Ordering::Release);
    sys::futex_wake(&life.go);
    while go != Go::End && life.detached.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&life.detached, 0);
    }
}

/// Where the agent thread begins: `address` is its client's.
extern "C" fn begin(address: usize) -> ! {
    const BEGIN: u32 = Go::Begin as u32;
    const RISE: u32 = Go::Rise as u32;
    let client = Client::at(address);
    let go = loop {
        match client.life.go.load(Ordering::Acquire) {
            0 => sys::futex_wait(&client.life.go, 0),
            go => break go,
        }
    };
    if go != BEGIN && go != RISE {
        end_thread(&client.life);
    }
    detach(client);
    own_calls::begin(client);
    if go == RISE {
        rise(client);
    }
    client.life.detached.store(1, Ordering::Release);
    sys::futex_wake(&client.life.detached);
    orders::work(client)
}

/// Ends this thread. The last one of a process says how it has ended: as the program's threads have, where none of them
/// is left.
pub(crate) fn end_thread(life: &Life) -> ! {
    const GETPPID: usize = 110;
    const BY_SIGNAL: usize = 128;
    let status = life.status.load(Ordering::Relaxed) as usize;
    let signal = status & 0x7F;
    if signal != 0 {
        // The filter that has ended the first thread does not forget this one: it forbids nearly everything.
        // SAFETY: touches no memory.
        let _ = unsafe { sys::call5(GETPPID, 0, 0, 0, 0, 0) };
    }
    let code = if signal == 0 {
        status >> 8 & 0xFF
    } else {
        BY_SIGNAL + signal
    };
    loop {
        // SAFETY: ends this thread alone, which holds nothing.
        let _ = unsafe { sys::own::call(sys::EXIT, code, 0, 0, 0, 0) };
    }
}

/// The agent thread has been asked to end: the watcher ends at once, this thread when it has answered.
pub(crate) fn begin_end(client: &Client) {
    client.life.ending.store(1, Ordering::SeqCst);
    let one = 1_u64;
    let place = core::ptr::from_ref(&one) as usize;
    // SAFETY: reads eight bytes. A watcher without that descriptor ends after its next look.
    let _ = unsafe { sys::call5(sys::WRITE, sys::arg(client.life.rouse()), place, 8, 0, 0) };
}

/// The watcher ends, and the agent thread too: none of the program's is left, whose first one has ended so.
pub(crate) fn end_both(client: &Client, status: usize) -> ! {
    client
        .life
        .status
        .store(u32::try_from(status).unwrap_or(0), Ordering::Relaxed);
    client.life.ending.store(1, Ordering::SeqCst);
    orders::ring(client);
    end_thread(&client.life)
}

/// The end of the agent thread, which has come so far in the orders and in the replies.
pub(crate) fn end(client: &Client, passed: [&Position; 2]) -> ! {
    for (place, position) in client.life.passed.iter().zip(passed) {
        place.store(position.count(), Ordering::Relaxed);
    }
    client.life.ending.store(2, Ordering::Release);
    sys::futex_wake(&client.life.ending);
    end_thread(&client.life)
}

/// Waits until the kernel has neither of the threads any more, which were asked to end; then others can be started.
pub(crate) fn await_end(client: &Client) {
    let life = &client.life;
    while life.ending.load(Ordering::Acquire) != 2 {
        sys::futex_wait_for_agent(&life.ending, 1);
    }
    // Their stacks are theirs until then.
    let watcher = life.watcher.load(Ordering::Relaxed);
    for thread in [client.thread, watcher].into_iter().filter(|thread| *thread != 0) {
        await_thread(thread);
    }
    life.begin_anew();
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
    watch::start(client);
}

/// Takes a table of descriptors of its own, and closes in it all that is the program's.
fn detach(client: &Client) {
    // SAFETY: touches no memory.
    if let Err(errno) = unsafe { sys::call5(sys::UNSHARE, CLONE_FILES, 0, 0, 0, 0) } {
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
