//! How faults end: pages are mapped, threads woken, or given an error.

use crate::engine::Engine;
use crate::engine::rows::{Claim, Content, LaneName, Pending, SegmentKind};
use freehold_core::effect::{FaultFailure, Protection};
use freehold_core::fact::PageRef;
use freehold_core::id::TaskId;
use freehold_linux::userfault::{Stopped, Userfault};
use freehold_linux::{AddressRange, Errno, PAGE_SIZE, clock};
use freehold_protocol::channel::Shortage;

/// What became of the attempt to map a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installed {
    /// It is mapped, by this or before.
    Yes,
    /// The client's address space is changing: its events are to be read first.
    Later,
    /// The range is gone, or the process.
    Gone,
}

/// The page at an address of a client.
pub(super) fn page_range(address: u64) -> Option<AddressRange> {
    AddressRange::new(usize::try_from(address).ok()?, PAGE_SIZE)
}

/// Wakes whoever waits for a page, to touch it again.
pub(super) fn wake(userfault: &Userfault, address: u64) {
    if let Some(range) = page_range(address) {
        // A process that has gone need not be woken, and nothing else fails.
        let _ = userfault.wake(range);
    }
}

/// Judges what the kernel said to an attempt to map; a page that is there already is made writable if it is to be.
pub(super) fn judge(userfault: &Userfault, address: u64, writable: bool, result: Result<(), Stopped>) -> Installed {
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
pub(super) fn unprotect(userfault: &Userfault, address: u64) -> Installed {
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
    fn pending(&self, task: TaskId) -> Option<(LaneName, Pending)> {
        let name = self.tasks.lane_name(task)?;
        let lane = self.tasks.at(name.task.index())?.lanes.get(usize::from(name.lane))?;
        Some((name, lane.pending.filter(|_| lane.core == task)?))
    }

    /// The core has decided that the page is to be mapped for the fault of this lane.
    pub(super) fn map_page(&mut self, task: TaskId, page: PageRef, protection: Protection) {
        self.along.last_claim = None;
        let Some((name, pending)) = self.pending(task) else {
            return;
        };
        let claim = pending.claim;
        let write = protection == Protection::Writable;
        self.along.last_claim = Some((claim.client, claim.address, write));
        match self.objects.get(page.object().index()).and_then(Option::as_ref) {
            Some(object) if matches!(object.content, Content::Private { .. }) => {
                self.map_private(name, pending, page, protection);
            }
            Some(_) => {
                let installed = self.map_shared(&claim, page, protection);
                self.lock_mapped(claim.client, claim.address);
                self.note_reference(claim.client, claim.address, page.object(), page.page().get());
                self.end_claim(name, pending.claim, installed);
            }
            None => self.end_claim(name, pending.claim, Installed::Gone),
        }
    }

    fn map_shared(&self, claim: &Claim, page: PageRef, protection: Protection) -> Installed {
        let Some(client) = self.client(claim.client) else {
            return Installed::Gone;
        };
        let (Some(userfault), Some(range)) = (client.userfaults.shared.as_ref(), page_range(claim.address)) else {
            return Installed::Gone;
        };
        let writable = match client.segment(claim.address) {
            Some((_, segment)) => matches!(segment.kind, SegmentKind::Shared { writable: true, .. }),
            None => return Installed::Gone,
        };
        let write = writable && protection == Protection::Writable;
        if claim.protected && write {
            return unprotect(userfault, claim.address);
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
        judge(userfault, claim.address, write, result)
    }

    /// A lane's fault is over, as far as the core is concerned.
    pub(super) fn end_claim(&mut self, name: LaneName, claim: Claim, installed: Installed) {
        let Some(task) = self.tasks.at_mut(name.task.index()) else {
            return;
        };
        let lane = task.lanes.get_mut(usize::from(name.lane));
        let over = lane.and_then(|lane| Some((lane.core, lane.pending.take()?)));
        if installed == Installed::Later {
            self.defer(claim);
            return;
        }
        self.hold_back(name.task, claim);
        let now = clock::now().as_nanos();
        if let Some((core, Pending { object, page, .. })) = over {
            self.record_fault(name.task, core, (object, page), (claim.since.get(), now));
        }
        if let Some(client) = self.client_mut(claim.client) {
            client.counts.times.record(now.saturating_sub(claim.since.get()));
        }
    }

    /// What the lane waited for is over; its fault is handed in afresh.
    pub(super) fn retry(&mut self, task: TaskId) {
        let Some((name, pending)) = self.pending(task) else {
            return;
        };
        if let Some(task) = self.tasks.at_mut(name.task.index())
            && let Some(lane) = task.lanes.get_mut(usize::from(name.lane))
        {
            lane.pending = None;
        }
        if self.io.lockstep.is_held() {
            // The thread itself comes again.
            self.hold_back(name.task, pending.claim);
        } else {
            self.step.again.push_back(pending.claim);
        }
    }

    /// The page cannot be had: whoever touches it gets SIGBUS, and nobody else notices.
    pub(super) fn fail(&mut self, task: TaskId, failure: FaultFailure) {
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
        self.cannot_give(&pending.claim, shortage);
        self.end_claim(name, pending.claim, Installed::Gone);
    }

    /// Why no page can leave for a task's fault, and what size would do.
    fn why_no_frame(&self, name: LaneName) -> String {
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
    pub(super) fn give_error(&mut self, claim: &Claim, why: &str) {
        let Some(client) = self.client(claim.client) else {
            return;
        };
        let (pid, address) = (client.process.pid, claim.address);
        let poisoned = match (client.userfault(claim.which), page_range(address)) {
            (Some(userfault), Some(range)) => userfault.poison(range).map_err(|stopped| stopped.errno),
            _ => Err(Errno::INVAL),
        };
        if poisoned == Err(Errno::NOENT) {
            // Unmapped while it was said why: nobody waits there any more.
            return;
        }
        if poisoned.is_err() {
            // Older than 6.6, or the page is there: the whole process is told.
            client.process.signal(rustix::process::Signal::BUS);
        }
        self.notice(format!("process {pid} gets SIGBUS for its page at {address:#x}: {why}"));
    }
}
