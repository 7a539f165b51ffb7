//! What a module's process tells others of its threads: a page of counters that it writes and never reads.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::area::{Area, Shared};

/// Threads that a process can have at a time.
pub const THREADS: usize = 128;

/// One thread's row.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ThreadRow {
    /// The kernel's thread identifier; 0 when the row is free.
    pub(crate) thread: AtomicU32,
    /// The CPU it is kept on.
    pub(crate) cpu: AtomicU32,
    /// As the program set it.
    pub(crate) priority: AtomicI64,
    /// 0 when not periodic.
    pub(crate) period_ns: AtomicU64,
    /// Releases so far.
    pub(crate) periods: AtomicU64,
    /// Periods in which the next release had passed when the thread was done.
    pub(crate) missed: AtomicU64,
}

/// A module's page of status.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Page {
    magic: AtomicU32,
    process: AtomicU32,
    separate: AtomicU32,
    /// 0 while `init_module` runs, 1 after it.
    ready: AtomicU32,
    rows: [ThreadRow; THREADS],
}

// SAFETY: atomics only.
unsafe impl Shared for Page {}

const MAGIC: u32 = 0x5254_4c31;

/// Where a module's threads are counted.
#[derive(Debug)]
pub struct Status(Area);

/// What others see of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ThreadView {
    /// The kernel's identifier.
    pub thread: u32,
    /// The CPU it is kept on.
    pub cpu: u32,
    /// As the program set it.
    pub priority: i64,
    /// 0 when not periodic.
    pub period_ns: u64,
    /// Releases so far.
    pub periods: u64,
    /// Periods at whose end the next release had passed.
    pub missed: u64,
}

impl Status {
    /// A new page for this process.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn create(separate: bool) -> std::io::Result<Self> {
        let status = Self(Area::create(c"freehold-rtl-module", size_of::<Page>())?);
        let page = status.page();
        page.process.store(std::process::id(), Ordering::Relaxed);
        page.separate.store(separate.into(), Ordering::Relaxed);
        page.magic.store(MAGIC, Ordering::Release);
        Ok(status)
    }

    /// Another process's page, if it is one.
    #[must_use]
    pub fn of(area: Area) -> Option<Self> {
        let page: &Page = area.at(0)?;
        (page.magic.load(Ordering::Acquire) == MAGIC).then_some(Self(area))
    }

    pub(crate) fn area(&self) -> &Area {
        &self.0
    }

    #[expect(clippy::expect_used, reason = "both ways to make one have looked at the size")]
    fn page(&self) -> &Page {
        self.0.at(0).expect("a page of status fits")
    }

    pub(crate) fn row(&self, index: usize) -> &ThreadRow {
        let rows = &self.page().rows;
        &rows[index.min(THREADS - 1)]
    }

    pub(crate) fn set_ready(&self) {
        self.page().ready.store(1, Ordering::Release);
    }

    /// Whether the module's `init_module` has ended well.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.page().ready.load(Ordering::Acquire) == 1
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.page().process.load(Ordering::Relaxed)
    }

    /// Whether the module has an address space of its own.
    #[must_use]
    pub fn is_separate(&self) -> bool {
        self.page().separate.load(Ordering::Relaxed) == 1
    }

    /// Its threads.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadView> {
        let used = self
            .page()
            .rows
            .iter()
            .filter(|row| row.thread.load(Ordering::Acquire) != 0);
        used.map(|row| ThreadView {
            thread: row.thread.load(Ordering::Relaxed),
            cpu: row.cpu.load(Ordering::Relaxed),
            priority: row.priority.load(Ordering::Relaxed),
            period_ns: row.period_ns.load(Ordering::Relaxed),
            periods: row.periods.load(Ordering::Relaxed),
            missed: row.missed.load(Ordering::Relaxed),
        })
        .collect()
    }
}
