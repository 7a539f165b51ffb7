//! Pages that a program has beyond its reservation, because the kernel keeps so many of them.
//!
//! One call may pin more pages than a reservation has (direct input and output, buffers that an io_uring has
//! registered, `process_vm_readv`). None of them can leave then. Once the core has tried all of them in vain, pages
//! that cannot leave are *lent*: they stay in the page table and leave the core's books, as if they had been evicted,
//! so that the fault that needs a frame has one. A lent page is nowhere but in the page table. As soon as pages leave
//! again lent ones are taken back into the books, by a fault of the server's own on each: the core finds a frame for
//! it as for any other, and the page is there already.
//!
//! What is lent is the program's own memory, as its unmanaged memory is: no other reservation has a frame less.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::faults::{FaultMessage, Which};
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::private_memory::Where;
use crate::engine::tasks::{Pending, WaitSlotName};
use freehold_core::fact::PageRef;
use freehold_core::id::{ObjectId, ReservationId};
use freehold_protocol::channel::Outcome;
use std::collections::BTreeSet;
use std::ops::Bound;

/// For so long pages that cannot leave are lent without trying all others. Nanoseconds.
const WINDOW: u64 = 50_000_000;
/// Until the first attempt to take a page back, and between attempts in vain at most. Nanoseconds.
const SOON: u64 = 10_000_000;
const LATE: u64 = 2_000_000_000;
/// Between two attempts of which the first went well. Nanoseconds.
const NEXT: u64 = 500_000;
/// Pages taken back together.
const TOGETHER: usize = 16;
/// Faults of which none found a page to lend, until one of them gets its error.
const IN_VAIN: u32 = 16;

/// What a client has beyond its reservation.
#[derive(Debug, Default)]
pub(crate) struct LentPages {
    pages: BTreeSet<(ObjectId, u32)>,
    /// The page that was tried last.
    tried: Option<(ObjectId, u32)>,
    /// When one is to be taken back next, and how long that was waited for; nanoseconds.
    due: u64,
    pause: u64,
    /// Pages ever lent.
    total: u64,
}

impl LentPages {
    pub(crate) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// A page has come to be lent, or is so no more.
    pub(crate) fn note(&mut self, object: ObjectId, page: u32, lent: bool) {
        if lent {
            self.pages.insert((object, page));
        } else {
            self.pages.remove(&(object, page));
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&mut self, object: ObjectId) {
        self.pages.retain(|(of, _)| *of != object);
    }

    /// Pages leave again, or one has been taken back.
    fn encourage(&mut self, now: u64, pause: u64) {
        self.pause = SOON;
        self.due = self.due.min(now.saturating_add(pause));
    }

    /// None could be taken back.
    fn discourage(&mut self, now: u64) {
        self.pause = self.pause.saturating_mul(2).clamp(SOON, LATE);
        self.due = now.saturating_add(self.pause);
    }

    /// The page to be tried next: each in turn.
    fn next(&mut self) -> Option<(ObjectId, u32)> {
        let behind = self.tried.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.pages.range((behind, Bound::Unbounded)).next();
        let found = found.or_else(|| self.pages.first()).copied();
        self.tried = found;
        found
    }
}

/// A holder of which no page could leave.
#[derive(Clone, Copy, Debug)]
struct Exhausted {
    /// The pool where it is none.
    holder: Option<ReservationId>,
    until: u64,
    /// Faults since a page was lent.
    in_vain: u32,
}

/// Whose pages are lent.
#[derive(Debug, Default)]
pub(in crate::engine) struct Lending {
    exhausted: Vec<Exhausted>,
    /// Clients that have lent pages.
    borrowers: BTreeSet<ClientId>,
}

impl Lending {
    /// A fault has found that no page of a holder can leave: whether it is worth another attempt.
    fn exhaust(&mut self, holder: Option<ReservationId>, now: u64) -> bool {
        self.exhausted.retain(|row| row.until > now);
        let until = now.saturating_add(WINDOW);
        let found = self.exhausted.iter_mut().find(|row| row.holder == holder);
        let Some(row) = found else {
            self.exhausted.push(Exhausted {
                holder,
                until,
                in_vain: 0,
            });
            return true;
        };
        row.until = until;
        row.in_vain += 1;
        row.in_vain <= IN_VAIN
    }

    fn is_exhausted(&self, holder: Option<ReservationId>, now: u64) -> bool {
        let mut rows = self.exhausted.iter();
        rows.any(|row| row.holder == holder && row.until > now)
    }

    fn has_lent(&mut self, holder: Option<ReservationId>) {
        let mut rows = self.exhausted.iter_mut();
        if let Some(row) = rows.find(|row| row.holder == holder) {
            row.in_vain = 0;
        }
    }
}

impl Engine {
    /// No page can leave for a fault: whether the fault is to be looked at again, with pages lent meanwhile.
    ///
    /// A reservation's pages are kept by its own programs. Of the pool's that is known only of who refuses to give any
    /// up himself: what others keep there is no reason to let him have more.
    pub(in crate::engine) fn lend_for(&mut self, name: WaitSlotName, pending: &Pending) -> bool {
        if self.io.lockstep.is_held() {
            return false;
        }
        let now = self.step.now.get();
        let fault = pending.fault;
        if self.place_at(pending.object, pending.page.get()) == Some(Where::Lent) {
            // It was to be taken back, and is still there.
            let installed = self.install(&fault, Where::Client, true);
            if let Some(client) = self.client_mut(fault.client) {
                client.memory.lent.discourage(now);
            }
            self.end_fault(name, fault, installed);
            return true;
        }
        let holder = self.holder_of(name.task);
        let refuses = || {
            self.client(fault.client)
                .is_some_and(|client| client.standing.refusing > 0)
        };
        if (holder.is_none() && !refuses()) || !self.backing.lending.exhaust(holder, now) {
            return false;
        }
        let wait_slot = self.tasks.at_mut(name.task.index());
        if let Some(wait_slot) = wait_slot.and_then(|task| task.wait_slots.get_mut(usize::from(name.wait_slot))) {
            wait_slot.pending = None;
        }
        self.step.again.push_back(fault);
        true
    }

    fn holder_of(&self, task: TaskKey) -> Option<ReservationId> {
        self.tasks.at(task.index())?.reservation
    }

    /// A page that was to leave is in its client's page table, and has to stay there: whether it is lent, and so has
    /// left the core's books.
    pub(super) fn lend_page(&mut self, page: PageRef) -> bool {
        let now = self.step.now.get();
        let Some(holder) = self.holder_of_page(page) else {
            return false;
        };
        if !self.backing.lending.is_exhausted(holder, now)
            || self.place_at(page.object(), page.page().get()) != Some(Where::Client)
        {
            return false;
        }
        self.backing.lending.has_lent(holder);
        self.set_private(page, Where::Lent);
        let Some(client) = self.private_client(page).and_then(|id| self.client_mut(id)) else {
            return true;
        };
        let (id, pid) = (client.id, client.process.pid);
        client.memory.lent.total += 1;
        if client.memory.lent.count() == 1 {
            client.memory.lent.pause = SOON;
            client.memory.lent.due = now.saturating_add(SOON);
            self.notice(format!(
                "input, output or the kernel keeps all pages that process {pid} may have: pages are lent to it beyond \
                 its reservation until others can leave"
            ));
        }
        self.backing.lending.borrowers.insert(id);
        true
    }

    /// In whose frames a private page is.
    fn holder_of_page(&self, page: PageRef) -> Option<Option<ReservationId>> {
        let address = self.address_of(page.object(), page.page().get())?;
        let client = self.client(self.private_client(page)?)?;
        let (_, segment) = client.segment(address)?;
        Some(self.holder_of(segment.task))
    }

    /// Notes whether a client gives up anything at all.
    pub(super) fn note_refusal(&mut self, id: ClientId, outcome: Outcome) {
        let given = matches!(outcome, Outcome::Done | Outcome::Dropped | Outcome::Zero);
        self.journal.tally.busy += u64::from(!given);
        let now = self.step.now.get();
        let Some(client) = self.client_mut(id) else { return };
        if given {
            client.standing.refusing = 0;
            self.lend_no_more(id);
        } else if outcome != Outcome::Absent && client.standing.refusing == 0 {
            client.standing.refusing = now;
        }
    }

    /// A page has left: others are tried again before any is lent.
    fn lend_no_more(&mut self, id: ClientId) {
        let now = self.step.now.get();
        if !self.backing.lending.exhausted.is_empty() {
            let tasks = self.client(id).map(|client| client.tasks.clone()).unwrap_or_default();
            let holders: Vec<_> = tasks.into_iter().map(|task| self.holder_of(task)).collect();
            self.backing
                .lending
                .exhausted
                .retain(|row| !holders.contains(&row.holder));
        }
        if let Some(client) = self.client_mut(id)
            && client.memory.lent.count() > 0
        {
            client.memory.lent.encourage(now, SOON);
        }
    }

    /// The core wants a page that is lent: it is there. Whether it was one.
    pub(in crate::engine) fn take_in_lent(&mut self, page: PageRef) -> bool {
        let lent = self.place_at(page.object(), page.page().get()) == Some(Where::Lent);
        if lent {
            self.set_private(page, Where::Client);
            let now = self.step.now.get();
            if let Some(client) = self.private_client(page).and_then(|id| self.client_mut(id)) {
                client.memory.lent.encourage(now, NEXT);
            }
        }
        lent
    }

    /// A page that the core wanted is there. One that was lent is in no store, whatever the core thinks.
    pub(in crate::engine) fn note_taken_in(&mut self, page: PageRef) {
        if self.place_at(page.object(), page.page().get()) == Some(Where::Client) {
            self.core.handle_written(page.object(), page.page());
        }
    }

    /// Has lent pages taken back into the books that are due.
    pub(in crate::engine) fn take_back_lent(&mut self) {
        let now = self.step.now.get();
        for id in self.backing.lending.borrowers.clone() {
            let Some(client) = self.client(id).filter(|client| client.memory.lent.count() > 0) else {
                self.backing.lending.borrowers.remove(&id);
                continue;
            };
            if client.memory.lent.due > now {
                continue;
            }
            if !can_give_back(client) || self.is_exhausted_for(client) {
                // Of one that was stopped for good nothing ever comes back.
                let wait = if client.has_agent() { SOON } else { LATE };
                if let Some(client) = self.client_mut(id) {
                    client.memory.lent.due = now.saturating_add(wait);
                }
                continue;
            }
            self.try_to_take_back(id);
        }
    }

    fn is_exhausted_for(&self, client: &Client) -> bool {
        let holders = client.tasks.iter().map(|task| self.holder_of(*task));
        let now = self.step.now.get();
        holders
            .into_iter()
            .any(|holder| self.backing.lending.is_exhausted(holder, now))
    }

    fn try_to_take_back(&mut self, id: ClientId) {
        let now = self.step.now.get();
        let Some(client) = self.client_mut(id) else { return };
        // After an attempt in vain a single one shows whether anything leaves again.
        let together = if client.memory.lent.pause > SOON { 1 } else { TOGETHER };
        client.memory.lent.due = now.saturating_add(client.memory.lent.pause.max(SOON));
        for _ in 0..together {
            let Some((object, page)) = self.client_mut(id).and_then(|client| client.memory.lent.next()) else {
                return;
            };
            self.fault_on_lent(id, object, page);
            self.settle();
        }
    }

    fn fault_on_lent(&mut self, id: ClientId, object: ObjectId, page: u32) {
        let Some(address) = self.address_of(object, page) else {
            return;
        };
        let segment = self.client(id).and_then(|client| client.segment(address));
        let Some((_, segment)) =
            segment.filter(|(start, segment)| segment.object == object && segment.page_at(*start, address) == page)
        else {
            return;
        };
        if self.idle_wait_slot(segment.task).is_none() {
            // Threads of the program come first.
            return;
        }
        self.fault(FaultMessage {
            client: id,
            which: Which::Private,
            address,
            write: true,
            protected: false,
            thread: 0,
            since: self.step.now,
        });
    }

    /// When to look at what is lent, if anything is.
    pub(in crate::engine) fn lent_due(&self) -> Option<u64> {
        let borrowers = self.backing.lending.borrowers.iter().filter_map(|id| self.client(*id));
        let lent = borrowers.filter(|client| client.memory.lent.count() > 0);
        lent.map(|client| client.memory.lent.due.max(self.step.now.get())).min()
    }
}

/// Whether the engine may fault in place of a client's threads.
fn can_give_back(client: &Client) -> bool {
    let family = &client.family;
    let settled =
        family.fork_children == 0 && family.fork_pending.is_over() && !family.relinquished.is_own_fork_child();
    client.has_agent() && settled
}

#[cfg(test)]
mod tests {
    use super::{IN_VAIN, LATE, Lending, LentPages, SOON, WINDOW};
    use crate::engine::objects::some_objects;

    #[test]
    fn lent_pages_are_tried_in_turn_and_less_often_where_that_is_in_vain() {
        let [one, two, _] = some_objects();
        let mut lent = LentPages::default();
        for (object, page) in [(one, 3), (one, 5), (two, 0)] {
            lent.note(object, page, true);
        }
        let tried: Vec<_> = (0..4).filter_map(|_| lent.next()).collect();
        assert_eq!(tried, [(one, 3), (one, 5), (two, 0), (one, 3)]);
        for _ in 0..20 {
            lent.discourage(7);
        }
        assert_eq!(lent.due, 7 + LATE);
        lent.encourage(7, SOON);
        assert_eq!((lent.due, lent.pause), (7 + SOON, SOON));
        lent.note(one, 3, false);
        lent.forget(two);
        assert_eq!((lent.count(), lent.next()), (1, Some((one, 5))));
        lent.forget(one);
        assert_eq!(lent.next(), None);
    }

    #[test]
    fn a_holder_is_exhausted_for_a_while_and_an_error_comes_where_nothing_can_be_lent() {
        let mut lending = Lending::default();
        assert!(lending.exhaust(None, 10) && lending.is_exhausted(None, 10 + WINDOW - 1));
        assert!(!lending.is_exhausted(None, 10 + WINDOW));
        let worth = (0..3 * IN_VAIN).filter(|_| lending.exhaust(None, 11)).count();
        assert_eq!(worth, IN_VAIN as usize);
        lending.has_lent(None);
        assert!(lending.exhaust(None, 12));
    }
}
