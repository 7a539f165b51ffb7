//! Whether the laws hold.

use serde::{Deserialize, Serialize};

/// The laws, checked at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LawsDocument {
    /// What is broken, in words; nothing where every law holds.
    pub broken: Vec<String>,
}
