//! Whether the laws hold, as a document.

use crate::shared::Shared;
use freehold_report::laws::LawsDocument;

/// Checks the core's laws and the engine's own. O(everything), in one hold of the engine.
pub(super) fn check(shared: &Shared) -> LawsDocument {
    let engine = shared.engine();
    let core = engine.core().check_laws().map_err(|violation| violation.to_string());
    let own = engine.check_laws();
    LawsDocument {
        broken: [core, own].into_iter().filter_map(Result::err).collect(),
    }
}
