//! From a message of a userfaultfd to a fault of the core.

pub(super) mod deferred;
pub(super) mod fault_completion;
pub(super) mod fault_queue;
mod message;
pub(super) mod shortages;
pub(super) mod urgency;

use crate::engine::Engine;
use crate::engine::faults::fault_completion::{Installed, judge};
use crate::engine::keys::{ClientId, ClientRole, TaskKey};
use crate::engine::private_memory::Where;
use crate::engine::spaces::{Segment, SegmentKind};
use crate::engine::tasks::Pending;
use freehold_core::error::FaultError;
use freehold_core::fact::{Access, Fault};
use freehold_core::units::{Duration, PageIndex};
use freehold_core::view::PageState;
use freehold_linux::PAGE_SIZE;
use freehold_linux::userfault::Message;
use freehold_protocol::channel::Shortage;
pub(crate) use message::{FaultMessage, Which};

/// Faults at unknown addresses that are kept for a mapping that may be announced, for each client.
const MOST_PARKED: usize = 256;

impl Engine {
    /// One message of a client's userfaultfd.
    pub(super) fn message(&mut self, id: ClientId, which: Which, message: Message) {
        match message {
            Message::Fault {
                address,
                write,
                write_protected,
                thread,
            } => {
                if let Some(client) = self.client_mut(id) {
                    client.counts.faults += 1;
                }
                self.follow_thread(id, thread);
                self.fault(FaultMessage {
                    client: id,
                    which,
                    address,
                    write,
                    protected: write_protected,
                    thread,
                    since: self.step.now,
                });
            }
            Message::Fork(child) => self.forks(id, which, child),
            Message::Remap { from, to, length } => self.moved(id, from, to, length),
            Message::Remove { start, end } => self.removed(id, start, end),
            Message::Unmap { start, end } => self.unmapped(id, which, start, end),
            Message::Unknown(kind) => self.notice(format!("a userfaultfd tells of an unknown event {kind}")),
        }
    }

    /// A thread waits for a page: has it brought, or finds out that it is coming already.
    pub(super) fn fault(&mut self, fault: FaultMessage) {
        let Some(client) = self.client(fault.client).filter(|client| !client.family.gone) else {
            return;
        };
        if fault.thread != 0 && fault.thread == client.process.agent_thread {
            self.serve_agent(&fault);
            return;
        }
        if client.standing.frozen {
            return;
        }
        if self.waits_for_memory(fault.client) {
            self.defer(fault);
            return;
        }
        let family = &client.family;
        let owed = family.fork_children > 0 || !family.fork_pending.is_over();
        if owed && fault.which == Which::Private {
            // The page may be changed only when the child has it; a child waits until it has everything.
            let held = self
                .client_mut(fault.client)
                .map(|client| client.family.held.push(fault));
            if held == Some(false) {
                self.cannot_give(&fault, Shortage::Waiting);
            }
            return;
        }
        let inherits = family.parent.is_some() || !family.inherited.is_empty() || family.relinquished.has_all();
        if inherits && self.serve_inherited(&fault) {
            return;
        }
        let Some(client) = self.client_mut(fault.client) else {
            return;
        };
        if fault.which == Which::Private {
            client.family.relinquished.asked_for(fault.address);
        }
        let client = &*client;
        let found = match client.segment(fault.address) {
            // Without a task there is nobody to charge it to yet.
            None if fault.which == Which::Private && !client.tasks.is_empty() => {
                if let Some((start, segment)) = self.book(&fault) {
                    self.fault_in(fault, start, &segment);
                }
                return;
            }
            found => found,
        };
        let program = client.process.role == ClientRole::Program && !client.tasks.is_empty();
        let private = found.is_none_or(|(_, segment)| segment.kind == SegmentKind::Private);
        match found {
            _ if fault.which == Which::Shared && program && private => self.fill_marker(&fault),
            Some((start, segment)) => self.fault_in(fault, start, &segment),
            None => self.park(fault),
        }
    }

    /// A program announces its text before it maps it. What else it has with its shared memory is the page by which a
    /// forked child would show itself: a call that brings in all memory (`mlockall`) waits for it in the parent.
    fn fill_marker(&mut self, fault: &FaultMessage) {
        let Some(client) = self.client(fault.client) else {
            return;
        };
        let (Some(userfault), Ok(address)) = (client.userfaults.shared.as_ref(), usize::try_from(fault.address)) else {
            return;
        };
        let filled = userfault.copy_zeros(address & !(PAGE_SIZE - 1), &self.backing.sources.zeros, 1, false);
        if judge(userfault, fault.address, false, filled) == Installed::Later {
            self.defer(*fault);
        }
    }

    /// Nothing is known about the address. A mapping may be announced that explains it; a thread of a client that
    /// touches what it never announced waits for ever, which is its own doing.
    fn park(&mut self, fault: FaultMessage) {
        let Some(client) = self.client_mut(fault.client) else {
            return;
        };
        client.counts.strange += 1;
        if client.waiting.parked.len() < MOST_PARKED {
            client.waiting.parked.push(fault);
        }
    }

    fn fault_in(&mut self, fault: FaultMessage, start: u64, segment: &Segment) {
        let page = segment.page_at(start, fault.address);
        let Some(task) = self.tasks.at(segment.task.index()) else {
            return;
        };
        let same = |pending: &Pending| pending.object == segment.object && pending.fault.address == fault.address;
        if task
            .wait_slots
            .iter()
            .any(|wait_slot| wait_slot.pending.as_ref().is_some_and(same))
        {
            // What is mapped for the one wakes all; who needed more faults again.
            return;
        }
        let Some(at) = self.idle_wait_slot(segment.task) else {
            self.queue(segment.task, fault);
            return;
        };
        let page = PageIndex::new(page);
        let access = match segment.kind {
            // Writes through such a mapping are the client's own affair: the kernel copies.
            SegmentKind::Shared { writable: false, .. } => Access::Read,
            _ if fault.protected => Access::Upgrade,
            _ if fault.write || self.is_about_to_be_written(segment, page) => Access::Write,
            _ => Access::Read,
        };
        let core_fault = Fault {
            mapping: segment.mapping,
            page,
            access,
        };
        let task = self.tasks.at_mut(segment.task.index());
        let Some(wait_slot) = task.and_then(|task| task.wait_slots.get_mut(at)) else {
            return;
        };
        wait_slot.pending = Some(Pending {
            fault,
            object: segment.object,
            page,
            mapped: None,
        });
        let waiter = wait_slot.core;
        match self.core.handle_fault_for(self.step.now, core_fault, waiter) {
            Ok(()) => self.boost(segment.task, segment.object, page),
            Err(error) => self.refused(segment, at, fault, error),
        }
    }

    /// Whether a page of a program's private memory that somebody looks at counts as written: its write would cost a
    /// second fault. New memory does, because who looks at it is about to write it; what stays zeros is found to be
    /// when it is evicted. So does what comes back from a store in memory: much of that is written, and one write more
    /// costs such a store less than a fault.
    fn is_about_to_be_written(&self, segment: &Segment, page: PageIndex) -> bool {
        if segment.kind != SegmentKind::Private {
            return false;
        }
        match self.core.page(segment.object, page).map(|view| view.state) {
            Some(PageState::Empty) => true,
            Some(PageState::Stored) => self.io.store.latency() == Some(Duration::ZERO),
            _ => self.place_at(segment.object, page.get()) == Some(Where::Blank),
        }
    }

    /// Every wait slot of a task waits: the fault waits for one.
    fn queue(&mut self, key: TaskKey, fault: FaultMessage) {
        let Some(task) = self.tasks.get_mut(key.index(), key.generation()) else {
            return;
        };
        if !task.queued.push(fault) {
            self.cannot_give(&fault, Shortage::Waiting);
        } else if !self.tasks.crowded.contains(&key) {
            self.tasks.crowded.push(key);
        }
    }

    /// A fault that waited for a wait slot, where there is one now. O(tasks with such faults).
    pub(super) fn next_queued(&mut self) -> Option<FaultMessage> {
        let mut at = 0;
        while let Some(key) = self.tasks.crowded.get(at).copied() {
            match self.tasks.get_mut(key.index(), key.generation()) {
                Some(task) if !task.queued.is_empty() => {
                    if task.wait_slots.iter().any(|wait_slot| wait_slot.pending.is_none()) {
                        return task.queued.pop();
                    }
                    at += 1;
                }
                _ => {
                    self.tasks.crowded.swap_remove(at);
                }
            }
        }
        None
    }

    fn refused(&mut self, segment: &Segment, wait_slot: usize, fault: FaultMessage, error: FaultError) {
        if let Some(wait_slot) = self
            .tasks
            .at_mut(segment.task.index())
            .and_then(|task| task.wait_slots.get_mut(wait_slot))
        {
            wait_slot.pending = None;
        }
        self.notice(format!("the core refused a fault: {error}"));
        self.park(fault);
    }
}
