//! `--baseline kernel`: the same programs under the kernel's own swap.

use std::fs;
use std::path::Path;

use crate::programs::Limited;
use freehold_command::exit_status::Failure;
use freehold_command::leftovers::Workplace;
use freehold_command::output;

/// Room in swap for all that does not fit.
const SWAP_PAGES: usize = 262_144;
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";

/// A memory cgroup of so many bytes, and a swap file.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn limited(bytes: u64) -> Result<Limited, Failure> {
    let bytes = usize::try_from(bytes).map_err(|_| Failure::Input(format!("--memory: {bytes} B is too much")))?;
    Limited::new(bytes, SWAP_PAGES).map_err(|why| Failure::Run(format!("--baseline kernel is not possible: {why}")))
}

/// Fails, before anything has run, where it is not possible. Says the settings in force.
///
/// # Errors
/// What the kernel refuses.
pub(super) fn try_out() -> Result<(), Failure> {
    drop(Limited::new(64 << 20, 256).map_err(|why| Failure::Run(format!("--baseline kernel is not possible: {why}")))?);
    let setting =
        |path: &str| fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |it| it.trim().to_owned());
    output::note(&format!(
        "freehold: the kernel's swap: vm.page-cluster {}, vm.swappiness {}",
        setting(PAGE_CLUSTER),
        setting("/proc/sys/vm/swappiness")
    ));
    Ok(())
}

/// Read-ahead of swap switched off for the whole machine, and set back when dropped.
#[derive(Debug)]
pub(super) struct NoReadAhead {
    before: String,
    _place: Workplace,
}

impl NoReadAhead {
    /// SchedEvents it off.
    ///
    /// # Errors
    /// The right is missing.
    pub(super) fn new() -> Result<Self, Failure> {
        let refused = |error: std::io::Error| Failure::Run(format!("{PAGE_CLUSTER}: {error}"));
        let before = fs::read_to_string(PAGE_CLUSTER).map_err(refused)?;
        let place = Workplace::new()?;
        place.note_setting(PAGE_CLUSTER, &before)?;
        fs::write(PAGE_CLUSTER, "0").map_err(refused)?;
        Ok(Self { before, _place: place })
    }
}

impl Drop for NoReadAhead {
    fn drop(&mut self) {
        if let Err(error) = fs::write(Path::new(PAGE_CLUSTER), &self.before) {
            let before = self.before.trim();
            output::note(&format!("freehold: {PAGE_CLUSTER} stays 0 and was {before}: {error}"));
        }
    }
}
