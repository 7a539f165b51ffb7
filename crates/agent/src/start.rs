//! Becoming a client: when the program is loaded, and in a forked child before anything of the program runs there.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use freehold_protocol::message::{Answer, Request, Role};

use crate::client::{Client, LINKS, register_staging};
use crate::process::{self, PAGE, Process};
use crate::session::{Session, SessionError};
use crate::settings::{SETTINGS, SettingsError};
use crate::sys::{self, Errno};
use crate::{core_file, locks, mailbox, orders, patch, report, userfault, watch};

/// Why a process is not a client; for people.
enum Failure {
    Text(&'static [u8]),
    Kernel(&'static [u8], Errno),
    Server(&'static [u8], SessionError),
}

/// `struct link_map`
#[repr(C)]
struct Link {
    bias: usize,
    name: usize,
    dynamic: usize,
    next: *const Link,
}

/// `struct r_debug`
#[repr(C)]
struct Linker {
    version: c_int,
    first: *const Link,
    hook: usize,
    state: c_int,
}

unsafe extern "C" {
    static _r_debug: Linker;
    /// What `pthread_atfork` calls: what runs before a fork, after it in the parent, and in the child.
    fn __register_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *const core::ffi::c_void,
    ) -> c_int;
}

/// Two pages that nobody touches but a forked child, once: its faults tell the server who it is. The first is private
/// memory, the second is told with the shared objects.
static MARKERS: AtomicUsize = AtomicUsize::new(0);
/// The process of this one's line that was a client last.
static ANCESTOR: AtomicU32 = AtomicU32::new(0);
/// The pages that hold changed text.
static PATCHED: [AtomicUsize; patch::PATCHED] = [const { AtomicUsize::new(0) }; patch::PATCHED];

/// What the dynamic linker is doing: 0 nothing, 1 adding, 2 removing.
pub(crate) fn linker_state() -> u32 {
    // SAFETY: the linker's own table, which it has just written on this thread.
    unsafe { (&raw const _r_debug.state).read_volatile() }.cast_unsigned()
}

/// The client that a process is.
pub(crate) fn client_of(process: &Process) -> Option<&'static Client> {
    let address = process.client.load(Ordering::Acquire);
    (address != 0).then(|| Client::at(address))
}

/// Writes down where the linker's objects are, for the agent thread, which must not read the linker's memory itself:
/// that may be managed.
pub(crate) fn note_links(client: &Client) {
    // SAFETY: as above; the list does not change while the linker calls.
    let mut at = unsafe { (&raw const _r_debug.first).read_volatile() };
    let mut count = 0;
    while !at.is_null() && count < LINKS {
        // SAFETY: a member of the linker's list.
        let link = unsafe { &*at };
        if let Some(place) = client.links.get(count) {
            place.store(link.dynamic, Ordering::Relaxed);
            count += 1;
        }
        at = link.next;
    }
    client.link_count.store(count, Ordering::Release);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = loaded;

/// Runs before the program, on its one thread.
extern "C" fn loaded() {
    // SAFETY: nothing of this library has run before.
    match unsafe { SETTINGS.read() } {
        Ok(()) => {}
        Err(SettingsError::None) => return,
        Err(SettingsError::Nonsense(text)) => {
            report::say(&[b"this program runs unmanaged: ", text]);
            return;
        }
    }
    if let Err(failure) = begin() {
        explain(&failure);
    }
}

fn begin() -> Result<(), Failure> {
    if threads() != 1 {
        return Err(Failure::Text(b"another library has started threads before the agent"));
    }
    let process = process::create().map_err(kernel(b"memory for the agent"))?;
    // The replacements only pass on what they are asked until all is ready.
    process.phase.store(process::UNMANAGED, Ordering::Release);
    // SAFETY: the linker's own table, which does not change.
    let hook = unsafe { (&raw const _r_debug.hook).read_volatile() };
    let pages = patch::install(hook).map_err(|error| Failure::Text(error.0))?;
    let fd = userfault::open(userfault::PRIVATE).map_err(kernel(
        b"userfaultfd with fork events (needs CAP_SYS_PTRACE, and vm.unprivileged_userfaultfd=1 or CAP_SYS_PTRACE)",
    ))?;
    let connected = connect(process, Some(fd));
    sys::close(fd);
    let client = connected?;
    for (page, (kept, own)) in pages.into_iter().zip(PATCHED.iter().zip(&client.patched)) {
        kept.store(page, Ordering::Relaxed);
        own.store(page, Ordering::Relaxed);
    }
    mailbox::ask(process, mailbox::TEXT, [0; 2], || note_links(client));
    // SAFETY: the function keeps to this library, which stays loaded.
    if unsafe { __register_atfork(None, None, Some(forked), core::ptr::null()) } != 0 {
        report::say(&[b"no memory to note forks: children connect with the first memory that they make"]);
    }
    process.phase.store(process::READY, Ordering::Release);
    if pages.last() != Some(&0) {
        core_file::begin();
    }
    Ok(())
}

/// In a forked child, before anything of the program runs there. It connects at once: until it does, only the server
/// holds what makes the memory that it inherited fault, and without that absent pages would be zeros.
pub(crate) extern "C" fn forked() {
    if process::FILTERED.load(Ordering::Relaxed) == 0
        && ANCESTOR.load(Ordering::Relaxed) != 0
        && let Some(process) = process::process()
    {
        join_forked(process);
    }
}

/// A forked child becomes a client of its own. It is called with a lock of the C library held perhaps.
pub(crate) fn join_forked(process: &Process) {
    let begun = process.phase.compare_exchange(
        process::NOTHING,
        process::CONNECTING,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if begun.is_err() {
        return;
    }
    let mask = mailbox::block_signals();
    let phase = match connect(process, None) {
        Ok(client) => {
            for (kept, own) in PATCHED.iter().zip(&client.patched) {
                own.store(kept.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            process::READY
        }
        // The server has ended since the fork, and with it what was absent then.
        Err(Failure::Server(_, SessionError::Kernel(_) | SessionError::Gone)) => {
            watch::end();
        }
        Err(failure) => {
            explain(&failure);
            process::UNMANAGED
        }
    };
    process.phase.store(phase, Ordering::Release);
    sys::futex_wake(&process.phase);
    mailbox::restore_signals(mask);
}

fn kernel(what: &'static [u8]) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::Kernel(what, errno)
}

fn explain(failure: &Failure) {
    let head = &b"this program runs unmanaged: "[..];
    let mut room = [0; 20];
    match failure {
        Failure::Text(text) => report::say(&[head, text]),
        Failure::Kernel(what, errno) => {
            let number = report::digits(u64::from(errno.0.unsigned_abs()), &mut room);
            report::say(&[head, b"the kernel refuses ", what, b", error ", number]);
        }
        Failure::Server(what, SessionError::Kernel(errno)) => {
            let number = report::digits(u64::from(errno.0.unsigned_abs()), &mut room);
            report::say(&[head, b"no memory server answers, error ", number, b", ", what]);
        }
        Failure::Server(what, SessionError::Gone) => report::say(&[head, b"the memory server has gone: ", what]),
        Failure::Server(what, SessionError::Refused) => report::say(&[head, b"the memory server refuses: ", what]),
        Failure::Server(what, SessionError::Nonsense) => {
            report::say(&[head, b"the memory server's answer cannot be understood: ", what]);
        }
    }
}

fn threads() -> u64 {
    sys::links(b"/proc/self/task\0").map_or(1, |links| links.saturating_sub(2))
}

/// Connects this process, with its new userfaultfd of private memory, or as a forked child with those that the kernel
/// has made for it.
fn connect(process: &Process, private: Option<i32>) -> Result<&'static Client, Failure> {
    let address = Client::create().map_err(kernel(b"memory for the agent"))?;
    let flags = watch::SHARED | CLONE_FILES;
    // The agent's threads take the mask along: signals of the process are the program's threads' to handle.
    let mask = mailbox::block_signals();
    // SAFETY: the stack is the client's, and `begin` keeps to this library.
    let thread = unsafe { sys::spawn(flags, Client::agent_stack(address), orders::begin, address) };
    mailbox::restore_signals(mask);
    let thread = thread.map_err(kernel(b"a thread for the agent"))?;
    let thread = u32::try_from(thread).unwrap_or(0);
    // SAFETY: the agent thread looks at nothing but `go`, which is an atomic number.
    let client = unsafe { Client::at_mut(address) };
    let result = introduce(client, address, thread, private);
    let go = &Client::at(address).go;
    go.store(if result.is_ok() { 1 } else { 2 }, Ordering::Release);
    sys::futex_wake(go);
    let descriptors = Client::at(address).descriptors;
    if result.is_ok() {
        let detached = &Client::at(address).detached;
        while detached.load(Ordering::Acquire) == 0 {
            sys::futex_wait(detached, 0);
        }
    }
    for fd in descriptors.all() {
        if Some(fd) != private {
            sys::close(fd);
        }
    }
    result?;
    if private.is_none() {
        // Only now: it waits for the server, and the agent thread starts the watcher, which ends that with the server.
        forget_markers();
    }
    // SAFETY: touches no memory.
    let pid = unsafe { sys::call5(sys::GETPID, 0, 0, 0, 0, 0) }.unwrap_or(0);
    ANCESTOR.store(u32::try_from(pid).unwrap_or(0), Ordering::Relaxed);
    process.client.store(address, Ordering::Release);
    Ok(Client::at(address))
}

const CLONE_FILES: usize = 0x400;

fn introduce(client: &mut Client, address: usize, thread: u32, private: Option<i32>) -> Result<(), Failure> {
    client.descriptors = crate::client::Descriptors::NONE;
    client.thread = thread;
    client.forked = private.is_none();
    client.descriptors.mover =
        userfault::open(userfault::MOVER).map_err(kernel(b"UFFDIO_MOVE, which Linux has from 6.8 on"))?;
    client.staging = Client::staging_of(address);
    register_staging(client.descriptors.mover, client.staging).map_err(kernel(b"the agent's userfaultfd"))?;
    if let Some(private) = private {
        client.descriptors.private = private;
        client.descriptors.shared =
            userfault::open(userfault::SHARED).map_err(kernel(b"userfaultfd of shared memory"))?;
        make_markers(client)?;
    }
    client.descriptors.pagemap = sys::open(b"/proc/self/pagemap\0", false).map_err(kernel(b"/proc/self/pagemap"))?;
    // Without it pages that cannot be moved stay where they are.
    client.descriptors.memory = sys::open(b"/proc/self/mem\0", false).unwrap_or(-1);
    let session = Session::connect(SETTINGS.socket());
    let mut session = session.map_err(|errno| Failure::Server(SETTINGS.socket(), SessionError::Kernel(errno)))?;
    client.descriptors.socket = session.socket;
    let mut name = [0_u8; 16];
    let name = thread_name(&mut name);
    let talked = talk(client, &mut session, thread, name, private.is_none());
    if let Err(SessionError::Refused) = talked {
        report::say(&[b"the memory server says: ", session.text()]);
    }
    talked.map_err(|error| Failure::Server(SETTINGS.socket(), error))
}

fn make_markers(client: &Client) -> Result<(), Failure> {
    let what = b"pages that mark forked children";
    let pages = sys::guarded(2 * PAGE, sys::PROT_READ).map_err(kernel(what))?;
    let descriptors = &client.descriptors;
    userfault::register(descriptors.private, pages, PAGE, userfault::MISSING).map_err(kernel(what))?;
    userfault::register(descriptors.shared, pages + PAGE, PAGE, userfault::MISSING).map_err(kernel(what))?;
    MARKERS.store(pages, Ordering::Relaxed);
    Ok(())
}

fn is_absent(page: usize) -> bool {
    const MINCORE: usize = 27;
    let mut present = 0_u8;
    // SAFETY: writes the one byte.
    let asked = unsafe { sys::call5(MINCORE, page, PAGE, core::ptr::from_mut(&mut present) as usize, 0, 0) };
    asked.is_err() || present & 1 == 0
}

fn touch_markers() {
    let pages = MARKERS.load(Ordering::Relaxed);
    if !is_absent(pages) || !is_absent(pages + PAGE) {
        // Another thread of the parent was having all memory brought in.
        forget_markers();
    }
    for page in [pages, pages + PAGE] {
        // SAFETY: both pages may be read; the server fills them.
        let _ = unsafe { core::ptr::with_exposed_provenance::<u8>(page).read_volatile() };
    }
}

/// Where they are; 0 where there are none.
pub(crate) fn markers() -> usize {
    MARKERS.load(Ordering::Relaxed)
}

/// The kernel is about to bring in all memory: what marks forked children is nobody's to be told of.
pub(crate) fn fill_markers(client: &Client) {
    if markers() != 0 {
        // What is there already stays.
        let _ = userfault::fill(client.descriptors.private, markers(), PAGE);
        let _ = userfault::fill(client.descriptors.shared, markers() + PAGE, PAGE);
    }
}

/// The kernel has locked all memory, and brought the pages in: they are absent again.
pub(crate) fn release_markers() {
    if markers() != 0 {
        locks::unlock(markers(), 2 * PAGE);
        forget_markers();
    }
}

/// This process may fork in its turn, and its child must fault on the pages all the same.
fn forget_markers() {
    const DONT_NEED: usize = 4;
    // SAFETY: nothing is in the pages.
    let _ = unsafe { sys::madvise(MARKERS.load(Ordering::Relaxed), 2 * PAGE, DONT_NEED) };
}

fn thread_name(buffer: &mut [u8; 16]) -> &str {
    const GET_NAME: usize = 16;
    // SAFETY: writes at most 16 bytes.
    let _ = unsafe { sys::call5(sys::PRCTL, GET_NAME, buffer.as_mut_ptr() as usize, 0, 0, 0) };
    let length = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    core::str::from_utf8(buffer.get(..length).unwrap_or_default()).unwrap_or("(not UTF-8)")
}

/// Everything that is said before the first page is managed.
fn talk(client: &mut Client, session: &mut Session, thread: u32, name: &str, forked: bool) -> Result<(), SessionError> {
    let hello = Request::Hello {
        role: Role::Program,
        agent_thread: thread,
        name,
    };
    let own = [client.descriptors.private, client.descriptors.shared];
    session.send(&hello, if forked { &[] } else { &own })?;
    let join = SETTINGS.ticket().map(|(ticket_high, ticket_low)| Request::Join {
        ticket_high,
        ticket_low,
    });
    if let Some(join) = &join {
        session.send(join, &[])?;
    }
    welcome(client, session)?;
    if join.is_some() {
        let (Answer::Reserved { reservation, .. }, _) = session.receive()? else {
            return Err(SessionError::Nonsense);
        };
        client.reservation = reservation;
    }
    let parent = ANCESTOR.load(Ordering::Relaxed);
    if forked {
        touch_markers();
        session.send(&Request::Forked { parent }, &[])?;
    }
    let task = Request::AddTask {
        reservation: client.reservation,
        urgency: SETTINGS.urgency(),
        name,
    };
    session.send(&task, &[])?;
    if forked {
        let (answer, [shared, private, ..]) = session.receive()?;
        if answer != (Answer::Done {}) || shared < 0 || private < 0 {
            return Err(SessionError::Nonsense);
        }
        client.descriptors.shared = shared;
        client.descriptors.private = private;
    }
    client.task = session.made()?;
    Ok(())
}

fn welcome(client: &mut Client, session: &mut Session) -> Result<(), SessionError> {
    const DONT_FORK: usize = 10;
    let (Answer::Welcome { transfer_pages, .. }, [channel, transfer, event, ..]) = session.receive()? else {
        return Err(SessionError::Nonsense);
    };
    client.transfer_pages = transfer_pages;
    client.descriptors.transfer = transfer;
    client.descriptors.event = event;
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    let length = freehold_protocol::channel::BYTES;
    // SAFETY: a new mapping, wherever there is room.
    let mapped = unsafe {
        sys::call(
            sys::MMAP,
            [0, length, protection, sys::MAP_SHARED, sys::arg(channel), 0],
        )
    };
    sys::close(channel);
    client.channel = mapped?;
    // SAFETY: a forked child has a channel of its own.
    unsafe { sys::madvise(client.channel, length, DONT_FORK)? };
    if transfer < 0 || event < 0 {
        return Err(SessionError::Nonsense);
    }
    Ok(())
}
