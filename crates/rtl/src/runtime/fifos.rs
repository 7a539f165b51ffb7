//! The FIFOs that this process's modules have created.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::{clock, futex};

use super::call::Call;
use super::modules;
use crate::directory::{Directory, Kind};
use crate::fifo::owner::{Owner, OwnerError};
use crate::fifo::peer::ProcessSide;
use crate::fifo::{COUNT, FifoView, LARGEST};

/// A function of a program that is called with a FIFO's number.
pub(crate) type Handler = extern "C-unwind" fn(u32) -> i32;

#[derive(Debug)]
struct Entry {
    owner: Owner,
    module: usize,
    on_use: Option<Handler>,
    watcher: Option<Watcher>,
    /// Impossible claims that were printed.
    said_corrupt: u64,
}

/// A thread that waits for processes to read or write, and calls the program's handler.
#[derive(Debug)]
struct Watcher {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

static TABLE: [PiMutex<Option<Box<Entry>>>; COUNT] = [const { PiMutex::new(None) }; COUNT];

/// How often a watcher looks whether it is to end.
const WATCH: Duration = Duration::from_millis(50);

fn slot(fifo: u32) -> Result<&'static PiMutex<Option<Box<Entry>>>, i32> {
    let index = usize::try_from(fifo).unwrap_or(usize::MAX);
    TABLE.get(index).ok_or(-libc::ENODEV)
}

fn directory() -> Result<&'static Directory, i32> {
    static OPENED: OnceLock<Option<Directory>> = OnceLock::new();
    OPENED
        .get_or_init(|| Directory::open().ok())
        .as_ref()
        .ok_or(-libc::ENOMEM)
}

/// `rtf_create`.
pub(crate) fn create(fifo: u32, size: i32) -> Result<(), i32> {
    let _call = Call::enter();
    let slot = slot(fifo)?;
    let size = usize::try_from(size)
        .ok()
        .filter(|size| (1..=LARGEST).contains(size))
        .ok_or(-libc::ENOMEM)?;
    if slot.lock().is_some() {
        return Err(-libc::EBUSY);
    }
    let owner = Owner::create(fifo, size).map_err(|_| -libc::ENOMEM)?;
    owner.set_status(modules::status_descriptor());
    let name = fifo.to_string();
    directory()?
        .publish(Kind::Fifo, &name, owner.area())
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => -libc::EBUSY,
            _ => -libc::ENOMEM,
        })?;
    let entry = Entry {
        owner,
        module: modules::current(),
        on_use: None,
        watcher: None,
        said_corrupt: 0,
    };
    *slot.lock() = Some(Box::new(entry));
    Ok(())
}

/// `rtf_destroy`.
pub(crate) fn destroy(fifo: u32, force: bool) -> Result<(), i32> {
    let _call = Call::enter();
    let slot = slot(fifo)?;
    let taken = {
        let mut entry = slot.lock();
        let opened = entry.as_ref().ok_or(-libc::EINVAL)?.owner.opened_by();
        if !force && opened.is_some_and(lives) {
            return Err(-libc::EINVAL);
        }
        entry.take()
    };
    directory()?.withdraw(Kind::Fifo, &fifo.to_string());
    if let Some(watcher) = taken.and_then(|mut entry| entry.watcher.take()) {
        watcher.stop();
    }
    Ok(())
}

/// Whether the process that says it serves an opener is there.
fn lives(process: u32) -> bool {
    let Ok(process) = i32::try_from(process) else {
        return false;
    };
    // SAFETY: signal 0 is never sent.
    process > 0 && unsafe { libc::kill(process, 0) } == 0
}

/// Destroys what a module has left.
pub(crate) fn destroy_all_of(module: usize) {
    for fifo in of_module(module) {
        // It was there a moment ago.
        let _ = destroy(fifo.number, true);
    }
}

/// A module's FIFOs.
pub(crate) fn of_module(module: usize) -> Vec<FifoView> {
    let view = |slot: &PiMutex<Option<Box<Entry>>>| {
        let mut entry = slot.lock();
        let entry = entry.as_mut().filter(|entry| entry.module == module)?;
        Some(entry.owner.view())
    };
    TABLE.iter().filter_map(view).collect()
}

/// `rtf_put`.
#[inline]
pub(crate) fn put(fifo: u32, bytes: &[u8]) -> Result<usize, i32> {
    let (result, handler) = {
        let _call = Call::enter();
        let mut entry = slot(fifo)?.lock();
        let entry = entry.as_mut().ok_or(-libc::EINVAL)?;
        let result = entry.owner.put(bytes);
        entry.say_corruption(fifo);
        (result, entry.on_use)
    };
    match result {
        Ok(()) => {
            call(handler, fifo);
            Ok(bytes.len())
        }
        Err(OwnerError::NoSpace) => Err(-libc::ENOSPC),
        Err(OwnerError::OtherDirection) => Err(-libc::EINVAL),
    }
}

/// `rtf_get`.
#[inline]
pub(crate) fn get(fifo: u32, to: &mut [u8]) -> Result<usize, i32> {
    let (count, handler) = {
        let _call = Call::enter();
        let mut entry = slot(fifo)?.lock();
        let entry = entry.as_mut().ok_or(-libc::EINVAL)?;
        let count = entry.owner.get(to);
        entry.say_corruption(fifo);
        (count, entry.on_use)
    };
    call(handler, fifo);
    Ok(count)
}

fn call(handler: Option<Handler>, fifo: u32) {
    if let Some(handler) = handler {
        handler(fifo);
    }
}

impl Entry {
    fn say_corruption(&mut self, fifo: u32) {
        if self.owner.corrupt_claims() != self.said_corrupt {
            self.said_corrupt = self.owner.corrupt_claims();
            corruption(fifo);
        }
    }
}

#[cold]
fn corruption(fifo: u32) {
    modules::say(&format!(
        "freehold rtl: FIFO {fifo}: the other side's index is impossible; the FIFO was emptied\n"
    ));
}

/// `rtf_flush`.
pub(crate) fn flush(fifo: u32) -> Result<(), i32> {
    let _call = Call::enter();
    slot(fifo)?.lock().as_mut().ok_or(-libc::EINVAL)?.owner.flush();
    Ok(())
}

/// Bytes in a FIFO.
pub(crate) fn used(fifo: u32) -> Result<u64, i32> {
    let _call = Call::enter();
    Ok(slot(fifo)?.lock().as_mut().ok_or(-libc::EINVAL)?.owner.used())
}

/// Whether a FIFO is created.
pub(crate) fn exists(fifo: u32) -> bool {
    let _call = Call::enter();
    slot(fifo).is_ok_and(|slot| slot.lock().is_some())
}

/// `rtf_create_rt_handler`.
pub(crate) fn set_on_use(fifo: u32, handler: Option<Handler>) -> Result<(), i32> {
    let _call = Call::enter();
    let handler = handler.ok_or(-libc::EINVAL)?;
    let slot = slot(fifo).map_err(|_| -libc::EINVAL)?;
    slot.lock().as_mut().ok_or(-libc::EINVAL)?.on_use = Some(handler);
    Ok(())
}

/// `rtf_create_handler`.
pub(crate) fn watch(fifo: u32, handler: Option<Handler>) -> Result<(), i32> {
    let _call = Call::enter();
    let handler = handler.ok_or(-libc::EINVAL)?;
    let slot = slot(fifo).map_err(|_| -libc::EINVAL)?;
    let before = slot.lock().as_mut().ok_or(-libc::EINVAL)?.watcher.take();
    if let Some(before) = before {
        before.stop();
    }
    let area = directory()?
        .find(Kind::Fifo, &fifo.to_string())
        .map_err(|_| -libc::EINVAL)?;
    let side = ProcessSide::of(area).map_err(|_| -libc::EINVAL)?;
    // What processes do from here on is told, also before the thread runs.
    let seen = side.operations().load(Ordering::Acquire);
    let module = modules::current();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name(format!("rtf{fifo}"))
        .spawn(move || {
            watch_until(&stopped, &side, seen, || {
                modules::on_behalf(module, || handler(fifo));
            });
        })
        .map_err(|_| -libc::ENOMEM)?;
    if let Some(entry) = slot.lock().as_mut() {
        entry.watcher = Some(Watcher { stop, thread });
    }
    Ok(())
}

/// Calls `handler` after each read and write of a process, from those on that follow the count `seen`.
fn watch_until(stop: &AtomicBool, side: &ProcessSide, mut seen: u32, handler: impl Fn()) {
    let word = side.operations();
    while !stop.load(Ordering::Acquire) {
        let now = word.load(Ordering::Acquire);
        // The word is others': of a jump no more is believed than a burst.
        for _ in 0..now.wrapping_sub(seen).min(1024) {
            handler();
        }
        seen = now;
        let until = clock::now().saturating_add(WATCH);
        // However it ends, the word is looked at again.
        let _ = futex::wait_shared(word, seen, Some(until));
    }
}

impl Watcher {
    fn stop(self) {
        self.stop.store(true, Ordering::Release);
        if self.thread.thread().id() != std::thread::current().id() {
            // A handler that panics has said so.
            let _ = self.thread.join();
        }
    }
}

/// `RTF_SETSIZE`: another, empty FIFO in the place of an empty one.
pub(crate) fn resize(fifo: u32, size: i32) -> Result<(), i32> {
    let _call = Call::enter();
    if used(fifo)? > 0 {
        return Err(-libc::EBUSY);
    }
    destroy(fifo, false)?;
    create(fifo, size)
}

/// `rtf_make_user_pair`: what processes write to `get` goes to `put`.
pub(crate) fn pair(get: u32, put: u32) -> Result<(), i32> {
    if !exists(put) {
        return Err(-libc::EINVAL);
    }
    let _call = Call::enter();
    slot(get)?.lock().as_ref().ok_or(-libc::EINVAL)?.owner.set_pair(put);
    Ok(())
}
