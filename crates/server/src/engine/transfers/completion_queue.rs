//! Ends of transfers, told by threads of the store or of the file readers to the pager thread that waits for them.

use crate::engine::keys::ClientId;
use crate::engine::teardown::deferred_free::DeferredFree;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_linux::Errno;
use freehold_linux::event::Wakeup;
use freehold_linux::memory::zeroed;
use freehold_linux::pi_mutex::PiMutex;
use freehold_store::{Completion, PageLease, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A file page that was read, or not.
#[derive(Debug)]
pub(crate) struct FileEnd {
    pub(crate) page: PageRef,
    pub(crate) result: Result<PageLease, Errno>,
}

/// Pages of a user's object are in no frames any more.
#[derive(Debug)]
pub(crate) struct HoleEnd {
    pub(crate) user: u32,
    pub(crate) object: ObjectId,
    /// Pages of which the core has been told.
    pub(crate) early: Vec<PageRef>,
    /// Pages of which it is to be told.
    pub(crate) late: Vec<PageRef>,
    /// The kernel has refused.
    pub(crate) failed: bool,
}

/// What one pager thread is to look at.
#[derive(Debug)]
struct Tray {
    records: PiMutex<Vec<u32>>,
    files: PiMutex<Vec<FileEnd>>,
    holes: PiMutex<Vec<HoleEnd>>,
    deferred: PiMutex<Vec<Arc<DeferredFree>>>,
    slots: PiMutex<Vec<(ClientId, Vec<u32>)>>,
    wakeup: Wakeup,
}

/// The trays of all pager threads, and whose each record's transfer is.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    trays: Vec<Tray>,
    owners: Box<[AtomicU8]>,
}

impl CompletionQueue {
    pub(crate) fn new(pagers: usize, records: u32) -> Result<Self, Errno> {
        let tray = |_| {
            Ok(Tray {
                records: PiMutex::new(Vec::with_capacity(1024)),
                files: PiMutex::new(Vec::with_capacity(64)),
                holes: PiMutex::new(Vec::new()),
                deferred: PiMutex::new(Vec::new()),
                slots: PiMutex::new(Vec::new()),
                wakeup: Wakeup::new()?,
            })
        };
        Ok(Self {
            trays: (0..pagers.max(1)).map(tray).collect::<Result<_, Errno>>()?,
            owners: zeroed(records as usize),
        })
    }

    /// What wakes a pager thread, to be waited for edge by edge and never cleared.
    pub(crate) fn wakeup(&self, pager: usize) -> Option<&Wakeup> {
        self.trays.get(pager).map(|tray| &tray.wakeup)
    }

    /// Whoever ends the transfer of `record` tells this pager thread.
    pub(crate) fn own(&self, record: u32, pager: usize) {
        if let Some(owner) = self.owners.get(record as usize) {
            owner.store(u8::try_from(pager).unwrap_or(0), Ordering::Release);
        }
    }

    pub(crate) fn wake(&self, pager: usize) {
        if let Some(tray) = self.trays.get(pager) {
            tray.wakeup.signal();
        }
    }

    pub(crate) fn file_ended(&self, pager: usize, end: FileEnd) {
        if let Some(tray) = self.trays.get(pager) {
            tray.files.lock().push(end);
            self.wake(pager);
        }
    }

    pub(crate) fn hole_made(&self, pager: usize, end: HoleEnd) {
        if let Some(tray) = self.trays.get(pager) {
            tray.holes.lock().push(end);
            self.wake(pager);
        }
    }

    pub(crate) fn take_hole(&self, pager: usize) -> Option<HoleEnd> {
        self.trays.get(pager)?.holes.lock().pop()
    }

    pub(crate) fn deferred_cleared(&self, pager: usize, deferred: Arc<DeferredFree>) {
        if let Some(tray) = self.trays.get(pager) {
            tray.deferred.lock().push(deferred);
            self.wake(pager);
        }
    }

    pub(crate) fn take_deferred(&self, pager: usize) -> Option<Arc<DeferredFree>> {
        self.trays.get(pager)?.deferred.lock().pop()
    }

    pub(crate) fn slots_cooled(&self, pager: usize, cooled: (ClientId, Vec<u32>)) {
        if let Some(tray) = self.trays.get(pager) {
            tray.slots.lock().push(cooled);
            self.wake(pager);
        }
    }

    pub(crate) fn take_slots(&self, pager: usize) -> Option<(ClientId, Vec<u32>)> {
        self.trays.get(pager)?.slots.lock().pop()
    }

    /// Takes the next record whose transfer has ended.
    pub(crate) fn take_record(&self, pager: usize) -> Option<u32> {
        self.trays.get(pager)?.records.lock().pop()
    }

    pub(crate) fn take_file(&self, pager: usize) -> Option<FileEnd> {
        self.trays.get(pager)?.files.lock().pop()
    }
}

impl Completion for CompletionQueue {
    fn ended(&self, slot: Slot) {
        let owner = self.owners.get(slot.get() as usize);
        let pager = owner.map_or(0, |owner| usize::from(owner.load(Ordering::Acquire)));
        if let Some(tray) = self.trays.get(pager) {
            tray.records.lock().push(slot.get());
            self.wake(pager);
        }
    }
}
