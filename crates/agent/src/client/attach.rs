//! Becoming a client: when the program is loaded, and in a forked child before anything of the program runs there.

use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use freehold_protocol::message::{Answer, Request, Role};

use crate::client::connection::{Connection, ConnectionError};
use crate::client::settings::{SETTINGS, SettingsError};
use crate::client::silence::{self, Patience};
use crate::client::{Client, register_staging};
use crate::client::{markers, userfault};
use crate::hooks::behind;
use crate::hooks::linker;
use crate::hooks::patch;
use crate::kernel_paths::core_file;
use crate::process::{self, Process};
use crate::programs::environment::Environment;
use crate::sys::maps::{self, Line};
use crate::sys::stack;
use crate::sys::{self, Errno};
use crate::threads;
use crate::threads::Go;
use crate::threads::mailbox;
use crate::threads::watch;
use crate::{filters, forks, programs, report};

/// Why a process is not a client; for people.
enum Failure {
    Text(&'static [u8]),
    Kernel(&'static [u8], Errno),
    Server(&'static [u8], ConnectionError),
}

unsafe extern "C" {
    /// What `pthread_atfork` calls: what runs before a fork, after it in the parent, and in the child.
    fn __register_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *const core::ffi::c_void,
    ) -> c_int;
}

/// The process of this one's line that was a client last.
static ANCESTOR: AtomicU32 = AtomicU32::new(0);
/// The pages that hold changed text.
static PATCHED: [AtomicUsize; patch::PATCHED] = [const { AtomicUsize::new(0) }; patch::PATCHED];

/// The client that a process is.
pub(crate) fn client_of(process: &Process) -> Option<&'static Client> {
    let address = process.client.load(Ordering::Acquire);
    (address != 0).then(|| Client::at(address))
}

/// Writes down where the linker's objects are, for the agent thread, which must not read the linker's memory itself:
/// that may be managed.
pub(crate) fn note_links(client: &Client) {
    let mut count = 0;
    for (place, object) in client.links.iter().zip(linker::objects()) {
        place.store(object.dynamic(), Ordering::Relaxed);
        count += 1;
    }
    client.link_count.store(count, Ordering::Release);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

/// Runs before the program, on its one thread, and before every other library: not even the C library has an
/// environment yet.
extern "C" fn loaded(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    behind::look_up();
    // SAFETY: the program's, which does not run yet.
    let environment = unsafe { Environment::at(environment) };
    // SAFETY: nothing of this library has run before.
    let begun = match unsafe { SETTINGS.read(environment) } {
        Ok(()) => begin(environment),
        Err(SettingsError::None) => return,
        Err(SettingsError::Nonsense(text)) => Err(Failure::Text(text)),
    };
    if let Err(failure) = begun {
        give_up(&failure);
    }
}

/// The program cannot be managed. The first one, which a reservation was made for, is refused, or says so; those that
/// it begins run as they would without the agent.
fn give_up(failure: &Failure) {
    const CANNOT_RUN: usize = 125;
    const EXIT_GROUP: usize = 231;
    const GETPPID: usize = 110;
    let starter = SETTINGS.starter();
    // SAFETY: touches no memory.
    let parent = unsafe { sys::call5(GETPPID, 0, 0, 0, 0, 0) };
    let is_first = parent == Ok(starter as usize);
    // A server that says nothing may be one that goes on in a moment: nobody begins without it unless told to.
    let silent = matches!(failure, Failure::Server(_, ConnectionError::Silent));
    if (is_first || silent) && !SETTINGS.keeps_going() {
        explain(
            b"this program cannot be managed, and does not run (see --keep-going): ",
            failure,
        );
        // SAFETY: ends the process, before anything of the program has run.
        let _ = unsafe { sys::call5(EXIT_GROUP, CANNOT_RUN, 0, 0, 0, 0) };
    } else if is_first || starter == 0 {
        explain(UNMANAGED, failure);
    }
}

const UNMANAGED: &[u8] = b"this program runs unmanaged: ";

fn begin(environment: Environment) -> Result<(), Failure> {
    // First of all: whoever forbids system calls may end whoever makes them.
    if filters().is_none_or(|filters| filters > SETTINGS.filters()) {
        return Err(Failure::Text(
            b"it runs under a filter of system calls, which may forbid what the agent does",
        ));
    }
    if threads() != 1 {
        if is_emulated() {
            return Ok(());
        }
        return Err(Failure::Text(b"another library has started threads before the agent"));
    }
    // SAFETY: nothing else of this library runs yet.
    if !unsafe { programs::keep(environment) } {
        return Err(Failure::Text(b"its variables FREEHOLD_... are too long"));
    }
    let process = process::create().map_err(kernel(b"memory for the agent"))?;
    // The replacements only pass on what they are asked until all is ready.
    process.phase.store(process::UNMANAGED, Ordering::Release);
    let pages = patch::install().map_err(|error| Failure::Text(error.0))?;
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
    forks::note_socket();
    // SAFETY: the functions keep to this library, which stays loaded.
    if unsafe { __register_atfork(Some(forks::before), Some(forks::after), Some(forked), core::ptr::null()) } != 0 {
        report::say(&[b"no memory to note forks: children connect with the first memory that they make"]);
    }
    process.phase.store(process::READY, Ordering::Release);
    if pages.last() != Some(&0) {
        core_file::begin();
    }
    Ok(())
}

/// Filters of system calls that bind this thread; `None` where that cannot be known. Calls nothing that the dynamic
/// linker has not called just before.
fn filters() -> Option<u32> {
    const TEXT: usize = 4096;
    let mut text = [0_u8; TEXT];
    let fd = sys::open(b"/proc/thread-self/status\0", false).ok()?;
    let length = sys::read(fd, &mut text).unwrap_or(0);
    sys::close(fd);
    let mut lines = text.get(..length)?.split(|byte| *byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"Seccomp_filters:"))?;
    core::str::from_utf8(number.trim_ascii()).ok()?.parse().ok()
}

/// In a forked child, before anything of the program runs there. It connects at once: until it does, only the server
/// holds what makes the memory that it inherited fault, and without that absent pages would be zeros.
pub(crate) extern "C" fn forked() {
    if !filters::is_there()
        && descends_from_client()
        && let Some(process) = process::process()
    {
        forks::inherit(process);
        join_forked(process);
        forks::restore_signals();
    }
}

/// Whether this process is, or was forked from, a client. What an unmanaged program forks never becomes one.
pub(crate) fn descends_from_client() -> bool {
    ANCESTOR.load(Ordering::Relaxed) != 0
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
    // SAFETY: whoever connects has the stack, and blocks all signals; nothing here unwinds.
    let phase = unsafe { stack::run(process, || connect_forked(process)) };
    process.phase.store(phase, Ordering::Release);
    sys::futex_wake(&process.phase);
    mailbox::restore_signals(mask);
}

fn connect_forked(process: &Process) -> u32 {
    match connect(process, None) {
        Ok(client) => {
            for (kept, own) in PATCHED.iter().zip(&client.patched) {
                own.store(kept.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            process::READY
        }
        // The server has ended since the fork, and with it what was absent then.
        Err(Failure::Server(_, ConnectionError::Kernel(_) | ConnectionError::Gone)) => {
            watch::end();
        }
        // The server goes on serving what was inherited.
        Err(_) => process::UNMANAGED,
    }
}

fn kernel(what: &'static [u8]) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::Kernel(what, errno)
}

fn explain(head: &[u8], failure: &Failure) {
    let mut room = [0; 20];
    match failure {
        Failure::Text(text) => report::say(&[head, text]),
        Failure::Kernel(_, Errno::MFILE)
        | Failure::Server(_, ConnectionError::Kernel(Errno::MFILE) | ConnectionError::NoDescriptors) => {
            report::say(&[
                head,
                b"the limit of open files (RLIMIT_NOFILE) leaves the agent no room",
            ]);
        }
        Failure::Kernel(what, errno) => {
            let number = report::digits(u64::from(errno.0.unsigned_abs()), &mut room);
            report::say(&[head, b"the kernel refuses ", what, b", error ", number]);
        }
        Failure::Server(what, ConnectionError::Kernel(errno)) => {
            let number = report::digits(u64::from(errno.0.unsigned_abs()), &mut room);
            report::say(&[head, b"no memory server answers, error ", number, b", ", what]);
        }
        Failure::Server(what, ConnectionError::Silent) => {
            report::say(&[head, b"the memory server does not answer: ", what]);
        }
        Failure::Server(what, ConnectionError::Gone) => report::say(&[head, b"the memory server has gone: ", what]),
        Failure::Server(what, ConnectionError::Refused) => report::say(&[head, b"the memory server refuses: ", what]),
        Failure::Server(what, ConnectionError::Nonsense) => {
            report::say(&[head, b"the memory server's answer cannot be understood: ", what]);
        }
    }
}

/// Whether this library is in the process for a second time: an emulator (QEMU) is managed by the first one, which saw
/// to all memory that the emulator gives its program.
fn is_emulated() -> bool {
    const NAME: &[u8] = b"/libfreehold_agent.so";
    let mut others = false;
    let code = |line: &Line<'_>| line.executable && !(line.start..line.end).contains(&sys::own::place());
    maps::for_each_really(code, |line| others |= code(line) && line.path.ends_with(NAME));
    others
}

fn threads() -> u64 {
    sys::links(b"/proc/self/task\0").map_or(1, |links| links.saturating_sub(2))
}

/// Connects this process, with its new userfaultfd of private memory, or as a forked child with those that the kernel
/// has made for it.
fn connect(process: &Process, private: Option<i32>) -> Result<&'static Client, Failure> {
    let address = Client::create().map_err(kernel(b"memory for the agent"))?;
    let thread = threads::start(address).map_err(kernel(b"a thread for the agent"))?;
    // SAFETY: the agent thread looks at nothing but `go`, which is an atomic number.
    let client = unsafe { Client::at_mut(address) };
    let result = introduce(client, address, thread, private);
    let client = Client::at(address);
    let go = match &result {
        Err(_) => Go::End,
        Ok(()) if client.forked => Go::Rise,
        Ok(()) => Go::Begin,
    };
    threads::let_go(&client.life, go);
    let descriptors = client.descriptors;
    for fd in descriptors.all() {
        if Some(fd) != private {
            sys::close(fd);
        }
    }
    result?;
    if private.is_none() {
        // Only now: it waits for the server, and the agent thread starts the watcher, which ends that with the server.
        markers::forget();
    }
    let pid = sys::pid();
    ANCESTOR.store(pid, Ordering::Relaxed);
    process.pid.store(pid, Ordering::Relaxed);
    process.client.store(address, Ordering::Release);
    Ok(Client::at(address))
}

fn introduce(client: &mut Client, address: usize, thread: u32, private: Option<i32>) -> Result<(), Failure> {
    client.descriptors = crate::client::Descriptors::NONE;
    client.thread = thread;
    client.forked = private.is_none();
    if client.forked {
        client.descriptors.socket = forks::inherited().unwrap_or(-1);
    }
    client.descriptors.mover =
        userfault::open(userfault::MOVER).map_err(kernel(b"UFFDIO_MOVE, which Linux has from 6.8 on"))?;
    client.staging = Client::staging_of(address);
    register_staging(client.descriptors.mover, client.staging).map_err(kernel(b"the agent's userfaultfd"))?;
    if let Some(private) = private {
        client.descriptors.private = private;
        client.descriptors.shared =
            userfault::open(userfault::SHARED).map_err(kernel(b"userfaultfd of shared memory"))?;
        markers::make(client).map_err(kernel(b"pages that mark forked children"))?;
    }
    // A child whose root has no such file goes without: what the page map would tell is then not known, and refused.
    let pagemap = sys::open(b"/proc/self/pagemap\0", false);
    client.descriptors.pagemap = match pagemap {
        Err(_) if client.forked => -1,
        pagemap => pagemap.map_err(kernel(b"/proc/self/pagemap"))?,
    };
    // Without it pages that cannot be moved stay where they are.
    client.descriptors.memory = sys::open(b"/proc/self/mem\0", false).unwrap_or(-1);
    client.descriptors.stat = sys::open(b"/proc/self/stat\0", false).unwrap_or(-1);
    meet(client, thread)
}

/// Connects and says everything that is said before the first page is managed. A forked child that had no time to speak
/// for so long that the server has closed the connection connects once more.
fn meet(client: &mut Client, thread: u32) -> Result<(), Failure> {
    let met = meet_once(client, thread);
    let Err(Failure::Server(_, ConnectionError::Gone)) = met else {
        return met;
    };
    if !client.forked || client.has_its_memory() || !markers::is_served(client.descriptors.mover) {
        return met;
    }
    let descriptors = &mut client.descriptors;
    for fd in [
        &mut descriptors.socket,
        &mut descriptors.transfer,
        &mut descriptors.event,
    ] {
        sys::close(core::mem::replace(fd, -1));
    }
    match meet_once(client, thread) {
        Err(Failure::Server(_, ConnectionError::Gone))
            if !client.has_its_memory() && markers::is_served_for_good(client.descriptors.mover) =>
        {
            Err(Failure::Text(b"the memory server closes its connections"))
        }
        met => met,
    }
}

fn meet_once(client: &mut Client, thread: u32) -> Result<(), Failure> {
    // What a forked child has inherited is the server's already.
    let bounded = !client.forked;
    let connected = match client.descriptors.socket {
        ..0 => Connection::connect(SETTINGS.socket(), bounded),
        inherited => {
            silence::tick(inherited);
            Ok(Connection::over(inherited))
        }
    };
    let mut session = match connected {
        Ok(session) => session,
        Err(error) => {
            let mover = client.descriptors.mover;
            let is_served = client.forked
                && match error {
                    ConnectionError::Kernel(Errno::CONNREFUSED) => markers::is_served_for_good(mover),
                    _ => markers::is_served(mover),
                };
            return Err(if is_served {
                Failure::Text(b"the memory server is out of its reach")
            } else {
                Failure::Server(SETTINGS.socket(), error)
            });
        }
    };
    if bounded {
        session.wait_with(Patience::to_be_greeted());
    }
    client.descriptors.socket = session.socket;
    let mut name = [0_u8; 16];
    let name = thread_name(&mut name);
    let talked = talk(client, &mut session, thread, name);
    if let (Err(ConnectionError::Refused), false) = (talked, client.forked) {
        report::say(&[b"the memory server says: ", session.text()]);
    }
    talked.map_err(|error| Failure::Server(SETTINGS.socket(), error))
}

pub(crate) fn thread_name(buffer: &mut [u8; 16]) -> &str {
    const GET_NAME: usize = 16;
    // SAFETY: writes at most 16 bytes.
    let _ = unsafe { sys::call5(sys::PRCTL, GET_NAME, buffer.as_mut_ptr() as usize, 0, 0, 0) };
    let length = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    core::str::from_utf8(buffer.get(..length).unwrap_or_default()).unwrap_or("(not UTF-8)")
}

/// Everything that is said before the first page is managed.
fn talk(client: &mut Client, session: &mut Connection, thread: u32, name: &str) -> Result<(), ConnectionError> {
    let forked = client.forked;
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
            return Err(ConnectionError::Nonsense);
        };
        client.reservation = reservation;
    }
    let parent = ANCESTOR.load(Ordering::Relaxed);
    if forked {
        markers::touch();
        session.send(&Request::Forked { parent }, &[])?;
    }
    let task = Request::AddTask {
        membership: client.reservation,
        urgency: SETTINGS.urgency(),
        name,
    };
    session.send(&task, &[])?;
    if forked {
        let (answer, [shared, private, ..]) = session.receive()?;
        if answer != (Answer::Done {}) {
            return Err(ConnectionError::Nonsense);
        }
        if shared < 0 || private < 0 {
            sys::close(shared);
            return Err(ConnectionError::NoDescriptors);
        }
        client.descriptors.shared = shared;
        client.descriptors.private = private;
    }
    client.task = match session.made() {
        // It has the task that the server made for it at the fork, and is managed in that.
        Err(ConnectionError::Refused) if forked => 0,
        task => task?,
    };
    Ok(())
}

fn welcome(client: &mut Client, session: &mut Connection) -> Result<(), ConnectionError> {
    const DONT_FORK: usize = 10;
    let (Answer::Welcome { transfer_pages, .. }, [channel, transfer, event, ..]) = session.receive()? else {
        return Err(ConnectionError::Nonsense);
    };
    client.transfer_pages = transfer_pages;
    client.descriptors.transfer = transfer;
    client.descriptors.event = event;
    if event < 0 {
        sys::close(channel);
        return Err(ConnectionError::NoDescriptors);
    }
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
    Ok(())
}
