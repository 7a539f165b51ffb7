//! The account of one holder of frames: a reservation, or the pool with its global lists.

use crate::frame::Frames;
use crate::id::ReservationId;
use crate::index::{HolderIndex, TaskIndex};
use crate::limits::ReservationKind;
use crate::list::List;
use crate::units::{FrameCount, PageCount};
use crate::view::ReservationView;

/// A lock that is bringing its pages in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockProgress {
    /// The next page to lock, counted through all objects.
    pub(crate) next: u32,
    /// One past the last.
    pub(crate) end: u32,
}

/// Lists, frames and claims of one holder.
///
/// For a reservation two laws tie these together (contract, law 1):
/// active + inactive + locked + free + in flight + owed = capacity + borrowed, and
/// held = owned + free + in flight + conserved = capacity + borrowed − returned − unpaid − owed.
#[derive(Debug)]
pub(crate) struct Account {
    /// The reservation's name; none for the pool.
    pub(crate) id: Option<ReservationId>,
    pub(crate) kind: ReservationKind,
    pub(crate) capacity: u32,
    /// Free for the next fault; of the pool: held by nobody.
    pub(crate) free: Frames,
    /// Set aside for pages on their way in, or under pages on their way out.
    pub(crate) in_flight: Frames,
    /// Under pages that this holder owns.
    pub(crate) owned: Frames,
    /// The conserved-page list: one for each foreign page mapped under Shared-Page Conservation.
    pub(crate) conserved: Frames,
    pub(crate) active: List,
    /// Of the pool: the half of its inactive list whose pages are mapped (see `reclaim::global_lists`).
    pub(crate) young: List,
    pub(crate) inactive: List,
    pub(crate) locked: List,
    /// Entries of the active list whose page is not there yet.
    pub(crate) unsettled_active: u32,
    /// The same of the young list.
    pub(crate) unsettled_young: u32,
    /// The same of the locked list.
    pub(crate) unsettled_locked: u32,
    /// Of the frames in flight, those that come free here when an evicted page is gone.
    pub(crate) leaving: u32,
    /// Frames that the pool owes for pages taken by another's eviction (only under `none`).
    pub(crate) owed: u32,
    /// Frames borrowed from the pool (firm), those being taken back included until they are back.
    pub(crate) borrowed: u32,
    /// Foreign pages mapped under `none`: for each, one frame was returned to the pool.
    pub(crate) returned: u32,
    /// Locked pages that another locker pays.
    pub(crate) unpaid: u32,
    /// Pages that programs may lock for themselves, as was admitted, and those that they do lock.
    pub(crate) program_locks: u32,
    pub(crate) self_paid: u32,
    pub(crate) peak: u32,
    /// Tasks whose fault waits for a frame, oldest first.
    pub(crate) first_claim: TaskIndex,
    pub(crate) last_claim: TaskIndex,
    pub(crate) claims: u32,
    pub(crate) lock: Option<LockProgress>,
    /// The reservation has ended; frames in flight go to the pool as they come back.
    pub(crate) closing: bool,
    /// It has ended, and pages are still to be taken off its lists.
    pub(crate) parting: bool,
    /// Links of the queue of holders whose claims are to be looked at again.
    pub(crate) next_in_service: HolderIndex,
    pub(crate) in_service: bool,
    /// Links of the queue of reservations that the pool owes frames.
    pub(crate) next_owed: HolderIndex,
    pub(crate) in_owed: bool,
    /// When it last borrowed, as a running number.
    pub(crate) borrowed_at: u64,
    /// Frames in flight that go back to the pool when the page above them is gone.
    pub(crate) returning: u32,
    /// Pages ever evicted because their frames were taken back.
    pub(crate) taken_back: u64,
    /// Pages in a row that could not leave for this holder, because something outside keeps them.
    pub(crate) kept: u32,
}

impl Account {
    pub(crate) fn new(id: Option<ReservationId>, kind: ReservationKind, capacity: u32) -> Self {
        Self {
            id,
            kind,
            capacity,
            free: Frames::none(),
            in_flight: Frames::none(),
            owned: Frames::none(),
            conserved: Frames::none(),
            active: List::EMPTY,
            young: List::EMPTY,
            inactive: List::EMPTY,
            locked: List::EMPTY,
            unsettled_active: 0,
            unsettled_young: 0,
            unsettled_locked: 0,
            leaving: 0,
            owed: 0,
            borrowed: 0,
            returned: 0,
            unpaid: 0,
            program_locks: 0,
            self_paid: 0,
            peak: 0,
            first_claim: TaskIndex::NONE,
            last_claim: TaskIndex::NONE,
            claims: 0,
            lock: None,
            closing: false,
            parting: false,
            next_in_service: HolderIndex::NONE,
            in_service: false,
            next_owed: HolderIndex::NONE,
            in_owed: false,
            borrowed_at: 0,
            returning: 0,
            taken_back: 0,
            kept: 0,
        }
    }

    /// Pages on the active list that are there.
    pub(crate) const fn active_pages(&self) -> u32 {
        self.active.len() - self.unsettled_active
    }

    /// Pages on the young half of the inactive list that are there.
    pub(crate) const fn young_pages(&self) -> u32 {
        self.young.len() - self.unsettled_young
    }

    /// The whole inactive list, what is on its way in included.
    pub(crate) const fn unused(&self) -> u32 {
        self.young.len() + self.inactive.len()
    }

    /// Pages on the replacement lists that are there.
    pub(crate) const fn listed_pages(&self) -> u32 {
        self.active_pages() + self.young_pages() + self.inactive.len()
    }

    /// Pages locked that are there.
    pub(crate) const fn locked_pages(&self) -> u32 {
        self.locked.len() - self.unsettled_locked
    }

    /// Whether there is anything to take back from it: a free frame that no claim waits for, or a page that is there.
    pub(crate) const fn can_give(&self) -> bool {
        (self.claims == 0 && !self.free.is_empty()) || self.active_pages() > 0 || self.inactive.len() > 0
    }

    /// Frames held: what this reservation really takes from the pool.
    pub(crate) const fn held(&self) -> u32 {
        self.owned.len() + self.free.len() + self.in_flight.len() + self.conserved.len()
    }

    /// Frames of the pool that nobody else can be promised.
    pub(crate) const fn committed(&self) -> u32 {
        self.capacity.saturating_sub(self.unpaid)
    }

    /// Frames that claims can count on without an eviction: free, or coming free, and not claimed yet.
    pub(crate) const fn uncommitted_supply(&self) -> i64 {
        self.free.len() as i64 + self.leaving as i64 - self.claims as i64
    }

    pub(crate) fn view(&self) -> ReservationView {
        ReservationView {
            capacity: FrameCount::new(self.capacity),
            active: PageCount::new(self.active_pages()),
            inactive: PageCount::new(self.inactive.len()),
            locked: PageCount::new(self.locked_pages()),
            free: self.free.count(),
            in_flight: self.in_flight.count(),
            owed: FrameCount::new(self.owed),
            borrowed: FrameCount::new(self.borrowed),
            taken_back: self.taken_back,
            owned: self.owned.count(),
            conserved: self.conserved.count(),
            held: FrameCount::new(self.held()),
            peak: FrameCount::new(self.peak.max(self.held())),
        }
    }
}
