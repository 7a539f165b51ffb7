//! Transient memory (paper 004): units of components, and who waits for whom.

use serde::{Deserialize, Serialize};

/// Units of one kind of a component: the paper's r, a, δ, b and used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct UnitState {
    /// The component.
    pub component: String,
    /// `stack` or `cbuf`.
    pub kind: String,
    /// Units wanted at the same time in the last period (r).
    pub requested: u32,
    /// Units that it has (a).
    pub allocated: u32,
    /// Units that it ought to have (δ).
    pub desired: u32,
    /// Units in use in the last period.
    pub used: u32,
    /// Requests that waited.
    pub contended: u64,
    /// How long they waited in all (b).
    pub blocked_ns: u64,
    /// Runs of the policy that found units or memory that it had not granted: the component writes where it must not.
    pub violations: u64,
}

/// A job that waits for a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Wait {
    /// The thread whose job it is.
    pub thread: String,
    /// Where it waits.
    pub component: String,
    /// `stack` or `cbuf`.
    pub kind: String,
    /// The thread whose job has the unit; none where no thread of the composition does.
    pub holder: Option<String>,
}
