//! Whether the laws hold, as a document.

use crate::shared::Shared;
use serde::{Deserialize, Serialize};

/// The laws, checked at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LawsDocument {
    /// What is broken, in words; nothing where every law holds.
    pub broken: Vec<String>,
}

/// Checks the core's laws and the engine's own. O(everything), in one hold of the engine.
pub(super) fn check(shared: &Shared) -> LawsDocument {
    let engine = shared.engine();
    let core = engine.core().check_laws().map_err(|violation| violation.to_string());
    let own = engine.check_laws();
    LawsDocument {
        broken: [core, own].into_iter().filter_map(Result::err).collect(),
    }
}
