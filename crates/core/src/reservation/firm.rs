//! Loans to firm reservations. The pool lends frames that nobody reserved, and takes them back under pressure, clean
//! pages before dirty ones and the latest first. The borrower waits for write-back, never the claimant.
//!
//! The bound: when `n` frames are wanted, that step begins a request for each missing frame, each for a page of its
//! own. Requests for which the step's effects have no room begin as others end. No request waits for the borrower. A
//! free frame, or one under a shared page, costs no request. A clean page costs a discard, and a dirty page one write
//! to the store. So `n` frames are back after at most `n` requests. A store that serves `p` requests at a time in `t`
//! each needs `t · ⌈n / p⌉`, once it has ended earlier transfers.
//!
//! Frames outside (see `memory::outside`) are recalled in one request, which their user answers within the engine's
//! bound. Pages go first. But the part of the frames outside beyond the reservation's own share is always recalled, so
//! that its locks and pages keep theirs.

use crate::effect::UnmapReason;
use crate::frames::Frames;
use crate::index::{EntryIndex, HolderIndex};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::Marks;
use crate::pages::page::PageMarks;

/// Pages looked at, latest first, for one that needs no write-back.
const CLEAN_SEARCH: u32 = 32;

/// How far one frame has come on its way back.
enum Taken {
    /// It is in the pool.
    Now,
    /// So many come when requests end.
    Begun(u32),
}

impl Memory {
    /// Lends this firm reservation one frame, if the pool has one that nobody has a better claim to.
    pub(crate) fn borrow(&mut self, holder: HolderIndex) -> bool {
        if !self.may_lend(1) {
            return false;
        }
        let frame = self.lend(holder, 1);
        self.account(holder).held.free.put(frame);
        true
    }

    /// Whether the pool has so many frames that nobody has a better claim to.
    pub(crate) fn may_lend(&self, frames: u32) -> bool {
        self.pool().held.free.len() >= frames && !self.pool_is_short()
    }

    /// Lends frames that the pool [may lend](Self::may_lend).
    pub(crate) fn lend(&mut self, holder: HolderIndex, frames: u32) -> Frames {
        let lent = self.accounts[0].held.free.take(frames);
        let account = &mut self.accounts[holder.slot()];
        self.credit.loans.lend(&mut account.loans, lent.len());
        lent
    }

    /// The firm reservation that borrowed last, of those that still have what they borrowed and can give it up now:
    /// one whose pages are all on their way in cannot, and keeps nobody from asking the one before. O(reservations).
    fn latest_borrower(&self) -> Option<HolderIndex> {
        if self.credit.loans.borrowed() == 0 {
            return None;
        }
        self.accounts
            .iter()
            .zip(0u16..)
            .filter(|(account, _)| account.loans.kept() > 0 && !account.has_ended() && account.can_give())
            .max_by_key(|(account, _)| account.loans.borrowed_at())
            .map(|(_, slot)| HolderIndex(slot))
    }

    /// Takes back up to `wanted` frames that were lent. Returns how many are in the pool now; for the others requests
    /// are begun, whose frames come later. O(reservations + 32) for each frame.
    pub(crate) fn take_back(&mut self, wanted: u32) -> u32 {
        // However often this is asked, no more is begun than is waited for.
        let demand = wanted.max(self.pool().claims.count() + self.credit.owed + self.admission_reclaim.frames);
        let (mut got, mut begun) = (0, 0);
        while got + begun < wanted {
            match self.take_some_back(wanted - got - begun, demand) {
                Some(Taken::Now) => got += 1,
                Some(Taken::Begun(frames)) => begun += frames,
                None => break,
            }
            if !self.room_for_batch() {
                break;
            }
        }
        got
    }

    /// Takes back one frame, or recalls up to `wanted` that are outside.
    fn take_some_back(&mut self, wanted: u32, demand: u32) -> Option<Taken> {
        let borrower = self.latest_borrower()?;
        let account = self.account_of(borrower);
        let spares = account.left_for_pages() > account.kept_for_pages();
        if spares && account.claims.is_empty() && !account.held.free.is_empty() {
            self.repay_free(borrower);
            return Some(Taken::Now);
        }
        let Some(index) = self.cheapest_page(borrower).filter(|_| spares) else {
            let recalled = self.recall_outside(
                borrower,
                wanted.min(demand.saturating_sub(self.credit.loans.returning())),
            );
            return (recalled > 0).then_some(Taken::Begun(recalled));
        };
        let at_once = self.is_shared(index) && self.regime(self.entries[index].page) == Regime::Conserve;
        if !at_once && self.credit.loans.returning() >= demand {
            return None;
        }
        self.evict(index, UnmapReason::TakenBack);
        self.account(borrower).loans.count_taken_back();
        if at_once {
            self.repay_free(borrower);
            return Some(Taken::Now);
        }
        self.entries[index].marks.set(Marks::TAKEN_BACK);
        let account = &mut self.accounts[borrower.slot()];
        account.leaving -= 1;
        self.credit.loans.begin_return(&mut account.loans, 1);
        Some(Taken::Begun(1))
    }

    fn repay_free(&mut self, borrower: HolderIndex) {
        let frame = self.account(borrower).held.free.take_one();
        self.repay(borrower, frame);
    }

    /// The latest page of the borrower whose frame can be had without write-back, else the latest of all.
    fn cheapest_page(&self, borrower: HolderIndex) -> Option<EntryIndex> {
        let account = self.account_of(borrower);
        let latest = |list: &crate::pages::list::List| {
            let mut next = list.last();
            core::iter::from_fn(move || {
                let index = next?;
                next = self.entries[index].previous.some();
                Some(index)
            })
        };
        let settled = |index: &EntryIndex| self.entries[*index].marks.has(Marks::SETTLED);
        let pages = || {
            latest(&account.lists.active())
                .chain(latest(&account.lists.inactive()))
                .filter(settled)
        };
        pages()
            .take(CLEAN_SEARCH as usize)
            .find(|&index| self.needs_no_write_back(index))
            .or_else(|| pages().next())
    }

    fn needs_no_write_back(&self, index: EntryIndex) -> bool {
        let page = self.entries[index].page;
        !self.pages[page].marks.has(PageMarks::DIRTY)
            || (self.is_shared(index) && self.regime(page) == Regime::Conserve)
    }

    /// Borrowed frames are back in the pool.
    pub(crate) fn repay(&mut self, borrower: HolderIndex, frames: Frames) {
        let account = &mut self.accounts[borrower.slot()];
        self.credit.loans.repay(&mut account.loans, frames.len());
        self.accounts[0].held.free.put(frames);
    }

    /// Whether the frame under this leaving page goes back to the pool that lent it.
    pub(crate) fn is_taken_back(&self, index: EntryIndex) -> bool {
        self.entries[index].marks.has(Marks::TAKEN_BACK)
    }
}
