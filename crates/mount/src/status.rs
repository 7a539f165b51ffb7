//! What a mount is doing, as a row of a document.

use crate::files::Files;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The page cache: frames, and pages in them. `own` + `kernel` ≤ `frames` at all times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the names are the document's, explained in docs/book/src/mount.md"
)]
pub struct PageCacheRow {
    pub frames: u64,
    pub own: u64,
    pub kernel: u64,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the names are the document's, explained in docs/book/src/mount.md"
)]
pub struct MountRow {
    pub source: String,
    pub mountpoint: String,
    pub page_cache: PageCacheRow,
    pub inodes: u64,
    pub leases: u64,
    pub uncached_inodes: u64,
    pub reads: u64,
    pub own_hits: u64,
    pub victim_hits: u64,
    pub device_pages: u64,
    pub writes: u64,
    pub invalidations: u64,
    pub lease_breaks: u64,
}

/// The row now.
pub(crate) fn row(files: &Files, source: &Path, mountpoint: &Path) -> MountRow {
    let (frames, own, kernel) = files.cache().counts();
    let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &files.counters;
    MountRow {
        source: source.display().to_string(),
        mountpoint: mountpoint.display().to_string(),
        page_cache: PageCacheRow {
            frames: frames as u64,
            own: own as u64,
            kernel: kernel as u64,
        },
        inodes: files.tree.inodes.len() as u64,
        leases: files.leases.files().len() as u64,
        uncached_inodes: now(&counters.uncached_inodes),
        reads: now(&counters.reads),
        own_hits: now(&counters.own_hits),
        victim_hits: now(&counters.victim_hits),
        device_pages: now(&counters.device_pages),
        writes: now(&counters.writes),
        invalidations: now(&counters.invalidations),
        lease_breaks: now(&counters.lease_breaks),
    }
}
