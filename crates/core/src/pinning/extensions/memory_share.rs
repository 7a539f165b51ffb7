//! Only the memory's share of a miss makes a pool grow: an extension of Algorithm 1 (`memory-share`).
//!
//! The paper's pool grows by all the pages that a late job had read back, though something else may have made it late.
//! A pool with this extension grows by the part of them that memory has in the delay:
//!
//! ```text
//! growth = N_swap * delay by memory / delay, rounded up
//! ```

use crate::pinning::settings::{JobReport, PinningSettings};
use crate::units::PageCount;

/// By how many pages a pool grows of which the paper asks for `growth`.
pub(crate) fn of(growth: PageCount, settings: &PinningSettings, job: &JobReport) -> PageCount {
    if !settings.memory_share {
        return growth;
    }
    let delay = u128::from(job.delay.get());
    let memory = u128::from(job.memory_delay.get()).min(delay);
    let share = (u128::from(growth.get()) * memory).div_ceil(delay.max(1));
    u32::try_from(share).map_or(growth, PageCount::new)
}
