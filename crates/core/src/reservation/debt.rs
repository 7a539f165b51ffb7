//! Frames that come to the pool, and the reservations to which the pool owes them (`none`).

use crate::effect::FaultFailure;
use crate::frames::Frames;
use crate::index::HolderIndex;
use crate::memory::Memory;

impl Memory {
    /// Frames return to the pool; who waits for them is served before the step ends.
    pub(crate) fn give_pool(&mut self, frames: Frames) {
        self.accounts[0].held.free.put(frames);
        self.call_for_service(HolderIndex::POOL);
    }

    /// The pool owes a reservation frames, for pages that another's eviction took from it (only under `none`).
    pub(crate) fn owe(&mut self, holder: HolderIndex, frames: u32) {
        if !self.policy(holder).is_promised() || self.account_of(holder).has_ended() {
            return;
        }
        self.account(holder).unmanaged.owed += frames;
        self.credit.owed += frames;
        self.credit.debtors.push(holder);
        self.call_for_service(HolderIndex::POOL);
    }

    /// Pays debts, oldest first, as far as the pool has frames. They outrank borrowing and tasks without a reservation:
    /// what was lent is taken back for them, and then the pool's own pages are evicted.
    pub(crate) fn pay_debts(&mut self) {
        // A page that has just failed to be written back is not tried again for a debt that nobody waits for.
        let reclaims = !self.step.store_failed || self.waiting_debtor().is_some();
        while let Some(holder) = self.credit.debtors.first() {
            let owed = self.account_of(holder).unmanaged.owed;
            let supply = if reclaims {
                self.pool_supply(owed)
            } else {
                self.pool().held.free.len()
            };
            let paid = owed.min(supply);
            let frames = self.accounts[0].held.free.take(paid);
            let account = self.account(holder);
            account.held.free.put(frames);
            account.unmanaged.owed -= paid;
            self.credit.owed -= paid;
            if paid > 0 {
                self.call_for_service(holder);
            }
            if self.account_of(holder).unmanaged.owed > 0 {
                break;
            }
            self.credit.debtors.pop();
        }
        if reclaims {
            self.reclaim_for_debts();
        }
    }

    /// Evicts pages of the pool until what is owed is on its way.
    fn reclaim_for_debts(&mut self) {
        while self.pool().leaving + self.credit.loans.returning() < self.credit.owed {
            if !self.room_for_batch() {
                self.call_for_service(HolderIndex::POOL);
                return;
            }
            if self.pool().lists.listed_pages() + self.pinned.adaptive == 0 {
                return;
            }
            self.evict_batch(HolderIndex::POOL);
        }
    }

    /// The first reservation whose claims can be served by what it is owed only.
    fn waiting_debtor(&self) -> Option<HolderIndex> {
        self.credit.debtors.iter().find(|holder| {
            let account = self.account_of(*holder);
            !account.claims.is_empty() && account.held.free.is_empty() && account.held.in_flight.is_empty()
        })
    }

    /// A page that was to pay a debt could not be written back: the oldest claim that counted on it is refused.
    pub(crate) fn refuse_debtor(&mut self) {
        if let Some(holder) = self.waiting_debtor() {
            self.refuse_first_claim(holder, FaultFailure::WriteBack);
        }
    }

    /// A reservation that ends is owed nothing.
    pub(crate) fn cancel_debt(&mut self, holder: HolderIndex) {
        self.credit.owed -= self.account_of(holder).unmanaged.owed;
        self.account(holder).unmanaged.owed = 0;
        if self.credit.debtors.contains(holder) {
            self.credit.debtors.remove(holder);
            if !self.credit.debtors.is_empty() {
                self.call_for_service(HolderIndex::POOL);
            }
        }
    }

    /// Frames that the pool can hand out now, up to `wanted`: free ones, and as many as can be taken back at once of
    /// what it lent.
    pub(crate) fn pool_supply(&mut self, wanted: u32) -> u32 {
        let missing = wanted.saturating_sub(self.pool().held.free.len());
        if missing > 0 && self.room_for_batch() {
            self.take_back(missing);
            if !self.room_for_batch() {
                self.call_for_service(HolderIndex::POOL);
            }
        }
        self.pool().held.free.len().min(wanted)
    }
}
