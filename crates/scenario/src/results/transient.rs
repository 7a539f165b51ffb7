//! Transient memory (paper 004): units of components, and who waits for whom.

use freehold_report::transient::{UnitState, Wait};
use serde::{Deserialize, Serialize};

/// The memory of all units, in frames, and what the policy did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransientResult {
    /// `tmem`, `min`, `max`, `static`, `fair`, `greedy` or `demand`.
    pub policy: String,
    /// Whether holders had the priorities of who waited for them.
    pub inheritance: bool,
    /// Frames that units may have.
    pub limit: u64,
    /// Frames that units have.
    pub granted: u64,
    /// Frames that units had at most.
    pub peak: u64,
    /// Runs of the policy.
    pub runs: u64,
    /// Units that it moved.
    pub moves: u64,
    /// In the scenario's order: stacks and buffers of each component.
    pub components: Vec<UnitsResult>,
    /// Whose job waits for whose, at the end.
    pub waits: Vec<Wait>,
}

/// Units of one kind of a component. Counts are from the beginning of the run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsResult {
    /// As of the policy's last run.
    #[serde(flatten)]
    pub state: UnitState,
    /// Units that it always has.
    pub minimum: u32,
    /// Units that it had at most.
    pub peak: u32,
    /// Units that came.
    pub granted: u64,
    /// Units that went.
    pub taken: u64,
    /// Waits that a holder's release ended.
    pub handed_over: u64,
}
