//! What a pinned page pool is opened with.

use crate::error::PinningError;
use crate::units::{Duration, PageCount};

/// A factor of at least one millionth and at most one, exact in millionths: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// One.
    pub const ONE: Self = Self(Self::WHOLE);
    const WHOLE: u32 = 1_000_000;

    /// `millionths` of one; `None` for zero and for more than one.
    ///
    /// ```
    /// use freehold_core::pinning::Ratio;
    ///
    /// assert!(Ratio::from_millionths(900_000).is_some());
    /// assert!(Ratio::from_millionths(0).is_none());
    /// assert!(Ratio::from_millionths(1_000_001).is_none());
    /// ```
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > Self::WHOLE {
            None
        } else {
            Some(Self(millionths))
        }
    }

    /// In millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    const fn literal(millionths: u32) -> Self {
        assert!(millionths > 0 && millionths <= Self::WHOLE, "a factor in (0, 1]");
        Self(millionths)
    }

    /// `amount` times this, rounded down.
    pub(crate) fn of(self, amount: u64) -> u64 {
        let product = u128::from(amount) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// Which pages are pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinningPolicy {
    /// Every page from its fill on, as `mlockall` does; the capacity is not adjusted.
    All,
    /// Every page from its fill on, and fewer where that has proved to cost no deadline (`trial`).
    Freehold,
    /// As paper 001 says: what reclamation would demote, as many as the capacity.
    Adaptive,
}

/// Where Algorithm 2 puts what it unpins. The paper's text (section III.D) and its listing differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnpinnedGoTo {
    /// The text: a page found cold goes to the tail of the global inactive list and leaves next; the page taken because
    /// none was found goes to the tail of the global active list.
    Text,
    /// The listing: both go to the head of the global inactive list.
    Listing,
}

/// One soft-real-time task: what it may use, and the paper's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinningSettings {
    /// Which pages.
    pub policy: PinningPolicy,
    /// `T_s`: CPU time in one period; positive, and not over the period.
    pub budget: Duration,
    /// `I_s`.
    pub period: Duration,
    /// The capacity at first; of [`PinningPolicy::Freehold`] it is the highest.
    pub initial_capacity: PageCount,
    /// The most pages that it may pin, whatever its capacity would be.
    pub highest_capacity: PageCount,
    /// `α`: a job that met its deadline lets the pool shrink if it ran less than this part of its budget.
    pub alpha: Ratio,
    /// `β`: what is left of the capacity then. The paper calls it small and gives no value.
    pub beta: Ratio,
    /// `γ`: the pool's active list may be this many times as long as its inactive list; at least 1.
    pub gamma: u32,
    /// `λ`: what is left of a swap budget that was not used.
    pub lambda: Ratio,
    /// Text or listing.
    pub unpinned_go_to: UnpinnedGoTo,
    /// Whether Algorithm 3 adjusts the budget; without it, the paper's "w/o sb".
    pub swap_budget: bool,
    /// What admission leaves: the swap budget never goes above it.
    pub highest_swap_budget: Duration,
    /// Beyond the paper: only the memory's share of a miss's delay grows the pool.
    pub memory_share: bool,
    /// Beyond the paper: the pool shrinks in single steps, some jobs apart, and where a job leaves enough for the
    /// swap-ins that this may cause; a miss takes them back.
    pub steady: bool,
    /// Beyond the paper: so many pages are brought back before each release, at most. What jobs faulted on is
    /// remembered for [`next_to_restore`](crate::memory::Memory::next_to_restore) unless this is zero.
    pub restore: PageCount,
}

impl PinningSettings {
    /// What [`freehold`](Self::freehold) brings back before a release, at most: as many pages as are remembered of
    /// those that left.
    pub const FREEHOLD_RESTORES: PageCount = PageCount::new(1_024);

    /// The paper's parameters: 7000 pages, α = 0.9, γ = 4, λ = 0.8, as its text says, no highest capacity and no
    /// extension. β is ours: 0.98.
    #[must_use]
    pub const fn paper(budget: Duration, period: Duration) -> Self {
        Self {
            policy: PinningPolicy::Adaptive,
            budget,
            period,
            initial_capacity: PageCount::new(7000),
            highest_capacity: PageCount::new(u32::MAX),
            alpha: Ratio::literal(900_000),
            beta: Ratio::literal(980_000),
            gamma: 4,
            lambda: Ratio::literal(800_000),
            unpinned_go_to: UnpinnedGoTo::Text,
            swap_budget: true,
            highest_swap_budget: Duration::new(period.get().saturating_sub(budget.get())),
            memory_share: false,
            steady: false,
            restore: PageCount::ZERO,
        }
    }

    /// Begins as [`PinningPolicy::All`] does; only the memory's share of a miss's delay makes the pool grow.
    #[must_use]
    pub const fn freehold(budget: Duration, period: Duration) -> Self {
        Self {
            policy: PinningPolicy::Freehold,
            memory_share: true,
            restore: Self::FREEHOLD_RESTORES,
            ..Self::paper(budget, period)
        }
    }
}

impl PinningSettings {
    /// Checks what no type does.
    ///
    /// # Errors
    /// [`PinningError::BadBudget`], [`PinningError::BadSwapBudget`], [`PinningError::BadGamma`].
    pub fn check(&self) -> Result<(), PinningError> {
        if self.budget.is_zero() || self.budget > self.period {
            return Err(PinningError::BadBudget);
        }
        if self.highest_swap_budget > self.period.saturating_sub(self.budget) {
            return Err(PinningError::BadSwapBudget);
        }
        if self.gamma == 0 {
            return Err(PinningError::BadGamma);
        }
        Ok(())
    }

    /// Whether pages are brought back before releases.
    #[must_use]
    pub const fn restores(&self) -> bool {
        !self.restore.is_zero()
    }

    /// Whether reference bits of all pages are cleared before frames are needed, so that what restores knows who is
    /// used.
    pub(crate) fn clears_early(&self) -> bool {
        self.restores() && self.policy == PinningPolicy::Adaptive
    }
}

/// What is known of a job that has ended, or whose period has. Times are the job's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReport {
    /// `M`: it finished after its deadline, or is unfinished past it.
    pub missed: bool,
    /// `Q`: CPU time charged to it.
    pub running: Duration,
    /// `T̂`: what was left of its budget and swap budget.
    pub remaining: Duration,
    /// `N_swap`: pages it had read back from a store.
    pub swap_ins: u32,
    /// `K_swap`: CPU time charged to it in the swap-in path; spinning for the store is.
    pub swap_time: Duration,
    /// Time between these faults and their ends, asleep or not.
    pub swap_delay: Duration,
    /// Of a miss: what delayed it, all together (CPU, store, fault service, locks).
    pub delay: Duration,
    /// Of this, store and fault service.
    pub memory_delay: Duration,
    /// From finish to deadline; zero for a miss.
    pub slack: Duration,
}

/// Which rule of Algorithm 1 applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapacityRule {
    /// Missed, and pages were swapped in: grown by their number.
    Grown,
    /// The same, as far as the highest capacity lets it.
    AtLimit,
    /// Met with time to spare: shrunk by β.
    Shrunk,
    /// Neither.
    #[default]
    Held,
    /// Extension: missed and swapped in, but memory had no part in the delay.
    NotMemory,
    /// Extension: it is too early to shrink, or the job left too little for what that may cost.
    Steady,
}

impl CapacityRule {
    /// What documents and logs call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grown => "grown",
            Self::AtLimit => "at-limit",
            Self::Shrunk => "shrunk",
            Self::Held => "held",
            Self::NotMemory => "not-memory",
            Self::Steady => "steady",
        }
    }
}

/// Which rule of Algorithm 3 applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwapBudgetRule {
    /// Missed with the budget used up: raised by the time that swap-ins took of it.
    Raised,
    /// The same, as far as admission leaves room.
    AtLimit,
    /// Met with budget left over: lowered by λ.
    Lowered,
    /// Neither.
    #[default]
    Held,
    /// This pool has none.
    Off,
}

impl SwapBudgetRule {
    /// What documents and logs call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::AtLimit => "at-limit",
            Self::Lowered => "lowered",
            Self::Held => "held",
            Self::Off => "off",
        }
    }
}

/// What was decided at the end of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The capacity from now on.
    pub capacity: PageCount,
    /// Why.
    pub capacity_rule: CapacityRule,
    /// The swap budget from the next period on.
    pub swap_budget: Duration,
    /// Why.
    pub swap_budget_rule: SwapBudgetRule,
}

/// A pinned page pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedPoolView {
    /// The most pages it may pin.
    pub capacity: PageCount,
    /// Pinned pages that are mapped.
    pub active: PageCount,
    /// Pinned pages that were unmapped to learn whether they are still used.
    pub inactive: PageCount,
    /// The most pages pinned at a time so far.
    pub peak: PageCount,
    /// `ε` is one half to this power.
    pub epsilon_halvings: u32,
    /// `t`.
    pub swap_budget: Duration,
    /// Pages ever pinned.
    pub pinned: u64,
    /// Pages ever unpinned.
    pub unpinned: u64,
    /// Pages that were not pinned because the pool of frames must not be pinned whole.
    pub refused: u64,
}
