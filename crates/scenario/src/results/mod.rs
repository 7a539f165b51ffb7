//! What commands print: documents with fixed field names, for `--json`, and the same as readable tables.
//!
//! Times are nanoseconds in fields that end in `_ns`; counts of memory are pages (frames) of 4 KiB.

mod advice;
mod bench;
mod devices;
mod late;
mod number;
mod render;
mod reproduce;
mod response;
mod run;
mod table;
mod transient;

pub use advice::AdviceResult;
pub use bench::{BenchResult, BenchRow, BenchSide, Judged, Quantiles, Ratio, Verdict};
pub use devices::{DeviceResult, VictimCacheResult};
pub use late::{Delays, LateJob, LateJobs, MAX_LATE_JOBS, Reason};
pub use reproduce::{ReproduceResult, ReproduceRow};
pub use response::{Response, ResponseRecorder};
pub use run::{
    Engine, Laws, LockResult, MemoryResult, Placement, RegionResult, ReservationResult, RunHead, RunResult,
    StoreResult, TaskResult, Violation,
};
pub use table::{Align, TextTable};
pub use transient::{TransientResult, UnitsResult};

pub use freehold_report::advice::{RegionAdvice, ReservationAdvice};

/// A document as one line-broken JSON text, without a final newline.
///
/// # Errors
/// The document holds a number that JSON cannot write; none of this module's can, whatever their values.
pub fn to_json(document: &impl serde::Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(document)
}
