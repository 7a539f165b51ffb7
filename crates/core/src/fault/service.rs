//! The queue of holders whose claims the core looks at again before the step ends, in the order of the calls.

use crate::effect::FaultFailure;
use crate::index::HolderIndex;
use crate::memory::Memory;

impl Memory {
    /// Puts a holder into the queue of those whose claims are looked at before the step ends.
    pub(crate) fn call_for_service(&mut self, holder: HolderIndex) {
        self.step.service.push(holder);
    }

    /// Serves everybody in the queue, as long as the effects have room.
    pub(crate) fn serve_all(&mut self) {
        while !self.step.service.is_empty() && self.room_for_batch() {
            if let Some(holder) = self.step.service.pop() {
                self.serve(holder);
            }
        }
    }

    fn serve(&mut self, holder: HolderIndex) {
        if self.policy(holder).is_reclaimed() {
            self.pay_debts();
            if self.admission_reclaim.frames > 0 {
                // Tasks without a reservation wait until it is over.
                self.reclaim_more();
                return;
            }
        }
        while !self.account_of(holder).claims.is_empty() {
            if !self.room_for_batch() {
                self.call_for_service(holder);
                break;
            }
            if self.account_of(holder).held.free.is_empty() {
                if self.account_of(holder).uncommitted_supply() < 0 {
                    self.make_room(holder, 0);
                }
                if self.account_of(holder).held.free.is_empty() {
                    self.look_for_hope(holder);
                    break;
                }
            }
            self.serve_first_claim(holder);
        }
        if self.account_of(holder).has_ended() {
            self.close(holder);
        } else if self.account_of(holder).loans.borrowed() > 0 && self.pool_is_short() {
            // What this one was given may be what the pool can take back.
            self.call_for_service(HolderIndex::POOL);
        }
    }

    /// Whether somebody waits for frames of the pool.
    pub(crate) fn pool_is_short(&self) -> bool {
        !self.pool().claims.is_empty() || !self.credit.debtors.is_empty() || self.admission_reclaim.frames > 0
    }

    /// Claims that nothing can ever serve are refused, so that nobody waits for ever.
    fn look_for_hope(&mut self, holder: HolderIndex) {
        let account = self.account_of(holder);
        let coming = !account.held.in_flight.is_empty() || account.unmanaged.owed > 0;
        let pool_hopes = account.policy.lends() && self.credit.loans.borrowed() > 0;
        if coming || pool_hopes || !self.room_for_batch() {
            if !self.room_for_batch() {
                self.call_for_service(holder);
            }
            if self.account_of(holder).unmanaged.owed > 0 {
                self.call_for_service(HolderIndex::POOL);
            }
            return;
        }
        // Only the pool can be without pages, without frames and without any on their way: everything is reserved.
        while !self.account_of(holder).claims.is_empty() {
            self.refuse_first_claim(holder, FaultFailure::NoFrame);
        }
    }
}
