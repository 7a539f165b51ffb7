//! One pinned page pool (PPP), and the table of them.

use crate::error::JobError;
use crate::id::PinnedPoolId;
use crate::index::{EntryIndex, PageNumber, PinnedIndex};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::list::List;
use crate::pinning::algorithm3;
use crate::pinning::capacity;
use crate::pinning::extensions::restore::Recent;
use crate::pinning::extensions::steady::Steady;
use crate::pinning::extensions::successors::Successors;
use crate::pinning::extensions::trial::Trial;
use crate::pinning::settings::{JobReport, Judgement, PinnedPoolView, PinningPolicy, PinningSettings};
use crate::slots::Slots;
use crate::units::{Duration, Instant, PageCount};

/// Pinned page pools at a time, at most: no more than there are tasks, nor than this.
const PINNED_POOLS: u16 = 32;
/// Frames of the pool that are never pinned, so that tasks without a guarantee can go on.
const UNPINNED_FRAMES: u32 = 64;

/// One soft-real-time task's pinned pages.
#[derive(Debug)]
pub(crate) struct PinnedPool {
    pub(crate) settings: PinningSettings,
    pub(crate) capacity: PageCount,
    pub(crate) active: List,
    pub(crate) inactive: List,
    /// `ε` is one half to this power.
    pub(crate) halvings: u32,
    pub(crate) swap_budget: Duration,
    pub(crate) steady: Steady,
    pub(crate) recent: Recent,
    pub(crate) trial: Trial,
    pub(crate) tasks: u32,
    pub(crate) peak: u32,
    pub(crate) pinned: u64,
    pub(crate) unpinned: u64,
    pub(crate) refused: u64,
}

impl PinnedPool {
    /// The exponent that `ε` begins with.
    pub(crate) const FIRST_HALVINGS: u32 = 10;

    pub(crate) fn new(settings: PinningSettings) -> Self {
        Self {
            settings,
            capacity: match settings.policy {
                PinningPolicy::Freehold => settings.highest_capacity,
                PinningPolicy::All | PinningPolicy::Adaptive => {
                    settings.initial_capacity.min(settings.highest_capacity)
                }
            },
            active: List::EMPTY,
            inactive: List::EMPTY,
            halvings: Self::FIRST_HALVINGS,
            swap_budget: Duration::ZERO,
            steady: Steady::default(),
            recent: Recent::default(),
            trial: Trial::default(),
            tasks: 0,
            peak: 0,
            pinned: 0,
            unpinned: 0,
            refused: 0,
        }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.active.len() + self.inactive.len()
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.settings.policy != PinningPolicy::All
    }

    /// Whether pages are tried before they leave.
    pub(crate) fn proves(&self) -> bool {
        self.settings.policy == PinningPolicy::Freehold
    }

    /// The list that a pinned entry with this place is on.
    fn list_mut(&mut self, place: Place) -> &mut List {
        if place == Place::PinnedActive {
            &mut self.active
        } else {
            &mut self.inactive
        }
    }

    fn view(&self) -> PinnedPoolView {
        PinnedPoolView {
            capacity: self.capacity,
            active: PageCount::new(self.active.len()),
            inactive: PageCount::new(self.inactive.len()),
            peak: PageCount::new(self.peak),
            epsilon_halvings: self.halvings,
            swap_budget: self.swap_budget,
            pinned: self.pinned,
            unpinned: self.unpinned,
            refused: self.refused,
        }
    }
}

/// All pinned page pools.
#[derive(Debug)]
pub(crate) struct PinnedPools {
    pub(crate) slots: Slots<PinnedPool>,
    /// Pages pinned by adaptive pools.
    pub(crate) adaptive: u32,
    /// Of those, by pools that try them: they compete with what comes back from the store.
    pub(crate) proving: u32,
    /// Pages pinned by pools that pin everything.
    pub(crate) all: u32,
    /// The pool that is looked at next where one must give pages up.
    pub(crate) next: u16,
    /// Frames that may be pinned in this batch; looked up once for each.
    pub(crate) room: u32,
    /// Pools that restore.
    pub(crate) restoring: u16,
    /// For them.
    pub(crate) successors: Successors,
    /// Pinned pages unmapped in this batch.
    pub(crate) balanced: u32,
}

impl PinnedPools {
    pub(crate) fn with_limits(limits: &Limits) -> Option<Self> {
        Some(Self {
            slots: Slots::with_capacity(limits.tasks.min(PINNED_POOLS))?,
            adaptive: 0,
            proving: 0,
            all: 0,
            next: 0,
            room: 0,
            restoring: 0,
            successors: Successors::for_pages(limits.pages.get())?,
            balanced: 0,
        })
    }

    pub(crate) fn get_mut(&mut self, index: PinnedIndex) -> Option<&mut PinnedPool> {
        self.slots.at_mut(index.slot())
    }

    fn count_mut(&mut self, adaptive: bool) -> &mut u32 {
        if adaptive { &mut self.adaptive } else { &mut self.all }
    }

    /// Pages pinned.
    pub(crate) const fn len(&self) -> u32 {
        self.adaptive + self.all
    }
}

impl Memory {
    /// A job has ended, or its period without it: judges how many pages to pin (Algorithm 1) and how much CPU time to
    /// add for swap-ins (Algorithm 3). To have the budget enforced is the caller's business. O(1).
    ///
    /// # Errors
    /// [`JobError::Stale`], [`JobError::Undrained`].
    pub fn handle_pinned_job_end(
        &mut self,
        now: Instant,
        id: PinnedPoolId,
        job: &JobReport,
    ) -> Result<Judgement, JobError> {
        if self.pinned.slots.get(id.index(), id.generation()).is_none() {
            return Err(JobError::Stale);
        }
        if !self.room_for_fact() {
            return Err(JobError::Undrained);
        }
        self.begin(Some(now));
        let judgement = self.judge(id, job);
        self.end();
        Ok(judgement)
    }

    fn judge(&mut self, id: PinnedPoolId, job: &JobReport) -> Judgement {
        let Some(pool) = self.pinned.slots.at_mut(id.index()) else {
            return Judgement::default();
        };
        let mut judgement = Judgement {
            capacity: pool.capacity,
            ..Judgement::default()
        };
        pool.steady.learn(job);
        pool.recent.job_ended();
        if pool.proves() {
            pool.trial.learn(job);
            (judgement.capacity, judgement.capacity_rule) = capacity::prove(pool, job);
            pool.capacity = judgement.capacity;
        } else if pool.is_adaptive() {
            (judgement.capacity, judgement.capacity_rule) = capacity::adjust(
                pool.capacity,
                PageCount::new(pool.len()),
                &pool.settings,
                job,
                &mut pool.steady,
            );
            pool.capacity = judgement.capacity;
        }
        let (budget, rule) = algorithm3::adjust(pool.swap_budget, &pool.settings, job);
        pool.swap_budget = budget;
        (judgement.swap_budget, judgement.swap_budget_rule) = (budget, rule);
        judgement
    }

    /// A pinned page pool at this moment. O(1).
    #[must_use]
    pub fn pinned_pool(&self, id: PinnedPoolId) -> Option<PinnedPoolView> {
        self.pinned.slots.get(id.index(), id.generation()).map(PinnedPool::view)
    }

    /// Pages pinned, by all pools together. O(1).
    #[must_use]
    pub const fn pinned_pages(&self) -> PageCount {
        PageCount::new(self.pinned.len())
    }

    /// The pool that a page would be pinned by.
    pub(crate) fn pinner(&self, page: PageNumber) -> PinnedIndex {
        self.object_of(page).pinner
    }

    /// Frames that may be pinned: those promised to nobody and not locked by programs, but for a few. O(reservations).
    pub(crate) fn find_room_to_pin(&mut self) {
        if self.pinned.slots.iter().next().is_some() {
            self.pinned.room = self
                .unreserved()
                .get()
                .saturating_sub(self.pool().locks.admitted())
                .saturating_sub(UNPINNED_FRAMES.min(self.frames.total / 4));
        }
    }

    /// A page that reclamation is about to take from the global active list, or, of a pool that pins everything, that
    /// has just arrived: pins it if it belongs to a soft-real-time task whose pool has room or can make some. It stays
    /// mapped (Figure 2, 4B). Amortised O(1): each page that Algorithm 2 looks at was pinned or touched since.
    pub(crate) fn pin(&mut self, index: EntryIndex) -> bool {
        let pinner = self.pinner(self.entries[index].page);
        let full = self.pinned.len() >= self.pinned.room;
        let Some(pool) = self.pinned.get_mut(pinner) else {
            return false;
        };
        let adaptive = pool.is_adaptive();
        if adaptive && (full || pool.len() >= pool.capacity.get()) {
            let idle = pool.proves() && pool.inactive.len() == 0;
            if pool.len() == 0 || pool.capacity.is_zero() || idle {
                pool.refused += 1;
                return false;
            }
            self.unpin_some(pinner);
        } else if !adaptive && (full || pool.len() >= pool.settings.highest_capacity.get()) {
            pool.refused += 1;
            return false;
        }
        self.entries[index].marks.clear(Marks::REFERENCED);
        self.relink(index, Place::PinnedActive);
        if let Some(pool) = self.pinned.get_mut(pinner) {
            pool.pinned += 1;
            pool.peak = pool.peak.max(pool.len());
        }
        true
    }

    /// Takes a pinned entry off the list of its pool.
    pub(crate) fn unlink_pinned(&mut self, index: EntryIndex) {
        let (page, place) = (self.entries[index].page, self.entries[index].place);
        let pinner = self.pinner(page);
        let Some(pool) = self.pinned.slots.at_mut(pinner.slot()) else {
            return;
        };
        pool.list_mut(place).remove(&mut self.entries, index);
        let adaptive = pool.is_adaptive();
        self.pinned.proving -= u32::from(pool.proves());
        *self.pinned.count_mut(adaptive) -= 1;
    }

    /// Puts an entry at the end of a list of its pool.
    pub(crate) fn link_pinned(&mut self, index: EntryIndex) {
        let (page, place) = (self.entries[index].page, self.entries[index].place);
        let pinner = self.pinner(page);
        let Some(pool) = self.pinned.slots.at_mut(pinner.slot()) else {
            return;
        };
        pool.list_mut(place).push_back(&mut self.entries, index);
        let adaptive = pool.is_adaptive();
        self.pinned.proving += u32::from(pool.proves());
        *self.pinned.count_mut(adaptive) += 1;
    }
}
