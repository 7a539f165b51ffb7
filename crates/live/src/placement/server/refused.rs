//! What a server cannot do of a scenario.

use freehold_scenario::{self as scenario, Scenario, setup};

use crate::error::LiveError;
use crate::placement::server::ServerError;

/// In lockstep: a server's own restorer brings pages back when it sees fit.
pub(super) fn restoring(scenario: &Scenario) -> Result<(), LiveError> {
    match setup::restorers(scenario).next() {
        Some(position) => Err(LiveError::Restore(scenario.tasks[position].name.clone())),
        None => Ok(()),
    }
}

/// The server serves files for reading only.
pub(super) fn writes_to_files(scenario: &Scenario) -> Result<(), ServerError> {
    for task in &scenario.tasks {
        for step in task.accesses.iter().filter(|step| step.writes()) {
            let region = &scenario.regions[step.region.get()];
            if region.kind == scenario::RegionKind::File {
                return Err(ServerError::WritesFile {
                    task: task.name.clone(),
                    region: region.name.clone(),
                });
            }
        }
    }
    Ok(())
}
