//! Algorithm 1 of paper 001 (section III.C): the capacity of a pinned page pool after a job.
//!
//! ```text
//! 1  if M (the deadline was missed) and N_swap > 0
//! 2      C' = C + N_swap
//! 3  else if not M and Q < T_s * alpha
//! 4      C' = C * beta
//! 5  else
//! 6      C' = C
//! 7  return C'
//! ```
//!
//! What we add to it, bounds and extensions, is in `capacity`.

use crate::pinning::settings::{JobReport, PinningSettings};
use crate::units::PageCount;

/// What becomes of `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// `C'` is this much more.
    Grow(PageCount),
    /// `C'` is this.
    Shrink(PageCount),
    /// `C'` is `C`.
    Hold,
}

/// `capacity` is `C`. Shrinking rounds down, so that a capacity of few pages shrinks too; with β = 1 it never does.
pub(crate) fn next(capacity: PageCount, settings: &PinningSettings, job: &JobReport) -> Next {
    let least_running = settings.alpha.of(settings.budget.get()); // T_s * alpha
    // 1
    if job.missed && job.swap_ins > 0 {
        // 2
        Next::Grow(PageCount::new(job.swap_ins))
    // 3
    } else if !job.missed && job.running.get() < least_running {
        // 4
        let left = settings.beta.of(u64::from(capacity.get()));
        Next::Shrink(PageCount::new(u32::try_from(left).unwrap_or(u32::MAX)))
    // 5
    } else {
        // 6
        Next::Hold
    }
}
