//! The account of one holder of frames: a reservation, or the pool with its global lists.

use crate::fault::claim_queue::ClaimQueue;
use crate::frames::Frames;
use crate::frames::holder::HolderPolicy;
use crate::id::ReservationId;
use crate::pages::lists::Lists;
use crate::reservation::loans::Loans;
use crate::sharing::UNLOCKED_FRAMES;
use crate::sharing::locks::Locks;
use crate::units::{FrameCount, PageCount};
use crate::view::ReservationView;

/// How far the end of a reservation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It goes on.
    NotYet,
    /// It has ended, and pages are still to be taken off its lists.
    Parting,
    /// It has ended; frames in flight go to the pool as they come back.
    Closing,
}

/// A holder's frames that left the page lists.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) frames: Frames,
    /// Of these, frames that were asked back and have not come yet; counted among the loans that are returning as well.
    pub(crate) recalled: u32,
}

/// The frames that a holder has, by what they are for.
#[derive(Debug)]
pub(crate) struct Held {
    /// Free for the next fault; of the pool: held by nobody.
    pub(crate) free: Frames,
    /// Set aside for pages on their way in, or under pages on their way out.
    pub(crate) in_flight: Frames,
    /// Under pages that this holder owns.
    pub(crate) owned: Frames,
    /// The conserved-page list: one for each foreign page mapped under Shared-Page Conservation.
    pub(crate) conserved: Frames,
    /// Under nothing that is on the lists: somebody outside of the core uses them (see `memory::outside`).
    pub(crate) outside: Outside,
}

/// What sharing under `none` leaves a holder with.
#[derive(Debug)]
pub(crate) struct Unmanaged {
    /// Frames that the pool owes for pages taken by another's eviction.
    pub(crate) owed: u32,
    /// Foreign pages mapped: for each, one frame was returned to the pool.
    pub(crate) returned: u32,
}

/// Lists, frames and claims of one holder.
///
/// For a reservation two laws tie these together (contract, law 1):
/// active + inactive + locked + free + in flight + owed + outside = capacity + borrowed, and
/// held = owned + free + in flight + conserved + outside = capacity + borrowed − returned − unpaid − owed.
#[derive(Debug)]
pub(crate) struct Account {
    /// The reservation's name; none for the pool.
    pub(crate) id: Option<ReservationId>,
    pub(crate) policy: HolderPolicy,
    pub(crate) capacity: u32,
    pub(crate) held: Held,
    pub(crate) lists: Lists,
    /// Of the frames in flight, those that come free here when an evicted page is gone.
    pub(crate) leaving: u32,
    pub(crate) unmanaged: Unmanaged,
    /// Frames borrowed from the pool (firm).
    pub(crate) loans: Loans,
    /// Locked pages that another locker pays.
    pub(crate) unpaid: u32,
    pub(crate) peak: u32,
    /// Tasks whose fault waits for a frame.
    pub(crate) claims: ClaimQueue,
    /// Tasks that use its frames.
    pub(crate) tasks: u32,
    pub(crate) locks: Locks,
    pub(crate) ending: Ending,
    /// Pages in a row that could not leave for this holder, because something outside keeps them.
    pub(crate) kept: u32,
}

impl Account {
    pub(crate) fn new(id: Option<ReservationId>, policy: HolderPolicy, capacity: u32) -> Self {
        Self {
            id,
            policy,
            capacity,
            held: Held {
                free: Frames::none(),
                in_flight: Frames::none(),
                owned: Frames::none(),
                conserved: Frames::none(),
                outside: Outside {
                    frames: Frames::none(),
                    recalled: 0,
                },
            },
            lists: Lists::EMPTY,
            leaving: 0,
            unmanaged: Unmanaged { owed: 0, returned: 0 },
            loans: Loans::NONE,
            unpaid: 0,
            peak: 0,
            claims: ClaimQueue::EMPTY,
            tasks: 0,
            locks: Locks::NONE,
            ending: Ending::NotYet,
            kept: 0,
        }
    }

    /// Whether it has ended: nobody finds it, and what it still has goes to the pool.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending != Ending::NotYet
    }

    /// Whether there is anything to take back from it: a free frame that no claim waits for, a page that is there, or
    /// frames outside.
    pub(crate) const fn can_give(&self) -> bool {
        (self.claims.is_empty() && !self.held.free.is_empty())
            || self.lists.active_pages() > 0
            || self.lists.inactive().len() > 0
            || self.recallable() > 0
    }

    /// Frames outside that have not been asked back.
    pub(crate) const fn recallable(&self) -> u32 {
        self.held.outside.frames.len() - self.held.outside.recalled
    }

    /// Pages that are locked or may become so: those locked by programs as far as that was admitted, and what a lock is
    /// still to bring in.
    pub(crate) const fn lockable_pages(&self) -> u32 {
        let locks = &self.locks;
        self.lists.locked().len() - locks.by_programs() + locks.admitted() + locks.coming()
    }

    /// Frames for its pages, once everything that is on its way back is gone.
    pub(crate) const fn left_for_pages(&self) -> u32 {
        (self.capacity + self.loans.borrowed() + self.held.outside.recalled)
            - (self.loans.returning() + self.held.outside.frames.len())
    }

    /// The capacity that it needs to lock so many pages more beside what it has outside of its own, and to keep 8
    /// frames unlocked (law 4).
    pub(crate) fn capacity_to_lock(&self, pages: u32) -> FrameCount {
        let own_outside = self.capacity.saturating_sub(self.left_for_pages());
        let locks = self.lockable_pages().saturating_add(pages);
        FrameCount::new(locks.saturating_add(UNLOCKED_FRAMES).saturating_add(own_outside))
    }

    /// Of its capacity what stays for its pages whatever leaves through the door: with tasks or locks, the locks and 8
    /// frames, as for the locks themselves (law 4).
    pub(crate) fn kept_for_pages(&self) -> u32 {
        if self.tasks == 0 && self.lockable_pages() == 0 {
            0
        } else {
            self.needed_for_pages()
        }
    }

    /// Whether what is outside leaves frames for the pages of a task.
    pub(crate) fn has_frames_for_a_task(&self) -> bool {
        !self.policy.is_promised() || self.needed_for_pages() <= self.left_for_pages()
    }

    fn needed_for_pages(&self) -> u32 {
        self.capacity.min(self.lockable_pages() + UNLOCKED_FRAMES)
    }

    /// Frames held: what this reservation really takes from the pool.
    pub(crate) const fn held(&self) -> u32 {
        let on_lists =
            self.held.owned.len() + self.held.free.len() + self.held.in_flight.len() + self.held.conserved.len();
        on_lists + self.held.outside.frames.len()
    }

    /// Frames of the pool that nobody else can be promised.
    pub(crate) const fn committed(&self) -> u32 {
        self.capacity.saturating_sub(self.unpaid)
    }

    /// Frames that claims can count on without an eviction: free, or coming free, and not claimed yet.
    pub(crate) const fn uncommitted_supply(&self) -> i64 {
        self.held.free.len() as i64 + self.leaving as i64 - self.claims.count() as i64
    }

    pub(crate) fn view(&self) -> ReservationView {
        ReservationView {
            capacity: FrameCount::new(self.capacity),
            active: PageCount::new(self.lists.active_pages()),
            inactive: PageCount::new(self.lists.inactive().len()),
            locked: PageCount::new(self.lists.locked_pages()),
            free: self.held.free.count(),
            in_flight: self.held.in_flight.count(),
            owed: FrameCount::new(self.unmanaged.owed),
            borrowed: FrameCount::new(self.loans.borrowed()),
            taken_back: self.loans.taken_back(),
            owned: self.held.owned.count(),
            conserved: self.held.conserved.count(),
            outside: self.held.outside.frames.count(),
            recalled: FrameCount::new(self.held.outside.recalled),
            held: FrameCount::new(self.held()),
            peak: FrameCount::new(self.peak.max(self.held())),
        }
    }
}
