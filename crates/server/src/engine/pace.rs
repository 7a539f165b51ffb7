//! The pace of a run in lockstep: transfers end, and threads that waited go on, when the client says so.
//!
//! Only a server that was started for one run lets a client set its pace. What is decided at once is done at once, as
//! ever. Only its thread goes on later: when the client's agent has carried out what was ordered with the decision,
//! because in the simulator what is unmapped is unmapped at once. And a thread whose fault had to wait for a transfer
//! goes on when it is told to, because in the simulator it makes its access only when it has a CPU again.

use crate::engine::Engine;
use crate::engine::claims::wake;
use crate::engine::keys::{ClientId, ObjectKey, TaskKey};
use crate::engine::rows::Claim;
use crate::engine::under_way::Transfer;
use crate::engine::victim_pages::FileSource;
use crate::error::EngineError;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use freehold_driver::End;
use freehold_protocol::message::Standing;
use freehold_store::{Due, PageLease, Slot};

/// A thread whose fault is over, and that still sleeps.
#[derive(Clone, Copy, Debug)]
struct Answered {
    task: TaskKey,
    claim: Claim,
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

/// Who sets the pace, and what waits for its word.
#[derive(Debug, Default)]
pub(super) struct Pace {
    allowed: bool,
    held: bool,
    answered: Vec<Answered>,
    reads: Vec<HeldRead>,
    /// Transfers of which the store has told that they have ended.
    told: Vec<u32>,
}

impl Pace {
    /// Of a server whose clients may set it, or may not.
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }

    /// Whether a client sets it now.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// The transfer of a record has ended; it is finished when the client says so.
    pub(super) fn hold_end(&mut self, record: u32) {
        self.told.push(record);
    }

    fn answered_of(&mut self, task: TaskKey) -> Option<&mut Answered> {
        self.answered.iter_mut().find(|answered| answered.task == task)
    }
}

impl Engine {
    /// From now on the client sets the pace, or no longer does: then all that it has held goes on.
    ///
    /// # Errors
    /// [`EngineError::Pace`], [`EngineError::NoSuchClient`].
    pub(crate) fn set_pace(&mut self, client: ClientId, held: bool) -> Result<(), EngineError> {
        self.step(|engine| {
            if !engine.io.pace.allowed {
                return Err(EngineError::Pace);
            }
            let row = engine.client_mut(client).ok_or(EngineError::NoSuchClient)?;
            for userfault in [row.userfaults.shared.as_mut(), row.userfaults.private.as_mut()]
                .into_iter()
                .flatten()
            {
                if let Some(userfault) = userfault.get_mut() {
                    userfault.let_sleep(held);
                }
            }
            engine.io.pace.held = held;
            if !held {
                engine
                    .io
                    .pace
                    .answered
                    .iter_mut()
                    .for_each(|answered| answered.goes = true);
                let told = std::mem::take(&mut engine.io.pace.told);
                let ended = |record: &u32| {
                    told.contains(record) || engine.io.store.due(engine.step.now, Slot::new(*record)) != Due::WhenTold
                };
                engine
                    .transfers
                    .ready
                    .extend(engine.transfers.records().into_iter().filter(ended));
                for read in std::mem::take(&mut engine.io.pace.reads) {
                    engine.read_now(read);
                }
            }
            Ok(())
        })
    }

    /// How a task's thread stands, and how many orders its client has not carried out.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub(crate) fn standing(&self, client: ClientId, task: TaskKey) -> Result<(Standing, u32), EngineError> {
        let row = self.task(client, task)?;
        let answered = self.io.pace.answered.iter().find(|answered| answered.task == task);
        let standing = match answered {
            Some(Answered { goes: true, .. }) => Standing::Runs,
            Some(_) => Standing::Answered,
            None if row.lanes.iter().any(|lane| lane.pending.is_some()) => Standing::Waits,
            None => Standing::Runs,
        };
        Ok((standing, self.orders(client)))
    }

    /// Orders that a client has not carried out.
    pub(crate) fn orders(&self, client: ClientId) -> u32 {
        self.client(client).map_or(0, |client| client.outbox.count())
    }

    /// Lets the thread of a task go on whose fault is over.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`]; [`EngineError::Pace`] where it does not wait for that.
    pub(crate) fn let_go(&mut self, client: ClientId, task: TaskKey) -> Result<(), EngineError> {
        self.step(|engine| {
            engine.task(client, task)?;
            engine.io.pace.answered_of(task).ok_or(EngineError::Pace)?.goes = true;
            Ok(())
        })
    }

    /// Ends a transfer.
    ///
    /// # Errors
    /// [`EngineError::Pace`] where nobody sets the pace, or none such is under way, or has not ended at the device:
    /// then it may be asked for again.
    pub(crate) fn end_transfer(
        &mut self,
        object: ObjectKey,
        page: PageIndex,
        request: Request,
    ) -> Result<(), EngineError> {
        self.step(|engine| {
            if !engine.io.pace.held {
                return Err(EngineError::Pace);
            }
            if let Some(read) = engine.take_read(object, page).filter(|_| request == Request::Fill) {
                engine.read_now(read);
            } else {
                let record = engine.ended_record(object, page, request);
                engine.transfers.ready.push_back(record.ok_or(EngineError::Pace)?);
            }
            Ok(())
        })
    }

    fn take_read(&mut self, object: ObjectId, page: PageIndex) -> Option<HeldRead> {
        let mut reads = self.io.pace.reads.iter();
        let at = reads.position(|read| (read.page.object(), read.page.page()) == (object, page))?;
        Some(self.io.pace.reads.remove(at))
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
            let at = self.io.pace.told.iter().position(|told| *told == record)?;
            self.io.pace.told.swap_remove(at);
        }
        same.then_some(record)
    }

    /// A page of a file is wanted.
    pub(super) fn hold_read(&mut self, page: PageRef, source: FileSource) {
        let mut loan = self.loan();
        let cached = source.cache().is_some_and(|cache| cache.get(page, &mut loan));
        let got = if cached {
            Some(loan)
        } else {
            self.give_back(loan);
            None
        };
        self.io.pace.reads.push(HeldRead { page, source, got });
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
    pub(super) fn hold_back(&mut self, task: TaskKey, claim: Claim) {
        if self.io.pace.held {
            let goes = claim.since == self.step.now;
            self.io.pace.answered.push(Answered { task, claim, goes });
        }
    }

    /// Wakes the threads that may go on.
    pub(super) fn wake_those_that_go(&mut self) {
        if self.io.pace.answered.is_empty() {
            return;
        }
        let mut answered = std::mem::take(&mut self.io.pace.answered);
        answered.retain(|answered| {
            let Some(client) = self.client(answered.claim.client) else {
                return false;
            };
            let goes = answered.goes && client.outbox.count() == 0;
            if let Some(userfault) = client.userfault(answered.claim.which).filter(|_| goes) {
                wake(userfault, answered.claim.address);
            }
            !goes
        });
        self.io.pace.answered = answered;
    }
}
