//! What came of it.

use freehold_core::transient::ComponentView;
use freehold_scenario::results::Response;

/// One event that both a simulation and real threads can be asked about, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A thread takes a free unit of a cache.
    Take {
        /// The thread.
        thread: usize,
        /// The cache: stacks and buffers of component `n` are `2n` and `2n + 1`.
        cache: usize,
        /// The unit.
        unit: usize,
    },
    /// A thread begins to wait for a unit.
    Wait {
        /// The thread.
        thread: usize,
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
    },
    /// A thread releases a unit, which goes to a waiter.
    HandOver {
        /// The thread.
        thread: usize,
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
        /// Who has it then.
        to: usize,
    },
    /// The policy takes an unused unit away.
    Withdraw {
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
    },
    /// The policy has a unit go when it is released, or no longer so.
    Relinquish {
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
        /// Whether it is to go.
        wanted: bool,
    },
    /// The policy brings a unit.
    Give {
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
    },
    /// A thread releases a unit that nobody waits for.
    Free {
        /// The thread.
        thread: usize,
        /// The cache.
        cache: usize,
        /// The unit.
        unit: usize,
    },
}

/// What happened in one second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Jobs of real-time threads that ended.
    pub jobs: u64,
    /// Those that ended after their deadline.
    pub misses: u64,
    /// The latest, in nanoseconds after its deadline.
    pub tardiness: u64,
    /// Units in caches at its end.
    pub units: u32,
}

/// One cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComponentReport {
    /// What the policy knows of it.
    pub view: ComponentView,
    /// Requests that a holder's release ended.
    pub handed_over: u64,
}

/// One thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReport {
    /// Jobs that ended.
    pub jobs: u64,
    /// Those that were late.
    pub misses: u64,
    /// How late in all, in nanoseconds.
    pub tardiness: u64,
    /// How long it waited for units in all, in nanoseconds.
    pub blocked: u64,
    /// How late the latest was, in nanoseconds.
    pub latest: u64,
    /// From releases to ends.
    pub response: Response,
}

/// A thread that waits for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitReport {
    /// The thread.
    pub thread: usize,
    /// The cache.
    pub cache: usize,
    /// Who has the unit.
    pub holder: Option<usize>,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransientOutcome {
    /// Each second.
    pub seconds: Vec<Second>,
    /// Each cache.
    pub caches: Vec<ComponentReport>,
    /// Each thread.
    pub threads: Vec<ThreadReport>,
    /// Runs of the policy, and units that it moved.
    pub runs: (u64, u64),
    /// Frames of units at the end, and at most.
    pub frames: u32,
    /// The most of them.
    pub peak: u32,
    /// Who waits at the end.
    pub waits: Vec<WaitReport>,
    /// Everything in order, where it was asked for.
    pub steps: Vec<Step>,
    /// What is broken; nothing, if all is well.
    pub broken: Vec<String>,
}

impl TransientOutcome {
    /// The mean over the seconds from `from` to before `to` of the latest job of each, in nanoseconds.
    #[must_use]
    pub fn mean_tardiness(&self, from: usize, to: usize) -> u64 {
        self.mean(from, to, |second| second.tardiness)
    }

    /// The mean number of misses in these seconds, in thousandths.
    #[must_use]
    pub fn mean_misses(&self, from: usize, to: usize) -> u64 {
        self.mean(from, to, |second| second.misses * 1000)
    }

    /// The mean number of units in these seconds.
    #[must_use]
    pub fn mean_units(&self, from: usize, to: usize) -> u64 {
        self.mean(from, to, |second| second.units.into())
    }

    fn mean(&self, from: usize, to: usize, of: impl Fn(&Second) -> u64) -> u64 {
        let window = self.seconds.get(from..to.min(self.seconds.len())).unwrap_or_default();
        window.iter().map(of).sum::<u64>() / (window.len() as u64).max(1)
    }
}
