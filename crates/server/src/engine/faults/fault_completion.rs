//! How faults end: pages are mapped, threads woken, or given an error.

use crate::engine::Engine;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::objects::Content;
use crate::engine::spaces::SegmentKind;
use crate::engine::tasks::{Pending, WaitSlotName};
use freehold_core::effect::{FaultFailure, Protection};
use freehold_core::fact::PageRef;
use freehold_core::id::TaskId;
use freehold_linux::process::has_mapped;
use freehold_linux::userfault::{Stopped, Userfault};
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, clock};
use freehold_protocol::channel::Shortage;
use rustix::process::Signal;

/// What became of the attempt to map a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Installed {
    /// It is mapped, by this or before.
    Yes,
    /// The client's address space is changing: its events are to be read first.
    Later,
    /// The range is gone, or the process.
    Gone,
}

/// The page at an address of a client.
pub(in crate::engine) fn page_range(address: u64) -> Option<AddressRange> {
    AddressRange::new(usize::try_from(address).ok()?, PAGE_SIZE)
}

/// Wakes whoever waits for a page, to touch it again.
pub(in crate::engine) fn wake(userfault: &Userfault, address: u64) {
    if let Some(range) = page_range(address) {
        // A process that has gone need not be woken, and nothing else fails.
        let _ = userfault.wake(range);
    }
}

/// Judges what the kernel said to an attempt to map; a page that is there already is made writable if it is to be.
pub(in crate::engine) fn judge(
    userfault: &Userfault,
    address: u64,
    writable: bool,
    result: Result<(), Stopped>,
) -> Installed {
    match result {
        Ok(()) => Installed::Yes,
        Err(Stopped {
            errno: Errno::EXIST, ..
        }) if writable => unprotect(userfault, address),
        Err(Stopped {
            errno: Errno::EXIST, ..
        }) => {
            wake(userfault, address);
            Installed::Yes
        }
        Err(Stopped {
            errno: Errno::AGAIN | Errno::NOMEM | Errno::FAULT,
            ..
        }) => Installed::Later,
        Err(_) => {
            wake(userfault, address);
            Installed::Gone
        }
    }
}

/// Lets a page be written, and wakes who waits for that.
pub(in crate::engine) fn unprotect(userfault: &Userfault, address: u64) -> Installed {
    match page_range(address).map(|range| userfault.write_protect(range, false)) {
        Some(Ok(())) => Installed::Yes,
        Some(Err(Errno::AGAIN)) => Installed::Later,
        _ => {
            wake(userfault, address);
            Installed::Gone
        }
    }
}

impl Engine {
    fn pending(&self, task: TaskId) -> Option<(WaitSlotName, Pending)> {
        let name = self.tasks.wait_slot_name(task)?;
        let wait_slot = self
            .tasks
            .at(name.task.index())?
            .wait_slots
            .get(usize::from(name.wait_slot))?;
        Some((name, wait_slot.pending.filter(|_| wait_slot.core == task)?))
    }

    /// The core has decided that the page is to be mapped for the fault of this wait slot.
    pub(in crate::engine) fn map_page(&mut self, task: TaskId, page: PageRef, protection: Protection) {
        self.prefetcher.last_fault = None;
        let Some((name, pending)) = self.pending(task) else {
            return;
        };
        let fault = pending.fault;
        let write = protection == Protection::Writable;
        self.prefetcher.last_fault = Some((fault.client, fault.address, write));
        match self.objects.get(page.object().index()).and_then(Option::as_ref) {
            Some(object) if matches!(object.content, Content::Private { .. }) => {
                self.map_private(name, pending, page, protection);
            }
            Some(_) => {
                let installed = self.map_shared(&fault, page, protection);
                if installed == Installed::Yes {
                    self.keep_mapped(fault.client, fault.address);
                }
                self.lock_mapped(fault.client, fault.address);
                self.note_reference(fault.client, fault.address, page.object(), page.page().get());
                self.end_fault(name, pending.fault, installed);
            }
            None => self.end_fault(name, pending.fault, Installed::Gone),
        }
    }

    fn map_shared(&self, fault: &FaultMessage, page: PageRef, protection: Protection) -> Installed {
        let Some(client) = self.client(fault.client) else {
            return Installed::Gone;
        };
        let (Some(userfault), Some(range)) = (client.userfaults.shared.as_ref(), page_range(fault.address)) else {
            return Installed::Gone;
        };
        let writable = match client.segment(fault.address) {
            Some((_, segment)) => matches!(segment.kind, SegmentKind::Shared { writable: true, .. }),
            None => return Installed::Gone,
        };
        let write = writable && protection == Protection::Writable;
        if fault.protected && write {
            return unprotect(userfault, fault.address);
        }
        let protect = writable && !write;
        let mut result = userfault.continue_(range, protect);
        if matches!(
            result,
            Err(Stopped {
                errno: Errno::FAULT,
                ..
            })
        ) && let Some(memory) = self.object(page.object()).and_then(|object| object.memory())
        {
            // Somebody who may write the object has punched a hole into it: zeros are what it holds there now.
            let hole = freehold_linux::PageRange::single(page.page().get() as usize);
            if memory.populate(hole).is_ok() {
                result = userfault.continue_(range, protect);
            }
        }
        judge(userfault, fault.address, write, result)
    }

    /// A wait slot's fault is over, as far as the core is concerned.
    pub(in crate::engine) fn end_fault(&mut self, name: WaitSlotName, fault: FaultMessage, installed: Installed) {
        let Some(task) = self.tasks.at_mut(name.task.index()) else {
            return;
        };
        let wait_slot = task.wait_slots.get_mut(usize::from(name.wait_slot));
        let over = wait_slot.and_then(|wait_slot| Some((wait_slot.core, wait_slot.pending.take()?)));
        if installed == Installed::Later {
            self.defer(fault);
            return;
        }
        self.hold_back(name.task, fault);
        let now = clock::now().as_nanos();
        if let Some((core, Pending { object, page, .. })) = over {
            self.record_fault(name.task, core, (object, page), (fault.since.get(), now));
        }
        if let Some(client) = self.client_mut(fault.client) {
            client.counts.times.record(now.saturating_sub(fault.since.get()));
        }
    }

    /// What the wait slot waited for is over; its fault is handed in afresh.
    pub(in crate::engine) fn retry(&mut self, task: TaskId) {
        let Some((name, pending)) = self.pending(task) else {
            return;
        };
        if let Some(task) = self.tasks.at_mut(name.task.index())
            && let Some(wait_slot) = task.wait_slots.get_mut(usize::from(name.wait_slot))
        {
            wait_slot.pending = None;
        }
        if self.io.lockstep.is_held() {
            // The thread itself comes again.
            self.hold_back(name.task, pending.fault);
        } else {
            self.step.again.push_back(pending.fault);
        }
    }

    /// The page cannot be had: whoever touches it gets SIGBUS, and nobody else notices.
    pub(in crate::engine) fn fail(&mut self, task: TaskId, failure: FaultFailure) {
        let Some((name, pending)) = self.pending(task) else {
            return;
        };
        if failure == FaultFailure::NoFrame && self.lend_for(name, &pending) {
            return;
        }
        let shortage = match failure {
            FaultFailure::Read => Shortage::Content,
            FaultFailure::WriteBack => Shortage::Writing,
            FaultFailure::NoFrame => {
                let why = self.why_no_frame(name);
                self.notice(why);
                Shortage::Frames
            }
        };
        self.cannot_give(&pending.fault, shortage);
        self.end_fault(name, pending.fault, Installed::Gone);
    }

    /// Why no page can leave for a task's fault, and what size would do.
    fn why_no_frame(&self, name: WaitSlotName) -> String {
        let task = self.tasks.at(name.task.index());
        let lists = task.and_then(|task| self.core.reservation(task.reservation?));
        let Some(lists) = lists else {
            return "no frame is to be had: no page of the pool can leave".to_owned();
        };
        let (all, locked) = (lists.capacity.get(), lists.locked.get());
        format!(
            "no frame is to be had: of its reservation's {all} pages {locked} are locked, and input, output or the \
             kernel keeps the others: a reservation of {} pages would let it go on",
            all.saturating_add(freehold_core::UNLOCKED_FRAMES)
        )
    }

    /// Whoever touches the page gets SIGBUS, now and later.
    pub(in crate::engine) fn give_error(&mut self, fault: &FaultMessage, why: &str) {
        let Some(client) = self.client(fault.client) else {
            return;
        };
        let (pid, address) = (client.process.pid, fault.address);
        let poisoned = match (client.userfault(fault.which), page_range(address)) {
            (Some(userfault), Some(range)) => match userfault.poison(range) {
                Err(Stopped {
                    errno: Errno::EXIST, ..
                }) if is_absent(fault, pid) => userfault.poison_absent(range),
                result => result,
            },
            _ => Err(Stopped {
                done: 0,
                errno: Errno::INVAL,
            }),
        };
        let poisoned = poisoned.map_err(|stopped| stopped.errno);
        let waited = self.step.now.get().saturating_sub(fault.since.get());
        match poisoned {
            Ok(()) => {}
            // Unmapped while it was said why: nobody waits there any more.
            Err(Errno::NOENT) => return,
            // A page on its way out is mapped until it has left, and another thread may have got it.
            Err(Errno::EXIST) if waited < self.bound() => return self.defer(*fault),
            // Older than 6.6, or the page stays.
            Err(_) => client.process.signal_thread(fault.thread, Signal::BUS),
        }
        self.notice(format!("process {pid} gets SIGBUS for its page at {address:#x}: {why}"));
    }
}

/// Whether nothing is mapped where a thread waits for shared memory: only an engine maps pages there, this one.
fn is_absent(fault: &FaultMessage, pid: u32) -> bool {
    fault.which == Which::Shared && has_mapped(pid, fault.address) == Some(false)
}
