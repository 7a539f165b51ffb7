//! The experiments of paper 003, eCache: device-reserved memory as a cache of file pages.
//!
//! The paper's traces are of a telephone's applications. Ours are recordings of 29 programs (`experiments/ecache`):
//! each stands for one application, launched as often as the paper's Table 7 says. So sizes differ, and with them what
//! can be saved: each result stands beside that of devices that never open and that of an infinite cache.

pub(super) mod fig1;
pub(super) mod fig10;
pub(super) mod fig6;
pub(super) mod fig8;
mod programs;
mod study;
pub(super) mod table8;
mod workload;

use freehold_scenario::results::ReproduceRow;

use super::app::{Bound, Sample};

/// As often the paper ran each workload.
const SEEDS: u32 = 4;

/// A row of a mean over seeds, in per cent unless `unit` says otherwise.
fn row(what: String, unit: &str, paper: Option<f64>, sample: &Sample, bound: Bound) -> ReproduceRow {
    super::app::row(what, unit, paper, sample, bound)
}

#[allow(clippy::cast_precision_loss, reason = "counts of pages, far below 2^53")]
fn per_cent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    100.0 * part as f64 / whole as f64
}
