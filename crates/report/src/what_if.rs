//! What-if: would a reservation be admitted, and what would have to give.

use serde::{Deserialize, Serialize};

/// The judgement. Amounts are frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Frames asked for.
    pub frames: u64,
    /// `hard` or `firm`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it would be admitted.
    pub admitted: bool,
    /// Frames that are lent or used without a reservation now, and would be taken back first.
    pub to_gather: u64,
    /// Frames promised to nobody.
    pub available: u64,
    /// Frames missing.
    pub missing: u64,
    /// What would have to give; empty where it would be admitted.
    pub gives: Vec<String>,
    /// The same in sentences.
    pub text: Vec<String>,
}
