//! Programs that are begun by this one: each gets the agent where it can be managed, and never where it cannot.
//!
//! The entries of `execve`, `execveat` and `fexecve` in the C library are overwritten, so that its own callers are seen
//! too (`posix_spawn`, `system`, `execvp`). A program of another kind would say on its standard error that it cannot
//! load the agent, or not run at all: it is begun without, and the server is told. One whose beginner has changed or
//! emptied the environment has the agent all the same.
//!
//! A child of `vfork` runs here in its parent's memory. So the new environment lies in a *slot*, which the kernel
//! itself gives back for such a child: it clears a thread's word (`set_tid_address`) when the thread leaves the memory.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering;

use freehold_protocol::message::Stranger;

use crate::client::settings::{PREFIX, SOCKET};
use crate::hooks::linker;
use crate::process::{self, Process, SLOT, SLOTS};
use crate::programs::environment::{Environment, PRELOAD};
use crate::sys::stack;
use crate::sys::{self, AT_FDCWD, Answer};
use crate::threads::mailbox::{self, Note};
use crate::{filters, hooks};

pub(super) mod environment;
mod judge;
mod list;
mod readable;

use judge::{Target, Verdict};
use list::List;

pub(crate) const EXECVE: usize = 59;
pub(crate) const EXECVEAT: usize = 322;
const AT_EMPTY_PATH: usize = 0x1000;

type Text = *const c_char;
type Texts = *const Text;

/// The path that the agent was loaded by, and the variables that tell it what to do.
struct Kept {
    bytes: UnsafeCell<[u8; KEPT]>,
}

const KEPT: usize = 8192;

// SAFETY: written once, before the program has a second thread, and only read afterwards.
unsafe impl Sync for Kept {}

static KEPT_TEXTS: Kept = Kept {
    bytes: UnsafeCell::new([0; KEPT]),
};

/// Keeps what programs to come are to be told; false where it is too much.
///
/// # Safety
/// The calling thread is the only one that uses this library so far.
pub(crate) unsafe fn keep(environment: Environment) -> bool {
    // SAFETY: the caller's word.
    let room = unsafe { &mut *KEPT_TEXTS.bytes.get() };
    let own = core::iter::once(linker::own_path());
    let variables = environment.addresses().map(environment::bytes);
    let mut free = room.as_mut_slice();
    for text in own.chain(variables.filter(|text| text.starts_with(PREFIX))) {
        // One byte stays zero behind each, and one at the end of all.
        if text.len() + 2 > free.len() {
            return false;
        }
        let (place, rest) = free.split_at_mut(text.len() + 1);
        for (to, from) in place.iter_mut().zip(text) {
            *to = *from;
        }
        free = rest;
    }
    true
}

/// The texts that are kept: the agent's path, then variables. Each ends with a zero byte, which is not shown.
fn kept() -> impl Iterator<Item = &'static [u8]> {
    // SAFETY: written before anybody reads.
    let bytes = unsafe { &*KEPT_TEXTS.bytes.get() };
    bytes.split(|byte| *byte == 0).take_while(|text| !text.is_empty())
}

/// The path that the agent was loaded by.
pub(super) fn agent() -> &'static [u8] {
    kept().next().unwrap_or_default()
}

/// In place of `execve`.
pub(crate) extern "C" fn execve(path: Text, arguments: Texts, environment: Texts) -> c_int {
    let target = Target {
        folder: AT_FDCWD,
        path,
        empty: false,
    };
    begin(target, environment, |environment| {
        // SAFETY: the program's own call.
        unsafe { sys::call5(EXECVE, path as usize, arguments as usize, environment as usize, 0, 0) }
    })
}

/// In place of `execveat`.
pub(crate) extern "C" fn execveat(
    folder: c_int,
    path: Text,
    arguments: Texts,
    environment: Texts,
    flags: c_int,
) -> c_int {
    let (folder, flags) = (sys::arg(folder), sys::arg(flags));
    let target = Target {
        folder,
        path,
        empty: flags & AT_EMPTY_PATH != 0,
    };
    begin(target, environment, |environment| {
        let (path, arguments) = (path as usize, arguments as usize);
        // SAFETY: the program's own call.
        unsafe { sys::call5(EXECVEAT, folder, path, arguments, environment as usize, flags) }
    })
}

/// In place of `fexecve`.
pub(crate) extern "C" fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int {
    const AT_EMPTY_PATH: c_int = 0x1000;
    if fd < 0 || arguments.is_null() || environment.is_null() {
        return hooks::fail(sys::Errno::INVAL, -1);
    }
    execveat(fd, c"".as_ptr(), arguments, environment, AT_EMPTY_PATH)
}

/// Begins a program, which returns only where it cannot.
fn begin(target: Target, environment: Texts, call: impl FnOnce(Texts) -> Answer) -> c_int {
    let slot = process::process().and_then(Slot::take);
    let prepared = slot.as_ref().and_then(|slot| slot.prepare(target, environment));
    let answer = call(prepared.unwrap_or(environment));
    if let Some(slot) = slot {
        slot.give_back();
    }
    match answer {
        Ok(_) => 0,
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// Memory for one program that is being begun: a stack, and the environment behind it.
struct Slot {
    process: &'static Process,
    number: usize,
    /// The word that the kernel was to clear for this thread before; `None` where it is still to.
    cleared_before: Option<usize>,
}

impl Slot {
    fn take(process: &'static Process) -> Option<Self> {
        let free = |number: &usize| {
            let owner = process.slots.get(*number);
            owner.is_some_and(|owner| {
                owner
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            })
        };
        let number = (0..SLOTS).find(free)?;
        let mut slot = Self {
            process,
            number,
            cleared_before: None,
        };
        if !filters::is_there() && slot.is_borrowed() {
            slot.have_it_cleared();
        }
        Some(slot)
    }

    /// Whether this process runs in the memory of another.
    fn is_borrowed(&self) -> bool {
        let owner = self.process.pid.load(Ordering::Relaxed);
        owner != 0 && sys::pid() != owner
    }

    fn have_it_cleared(&mut self) {
        const GET_TID_ADDRESS: usize = 40;
        let mut before = 0_usize;
        let place = core::ptr::from_mut(&mut before) as usize;
        // SAFETY: writes the one number; a kernel that does not tell leaves zero, which is what `vfork` has.
        let _ = unsafe { sys::call5(sys::PRCTL, GET_TID_ADDRESS, place, 0, 0, 0) };
        self.cleared_before = Some(before);
        if let Some(owner) = self.process.slots.get(self.number) {
            set_tid_address(owner.as_ptr() as usize);
        }
    }

    fn give_back(self) {
        if let Some(before) = self.cleared_before {
            set_tid_address(before);
        }
        if let Some(owner) = self.process.slots.get(self.number) {
            owner.store(0, Ordering::Release);
        }
    }

    /// The environment that the program is to have; `None` where that is the one it was to be given.
    fn prepare(&self, target: Target, environment: Texts) -> Option<Texts> {
        let room = self.process.slot(self.number);
        let mut list = List::at(room + SLOT / 2, SLOT / 2);
        if filters::is_there() {
            // SAFETY: the program gives it to the kernel next, which takes it for one too.
            let environment = unsafe { Environment::at(environment) };
            // The filter binds the new program as well, and no call may be made to find out more.
            return without_agent(&mut list, environment);
        }
        let mask = mailbox::block_signals();
        // SAFETY: the slot is this thread's, which blocks all signals; nothing here unwinds.
        let prepared = unsafe { stack::run_at(room + SLOT / 2, || self.decide(target, &mut list, environment)) };
        mailbox::restore_signals(mask);
        prepared
    }

    fn decide(&self, target: Target, list: &mut List, environment: Texts) -> Option<Texts> {
        let mut name = [0_u8; judge::NAME];
        // The kernel looks at the file first.
        let verdict = judge::judge(target, &mut name);
        if matches!(verdict, Verdict::Unknown) || !readable::is_readable(environment) {
            return None;
        }
        // SAFETY: it has just been read to its end, as the kernel does next.
        let environment = unsafe { Environment::at(environment) };
        match verdict {
            Verdict::Unknown => None,
            Verdict::Managed => with_agent(list, environment),
            Verdict::Stranger(why) => {
                let is_asked_for = !environment.value(SOCKET).unwrap_or_default().is_empty();
                if is_asked_for && self.process.phase.load(Ordering::Acquire) == process::READY {
                    tell(self.process, why, &name);
                }
                without_agent(list, environment)
            }
        }
    }
}

/// Has the server know that the calling process goes on unmanaged.
pub(crate) fn tell(process: &Process, why: Stranger, name: &[u8]) {
    let note = Note {
        process: sys::pid(),
        why,
        name,
    };
    let place = core::ptr::from_ref(&note).expose_provenance();
    mailbox::ask(process, mailbox::STRANGER, [place, 0], || ());
}

fn set_tid_address(address: usize) {
    const SET_TID_ADDRESS: usize = 218;
    // SAFETY: the kernel clears a word of this library's, or what it was to clear before.
    let _ = unsafe { sys::call5(SET_TID_ADDRESS, address, 0, 0, 0, 0) };
}

fn names_agent(preload: &[u8]) -> bool {
    environment::preloaded(preload).any(|path| path == agent())
}

/// The environment without the agent; `None` where that is what it is.
fn without_agent(list: &mut List, environment: Environment) -> Option<Texts> {
    if !environment.value(PRELOAD).is_some_and(names_agent) {
        return None;
    }
    for text in environment.addresses() {
        match environment::value(environment::bytes(text), PRELOAD) {
            Some(others) if environment::preloaded(others).any(|path| path != agent()) => list.preload(None, others)?,
            Some(_) => {}
            None => list.push(text)?,
        }
    }
    list.end()
}

/// The environment with the agent, before what is preloaded already; `None` where that is what it is, or where the
/// agent is told by an empty variable to do nothing.
fn with_agent(list: &mut List, environment: Environment) -> Option<Texts> {
    let (preload, socket) = (environment.value(PRELOAD), environment.value(SOCKET));
    if preload.is_some_and(names_agent) && socket.is_some() || socket.is_some_and(<[u8]>::is_empty) {
        return None;
    }
    list.preload(Some(agent()), preload.unwrap_or_default())?;
    if socket.is_none() {
        for variable in kept().skip(1) {
            list.push(variable.as_ptr().cast())?;
        }
    }
    for text in environment.addresses() {
        if environment::value(environment::bytes(text), PRELOAD).is_none() {
            list.push(text)?;
        }
    }
    list.end()
}
