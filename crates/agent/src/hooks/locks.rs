//! Memory that the program locks: `mlock` and its kin of the C library, and what takes their place.
//!
//! The server is asked before the kernel: what it cannot keep resident within the program's reservation is refused with
//! `ENOMEM`, as by `RLIMIT_MEMLOCK`. Only then the kernel locks, and what it brings in is locked by the server too.
//!
//! Memory made later (`MCL_FUTURE`) the kernel would fill before it is registered. So the kernel is asked to lock it
//! when it is touched (`MCL_ONFAULT`), and this library has it brought in, once the server has admitted it.

use core::ffi::{c_int, c_uint, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::message::Request;

use crate::client::connection::Connection;
use crate::client::told;
use crate::client::{Client, STAGED};
use crate::client::{attach, markers};
use crate::process::{self, PAGE, Process, whole_pages};
use crate::sys::maps::{self, Line};
use crate::sys::{self, Answer, Errno};
use crate::text::served;
use crate::threads::mailbox;
use crate::{hooks, report};

pub(super) const MLOCK: usize = 149;
pub(super) const MUNLOCK: usize = 150;
pub(super) const MLOCKALL: usize = 151;
pub(super) const MUNLOCKALL: usize = 152;
pub(super) const MLOCK2: usize = 325;

const CURRENT: usize = 1;
const FUTURE: usize = 2;
const ON_FAULT: usize = 4;

/// The first address past a program's.
pub(crate) const END: usize = 1 << 47;
/// Pages that one request names, so that a step of the server stays short.
const TOGETHER: usize = 1024;

/// Memory that is made from now on is locked, and brought in: [`Process::future`].
const BROUGHT_IN: u32 = 1;
/// It is locked when it is touched.
const TOUCHED: u32 = 2;

/// Of `mlock2`.
const KERNEL_ON_FAULT: usize = 1;

/// Whether the program has ever asked that memory be locked when it is touched: the kernel tells that of no mapping.
static LOCKS_ON_FAULT: AtomicU32 = AtomicU32::new(0);

/// Calls of the program's threads that lock at the same time, of which each can be taken back.
const CALLS: usize = 16;

/// How many calls there were, and the numbers of those that were met last, by the place that their thread was given.
static COUNT: AtomicU32 = AtomicU32::new(0);
static PLACE: AtomicU32 = AtomicU32::new(0);
static MET: [AtomicU32; CALLS] = [const { AtomicU32::new(0) }; CALLS];

/// A call of the program that locks.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    process: &'a Process,
    place: usize,
}

impl<'a> Call<'a> {
    fn new(process: &'a Process) -> Self {
        let place = PLACE.fetch_add(1, Ordering::Relaxed) as usize % CALLS;
        Self { process, place }
    }

    /// Has the server lock what is managed of whole pages; whether it has. The place goes along with the address.
    fn admitted(&self, start: usize, length: usize) -> bool {
        mailbox::ask(self.process, mailbox::LOCK, [start | self.place, length], || ())
    }

    /// Has the server lock what is about to be made; whether it has.
    pub(crate) fn ahead(start: usize, length: usize) -> Option<Self> {
        let call = Self::new(asked()?);
        mailbox::ask(call.process, mailbox::LOCK_AHEAD, [start | call.place, length], || ()).then_some(call)
    }

    /// The kernel has refused.
    pub(crate) fn take_back(&self) {
        mailbox::ask(self.process, mailbox::LOCK_NOT, [self.place, 0], || ());
    }
}

/// This process, where the server is to be asked.
fn asked() -> Option<&'static Process> {
    process::process().filter(|_| hooks::is_managed())
}

/// In place of `mlock`.
pub(crate) extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    lock_range(address as usize, length, MLOCK, 0)
}

/// In place of `mlock2`.
pub(crate) extern "C" fn mlock2(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    let flags = flags as usize;
    LOCKS_ON_FAULT.fetch_or(u32::from(flags & KERNEL_ON_FAULT != 0), Ordering::Relaxed);
    lock_range(address as usize, length, MLOCK2, flags)
}

/// Whether the kernel has locked the mapping at an address: only of such does it refuse this advice.
pub(crate) fn is_locked(start: usize) -> bool {
    const COLD: usize = 20;
    // SAFETY: changes no content.
    start.is_multiple_of(PAGE) && unsafe { sys::madvise(start, PAGE, COLD) } == Err(Errno::INVAL)
}

/// Locks memory that has grown or moved while it was not locked ([`unlock`]): whether it may stay.
pub(crate) fn lock_grown(start: usize, length: usize) -> bool {
    if lock(start, length, MLOCK2, KERNEL_ON_FAULT).is_err() {
        return false;
    }
    if LOCKS_ON_FAULT.load(Ordering::Relaxed) == 0 {
        hooks::populate(start, length, sys::PROT_READ);
    }
    true
}

/// Has the kernel lock memory again that the server has locked all the time ([`unlock`]).
pub(crate) fn lock_again(start: usize, length: usize) {
    // SAFETY: changes no content.
    let _ = unsafe { sys::call5(MLOCK2, start, length, KERNEL_ON_FAULT, 0, 0) };
}

/// Locks memory that was made with `MAP_LOCKED`: whether it may stay.
pub(crate) fn lock_asked(start: usize, length: usize) -> bool {
    lock(start, length, MLOCK, 0).is_ok()
}

fn lock_range(address: usize, length: usize, number: usize, flags: usize) -> c_int {
    answer(lock(address, length, number, flags))
}

fn lock(address: usize, length: usize, number: usize, flags: usize) -> Answer {
    let call = || {
        // SAFETY: the program's own call; it changes no content.
        unsafe { sys::call5(number, address, length, flags, 0, 0) }
    };
    let start = address / PAGE * PAGE;
    let end = whole_pages(address.saturating_add(length));
    let Some(process) = asked().filter(|_| start < end && end <= END) else {
        return call();
    };
    let asking = Call::new(process);
    if !asking.admitted(start, end - start) {
        return Err(Errno::NOMEM);
    }
    let locked = call();
    if locked.is_err() {
        asking.take_back();
    }
    locked
}

/// In place of `munlock`.
pub(crate) extern "C" fn munlock(address: *const c_void, length: usize) -> c_int {
    let (address, page) = (address as usize, PAGE - 1);
    // SAFETY: the program's own call; it changes no content.
    let unlocked = unsafe { sys::call5(MUNLOCK, address, length, 0, 0, 0) };
    if unlocked.is_ok()
        && let Some(process) = asked()
    {
        let end = address.saturating_add(length).saturating_add(page) & !page;
        mailbox::ask(
            process,
            mailbox::UNLOCK,
            [address & !page, end - (address & !page)],
            || (),
        );
    }
    answer(unlocked)
}

/// In place of `munlockall`.
pub(crate) extern "C" fn munlockall() -> c_int {
    // SAFETY: the program's own call; it changes no content.
    let unlocked = unsafe { sys::call5(MUNLOCKALL, 0, 0, 0, 0, 0) };
    if unlocked.is_ok()
        && let Some(process) = asked()
    {
        process.future.store(0, Ordering::Relaxed);
        mailbox::ask(process, mailbox::UNLOCK, [0, END], || ());
    }
    answer(unlocked)
}

/// In place of `mlockall`.
pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    let flags = sys::arg(flags);
    let known = flags & !(CURRENT | FUTURE | ON_FAULT) == 0 && flags & (CURRENT | FUTURE) != 0;
    match asked().filter(|_| known) {
        Some(process) => answer(lock_all(process, flags)),
        None => answer(lock_all_of_the_kernel(flags)),
    }
}

fn lock_all_of_the_kernel(flags: usize) -> Answer {
    // SAFETY: the program's own call; it changes no content.
    unsafe { sys::call5(MLOCKALL, flags, 0, 0, 0, 0) }
}

fn lock_all(process: &Process, flags: usize) -> Answer {
    // What was made ahead is nobody's, and is not to be locked.
    drop(hooks::make_way(0, END));
    let asking = Call::new(process);
    if flags & CURRENT != 0 && !asking.admitted(0, END) {
        return Err(Errno::NOMEM);
    }
    let future = match flags & (FUTURE | ON_FAULT) {
        FUTURE => BROUGHT_IN,
        both if both & FUTURE != 0 => TOUCHED,
        _ => 0,
    };
    let current = if flags & CURRENT == 0 {
        Ok(0)
    } else {
        lock_all_of_the_kernel(flags & !FUTURE)
    };
    let locked = current.and_then(|_| match future {
        0 => Ok(0),
        _ => lock_all_of_the_kernel(flags | ON_FAULT),
    });
    if locked.is_err() && flags & CURRENT != 0 {
        asking.take_back();
    }
    if locked.is_ok() {
        process.future.store(future, Ordering::Relaxed);
    }
    if let Some(client) = attach::client_of(process) {
        release_own(client);
    }
    locked
}

/// Memory of this library's own into which pages of the program are moved, and what marks forked children, must not be
/// locked: the kernel moves nothing from memory that is not to memory that is.
fn release_own(client: &Client) {
    unlock(client.staging, STAGED * PAGE);
    let executable = client.staging_executable.load(Ordering::Relaxed);
    if executable != 0 {
        unlock(executable, STAGED * PAGE);
    }
    markers::release();
}

/// Unlocks memory of the kernel's marks alone.
pub(crate) fn unlock(start: usize, length: usize) {
    // SAFETY: changes no content.
    let _ = unsafe { sys::call5(MUNLOCK, start, length, 0, 0, 0) };
}

/// Whether memory that is made now is to be locked.
pub(crate) fn locks_future() -> bool {
    asked().is_some_and(|process| process.future.load(Ordering::Relaxed) != 0)
}

/// New memory, managed or not, has been made while `MCL_FUTURE` holds: whether it may stay.
pub(crate) fn lock_new(start: usize, length: usize, protection: usize, managed: bool) -> bool {
    let Some(process) = asked().filter(|process| process.future.load(Ordering::Relaxed) != 0) else {
        return true;
    };
    let brought_in = process.future.load(Ordering::Relaxed) == BROUGHT_IN;
    if !managed {
        if brought_in {
            // The kernel brings it in, now or when it can be touched.
            // SAFETY: changes no content.
            let _ = unsafe { sys::call5(MLOCK, start, length, 0, 0, 0) };
        }
        return true;
    }
    if protection == 0 {
        // Not before it can be touched.
        unlock(start, length);
        return true;
    }
    let admitted = Call::new(process).admitted(start, length);
    if admitted && brought_in {
        hooks::populate(start, length, protection);
    }
    admitted
}

/// In place of `mprotect`: what `MCL_FUTURE` is to lock may be touched from now on.
pub(crate) extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    let (start, protection) = (address as usize, sys::arg(protection));
    // SAFETY: the program's own call.
    let made = unsafe { sys::call5(sys::MPROTECT, start, length, protection, 0, 0) };
    let end = whole_pages(start.saturating_add(length).min(END));
    if made.is_ok() && start < end && !lock_new(start, end - start, protection, true) {
        return answer(Err(Errno::NOMEM));
    }
    answer(made)
}

/// The dynamic linker has loaded an object while `MCL_FUTURE` holds.
pub(crate) fn lock_loaded(process: &Process) {
    let flags = match process.future.load(Ordering::Relaxed) {
        0 => return,
        TOUCHED => CURRENT | FUTURE | ON_FAULT,
        _ => CURRENT | FUTURE,
    };
    if lock_all(process, flags).is_err() {
        report::say(&[b"the reservation is too small to lock what was loaded, as mlockall(MCL_FUTURE) asks for"]);
    }
}

fn answer(done: Answer) -> c_int {
    match done {
        Ok(_) => 0,
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// The agent thread's side: has the server admit and lock what is managed of a range; whether it has.
pub(crate) fn admit(client: &Client, session: &mut Connection, range: [usize; 2], meanwhile: &mut dyn FnMut()) -> bool {
    let (call, Range { start, end }, place) = meet(range);
    if (start..end).contains(&markers::place()) {
        markers::fill(client);
    }
    let mut admitted = true;
    let whole = maps::for_each(is_text, |line| {
        if admitted && line.start < end && line.end > start && is_managed(client, line, session, meanwhile) {
            let (from, to) = (line.start.max(start), line.end.min(end));
            admitted = admit_part(session, call, from..to, meanwhile);
        }
    });
    if admitted && !whole {
        take_back(session, place, meanwhile);
    }
    whole && admitted
}

/// The same of memory that is about to be there.
pub(crate) fn admit_ahead(session: &mut Connection, range: [usize; 2], meanwhile: &mut dyn FnMut()) -> bool {
    let (call, part, _) = meet(range);
    admit_part(session, call, part, meanwhile)
}

/// The number of a call that is being met, what it locks, and the place of its thread.
fn meet([with_place, length]: [usize; 2]) -> (u32, Range<usize>, usize) {
    let (start, place) = (with_place / PAGE * PAGE, with_place % PAGE);
    let call = COUNT.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    if let Some(met) = MET.get(place) {
        met.store(call, Ordering::Relaxed);
    }
    (call, start..start.saturating_add(length), place)
}

fn admit_part(session: &mut Connection, call: u32, part: Range<usize>, meanwhile: &mut dyn FnMut()) -> bool {
    let mut at = part.start;
    while at < part.end {
        let count = ((part.end - at) / PAGE).min(TOGETHER);
        let request = Request::LockMemory {
            call,
            address: at as u64,
            pages: u32::try_from(count).unwrap_or(0),
        };
        if session.order(&request, meanwhile).is_err() {
            return false;
        }
        at += count * PAGE;
    }
    true
}

/// The agent thread's side: what the call of this place has locked is locked no more.
pub(crate) fn take_back(session: &mut Connection, place: usize, meanwhile: &mut dyn FnMut()) -> bool {
    let request = Request::UnlockMemory {
        call: MET.get(place).map_or(0, |met| met.load(Ordering::Relaxed)),
        address: 0,
        length: 0,
    };
    session.order(&request, meanwhile).is_ok()
}

/// The agent thread's side: a range is locked no more.
pub(crate) fn give_back(session: &mut Connection, range: [usize; 2], meanwhile: &mut dyn FnMut()) -> bool {
    let [start, length] = range;
    let request = Request::UnlockMemory {
        call: 0,
        address: start as u64,
        length: length as u64,
    };
    session.order(&request, meanwhile).is_ok()
}

fn is_text(line: &Line<'_>) -> bool {
    line.file.inode != 0 && line.private && !line.writable
}

/// Whether a mapping is of memory that the server manages and that can be touched.
fn is_managed(client: &Client, line: &Line<'_>, session: &Connection, meanwhile: &mut dyn FnMut()) -> bool {
    if !line.private || !(line.readable || line.writable || line.executable) {
        return false;
    }
    if line.file.inode != 0 {
        return is_text(line) && served::is_served(line);
    }
    let marked = markers::place();
    let own = (line.start..line.end).contains(&marked) && marked != 0;
    !own && told::is_registered(client, line.start..line.end, session, meanwhile)
}
