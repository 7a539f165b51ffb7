//! How a task without a reservation is protected: the words of `pinning` and the options of Adaptive Page Pinning.

use freehold_core::pinning::PinningSettings;
use freehold_core::units::{ByteLen, Duration, PageCount};
use serde::{Deserialize, Serialize};

/// One, in the millionths in which ratios are kept.
pub const MILLION: u32 = 1_000_000;

/// Pages brought back before a release at most, by the preset `freehold`.
pub const FREEHOLD_RESTORES: u32 = PinningSettings::FREEHOLD_RESTORES.get();

/// How the pages of a task without a reservation are protected from reclamation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pinning {
    /// Not at all: the global lists only, as Linux.
    #[default]
    None,
    /// Every page that reclamation would demote is pinned.
    All,
    /// A pinned page pool of adaptive capacity, by one of the [`Preset`]s, and a swap budget.
    App,
    /// Adaptive Page Pinning without the swap budget.
    AppNoBudget,
}

impl Pinning {
    /// All of them, in the order in which messages list them.
    pub const ALL: [Self; 4] = [Self::None, Self::All, Self::App, Self::AppNoBudget];

    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::All => "all",
            Self::App => "app",
            Self::AppNoBudget => "app-no-budget",
        }
    }

    /// Whether the task has a pinned page pool.
    #[must_use]
    pub const fn pins(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether the pool's capacity adapts, so that `[task.app]` means something.
    #[must_use]
    pub const fn adapts(self) -> bool {
        matches!(self, Self::App | Self::AppNoBudget)
    }
}

/// Which rules an adaptive pool follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// It begins as `all` does, and lets go of pages that have proved to cost no deadline.
    #[default]
    Freehold,
    /// Algorithms 1 and 2 of paper 001.
    Paper,
}

impl Preset {
    /// Both, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Freehold, Self::Paper];

    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freehold => "freehold",
            Self::Paper => "paper",
        }
    }
}

/// Where window-based unpinning (Algorithm 2 of paper 001) puts the pages it unpins: its text and its listing disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unpinned {
    /// The tail of the global inactive list, and for the fallback page the tail of the global active list.
    #[default]
    Text,
    /// The head of the global inactive list.
    Listing,
}

impl Unpinned {
    /// Where they go if nothing is said: as the text says, but not where pages are restored, which would have to be
    /// brought back at once.
    #[must_use]
    pub const fn beside(restore: u32) -> Self {
        if restore == 0 { Self::Text } else { Self::Listing }
    }

    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Listing => "listing",
        }
    }
}

/// `[task.app]` as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppSpec {
    /// Whose rules. All keys but λ belong to the paper's.
    pub preset: Preset,
    /// Initial capacity of the pinned page pool; a multiple of 4 KiB, not zero.
    pub capacity: ByteLen,
    /// α of Algorithm 1: a job that met its deadline shrinks the pool if it ran for less than α of the budget. Above 0,
    /// at most 1.
    pub alpha: f64,
    /// β, the factor by which Algorithm 1 shrinks; above 0, at most 1.
    pub beta: f64,
    /// γ of Algorithm 2: the pool's active list is at most γ times as long as its inactive list; not zero.
    pub gamma: u32,
    /// λ, the factor by which Algorithm 3 lowers the swap budget; above 0, at most 1.
    pub lambda: f64,
    /// Where unpinned pages go.
    pub unpinned: Unpinned,
    /// Only the memory share of a late job's delay grows the pool. Off is the paper's algorithm.
    pub memory_share: bool,
    /// Shrink in single steps that a miss takes back. Off is the paper's algorithm.
    pub steady: bool,
    /// Pages brought back in before each release, at most; 0 is off.
    pub restore: u32,
}

impl Default for AppSpec {
    /// The preset `freehold`; for the other one the paper's values (7000 pages, α = 0.9, β = 0.98, γ = 4, λ = 0.8),
    /// every extension off.
    fn default() -> Self {
        Self {
            preset: Preset::Freehold,
            capacity: ByteLen::new(28_000 << 10),
            alpha: 0.9,
            beta: 0.98,
            gamma: 4,
            lambda: 0.8,
            unpinned: Unpinned::Text,
            memory_share: false,
            steady: false,
            restore: 0,
        }
    }
}

/// `[task.app]` as the engines use it; ratios in millionths, 1 to [`MILLION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppSettings {
    /// Whose rules.
    pub preset: Preset,
    /// Initial capacity of the pinned page pool; not zero. It may be larger than the pool.
    pub capacity: PageCount,
    /// α.
    pub alpha: u32,
    /// β.
    pub beta: u32,
    /// γ; not zero.
    pub gamma: u32,
    /// λ.
    pub lambda: u32,
    /// Where unpinned pages go.
    pub unpinned: Unpinned,
    /// Only the memory share of a late job's delay grows the pool.
    pub memory_share: bool,
    /// Shrink in single steps that a miss takes back.
    pub steady: bool,
    /// Pages brought back in before each release, at most; 0 is off.
    pub restore: u32,
    /// What CPU admission leaves for the task's swap budget, whatever the others use of theirs; zero without `app`.
    pub highest_swap_budget: Duration,
}
