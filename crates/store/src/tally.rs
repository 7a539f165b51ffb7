//! Counts of transfers.

use crate::RECORD_SIZE;
use crate::error::StoreError;
use freehold_core::units::FrameCount;
use std::sync::atomic::{AtomicU64, Ordering};

/// Transfers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Records read back, without those that failed.
    pub reads: u64,
    /// Records written, without those that failed.
    pub writes: u64,
    /// Bytes read back.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Attempts repeated because less than a record was transferred.
    pub retried: u64,
    /// Frames of memory the store holds for records. They are not given back while it lives.
    pub frames: FrameCount,
    /// Bytes that the records now in a compressed store take up; 0 in others.
    pub stored_bytes: u64,
}

/// The counters behind [`StoreStats`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
    failed_reads: AtomicU64,
    failed_writes: AtomicU64,
    retried: AtomicU64,
}

impl Tally {
    /// Counts a read by its result, which is passed on.
    pub(crate) fn read<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        count(&result, &self.reads, &self.failed_reads);
        result
    }

    /// Counts a write by its result, which is passed on.
    pub(crate) fn write<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        count(&result, &self.writes, &self.failed_writes);
        result
    }

    /// Counts a repeated attempt.
    pub(crate) fn retry(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of transfers; what the store holds is left zero.
    pub(crate) fn stats(&self) -> StoreStats {
        let reads = self.reads.load(Ordering::Relaxed);
        let writes = self.writes.load(Ordering::Relaxed);
        StoreStats {
            reads,
            writes,
            read_bytes: reads * RECORD_SIZE as u64,
            written_bytes: writes * RECORD_SIZE as u64,
            failed_reads: self.failed_reads.load(Ordering::Relaxed),
            failed_writes: self.failed_writes.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            ..StoreStats::default()
        }
    }
}

fn count<T>(result: &Result<T, StoreError>, good: &AtomicU64, bad: &AtomicU64) {
    let counter = if result.is_ok() { good } else { bad };
    counter.fetch_add(1, Ordering::Relaxed);
}
