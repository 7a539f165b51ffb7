//! A run in lockstep: transfers end, and threads that waited go on, when the process says so that the server is in.
//!
//! What is decided at once is done at once, as ever. Only its thread goes on later: when the client's agent has carried
//! out what was ordered with the decision, because in the simulator what is unmapped is unmapped at once. And a thread
//! whose fault had to wait for a transfer goes on when it is told to, because in the simulator it makes its access only
//! when it has a CPU again.

use crate::engine::Engine;
use crate::engine::faults::FaultMessage;
use crate::engine::faults::fault_completion::wake;
use crate::engine::keys::{ObjectKey, TaskKey};
use crate::engine::objects::victim_pages::FileSource;
use crate::engine::transfers::transfer_table::Transfer;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use freehold_driver::End;
use freehold_store::{Due, PageLease, Slot};

/// How a task's thread stands, in a run in lockstep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs, or its fault has not been read yet, or it is about to go on.
    Runs,
    /// It waits for a transfer.
    Waits,
    /// Its fault is over, and it waits to be told to go on.
    Answered,
}

/// A thread whose fault is over, and that still sleeps.
#[derive(Clone, Copy, Debug)]
struct Answered {
    task: TaskKey,
    fault: FaultMessage,
    /// It may go on when its client has no order to carry out.
    goes: bool,
}

/// A page of a file that is to be read, or is out of the victim cache already: in the simulator it leaves that as soon
/// as it is asked for.
#[derive(Debug)]
struct HeldRead {
    page: PageRef,
    source: FileSource,
    got: Option<PageLease>,
}

/// What waits for a word in a run in lockstep.
#[derive(Debug, Default)]
pub(super) struct Lockstep {
    held: bool,
    answered: Vec<Answered>,
    reads: Vec<HeldRead>,
    /// Transfers of which the store has told that they have ended.
    told: Vec<u32>,
}

impl Lockstep {
    /// Whether transfers and threads wait for a word.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// The transfer of a record has ended; it is finished when it is said to be.
    pub(super) fn hold_end(&mut self, record: u32) {
        self.told.push(record);
    }

    fn answered_of(&mut self, task: TaskKey) -> Option<&mut Answered> {
        self.answered.iter_mut().find(|answered| answered.task == task)
    }
}

impl Engine {
    /// From now on transfers and threads wait for a word, or no longer: then all that has waited goes on.
    pub(crate) fn hold(&mut self, held: bool) {
        self.step(|engine| {
            for (_, client) in engine.clients.iter_mut() {
                let own = [client.userfaults.shared.as_mut(), client.userfaults.private.as_mut()];
                for userfault in own.into_iter().flatten() {
                    if let Some(userfault) = userfault.get_mut() {
                        userfault.let_sleep(held);
                    }
                }
            }
            engine.io.lockstep.held = held;
            if !held {
                engine.let_all_go();
            }
        });
    }

    fn let_all_go(&mut self) {
        let lockstep = &mut self.io.lockstep;
        lockstep.answered.iter_mut().for_each(|answered| answered.goes = true);
        let (told, reads) = (std::mem::take(&mut lockstep.told), std::mem::take(&mut lockstep.reads));
        let ended = |record: &u32| {
            told.contains(record) || self.io.store.due(self.step.now, Slot::new(*record)) != Due::WhenTold
        };
        let records: Vec<u32> = self.transfers.records().into_iter().filter(ended).collect();
        self.transfers.ready.extend(records);
        for read in reads {
            self.read_now(read);
        }
    }

    /// The task of this name.
    pub(crate) fn task_called(&self, name: &str) -> Option<TaskKey> {
        let mut keys = self.clients.iter().flat_map(|(_, client)| &client.tasks);
        let is_called = |key: &&TaskKey| {
            let task = self.tasks.get(key.index(), key.generation());
            task.is_some_and(|task| task.name == name && !task.ending)
        };
        keys.find(is_called).copied()
    }

    /// The region or file of this name.
    pub(crate) fn object_called(&self, name: &str) -> Option<ObjectKey> {
        let mut objects = self.objects.iter().flatten();
        objects.find_map(|object| (object.name == name).then_some(object.id))
    }

    /// How a task's thread stands, and how many orders no agent has carried out.
    pub(crate) fn standing(&self, task: TaskKey) -> (Standing, u32) {
        let answered = self.io.lockstep.answered.iter().find(|answered| answered.task == task);
        let row = self.tasks.get(task.index(), task.generation());
        let waits = row.is_some_and(|row| row.wait_slots.iter().any(|wait_slot| wait_slot.pending.is_some()));
        let standing = match answered {
            Some(Answered { goes: true, .. }) => Standing::Runs,
            Some(_) => Standing::Answered,
            None if waits => Standing::Waits,
            None => Standing::Runs,
        };
        (standing, self.orders())
    }

    /// Orders that no agent has carried out.
    pub(crate) fn orders(&self) -> u32 {
        self.clients.iter().map(|(_, client)| client.outbox.count()).sum()
    }

    /// Lets the thread of a task go on whose fault is over; false where it does not wait for that.
    pub(crate) fn let_go(&mut self, task: TaskKey) -> bool {
        self.step(|engine| {
            let answered = engine.io.lockstep.answered_of(task);
            answered.map(|answered| answered.goes = true).is_some()
        })
    }

    /// Ends a transfer; false where nothing is held, or none such is under way, or the device is still at it.
    pub(crate) fn end_transfer(&mut self, object: ObjectKey, page: PageIndex, request: Request) -> bool {
        self.step(|engine| {
            if !engine.io.lockstep.held {
                return false;
            }
            if let Some(read) = engine.take_read(object, page).filter(|_| request == Request::Fill) {
                engine.read_now(read);
                return true;
            }
            let record = engine.ended_record(object, page, request);
            engine.transfers.ready.extend(record);
            record.is_some()
        })
    }

    fn take_read(&mut self, object: ObjectId, page: PageIndex) -> Option<HeldRead> {
        let mut reads = self.io.lockstep.reads.iter();
        let at = reads.position(|read| (read.page.object(), read.page.page()) == (object, page))?;
        Some(self.io.lockstep.reads.remove(at))
    }

    /// The record of such a transfer, if the device is done with it.
    fn ended_record(&mut self, object: ObjectId, page: PageIndex, request: Request) -> Option<u32> {
        let record = self.object(object)?.record + page.get();
        let same = match self.transfers.what(record)? {
            Transfer::Fill { .. } => request == Request::Fill,
            Transfer::Evict { .. } => request == Request::Evict,
            Transfer::Inherited { .. } => false,
        };
        if self.io.store.due(self.step.now, Slot::new(record)) == Due::WhenTold {
            let at = self.io.lockstep.told.iter().position(|told| *told == record)?;
            self.io.lockstep.told.swap_remove(at);
        }
        same.then_some(record)
    }

    /// A page of a file is wanted: its end waits for a word.
    pub(super) fn hold_read(&mut self, page: PageRef, source: FileSource) {
        let mut loan = self.loan();
        let cached = source.cache().is_some_and(|cache| cache.get(page, &mut loan));
        let got = if cached {
            Some(loan)
        } else {
            self.give_back(loan);
            None
        };
        self.io.lockstep.reads.push(HeldRead { page, source, got });
    }

    /// Brings a page of a file, here and now: nobody else is served by this server.
    fn read_now(&mut self, HeldRead { page, source, got }: HeldRead) {
        let (loan, read) = match got {
            Some(loan) => (loan, true),
            None => {
                let mut loan = self.loan();
                let read = source.read(page, &mut loan).is_ok();
                (loan, read)
            }
        };
        self.drop_left();
        let placed = read && self.place(page, &loan);
        self.give_back(loan);
        self.end(page, Request::Fill, if placed { End::Done } else { End::Failed });
    }

    /// The fault of a task's thread is over. One that has not waited goes on by itself.
    pub(super) fn hold_back(&mut self, task: TaskKey, fault: FaultMessage) {
        if self.io.lockstep.held {
            let goes = fault.since == self.step.now;
            self.io.lockstep.answered.push(Answered { task, fault, goes });
        }
    }

    /// Wakes the threads that may go on.
    pub(super) fn wake_those_that_go(&mut self) {
        if self.io.lockstep.answered.is_empty() {
            return;
        }
        let mut answered = std::mem::take(&mut self.io.lockstep.answered);
        answered.retain(|answered| {
            let Some(client) = self.client(answered.fault.client) else {
                return false;
            };
            let goes = answered.goes && client.outbox.count() == 0;
            if let Some(userfault) = client.userfault(answered.fault.which).filter(|_| goes) {
                wake(userfault, answered.fault.address);
            }
            !goes
        });
        self.io.lockstep.answered = answered;
    }
}
