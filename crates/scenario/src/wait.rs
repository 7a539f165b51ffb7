//! How a task waits for the store: the word of `memory.swap.wait`.

use freehold_core::units::Duration;
use serde::{Deserialize, Serialize};

/// How a task waits for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreWait {
    /// Off the CPU: not charged to the task.
    Sleep,
    /// On the CPU: charged to the task's CPU time.
    Spin,
}

impl StoreWait {
    /// What is done where the scenario states nothing: below 50 us a task spins, for a timer takes longer.
    #[must_use]
    pub const fn of(latency: Duration) -> Self {
        if latency.get() < 50_000 {
            Self::Spin
        } else {
            Self::Sleep
        }
    }

    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
        }
    }
}
