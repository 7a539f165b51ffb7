//! Records which file pages a command and its children use, as a trace that a replay reads (docs/book/src/cache.md).
//!
//! The kernel's tracepoints of its page cache tell of faults, of pages mapped around them, of reads, and of pages that
//! come into the page cache and leave it. What a program uses of pages that are mapped already, nobody sees.

mod family;
mod row;

use std::io::{self, Write};

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::tracepoints::{Sample, Trace, TraceError, Tracepoint};

use family::Family;
use row::{Layout, Row};

/// Pages of each CPU's ring: 8 MiB.
const RING: usize = 2048;
/// Samples this young may still be joined by older ones from other CPUs, in nanoseconds.
const YOUNG: u64 = 1_000_000;
/// What a trace begins with.
const HEADER: &str = "t_us,app,kind,dev,ino,page,npages\n";

/// A process begins another, and the tracepoints of the page cache with the kinds of their rows.
const FORK: Tracepoint = Tracepoint {
    system: "sched",
    name: "sched_process_fork",
};
const KINDS: [(&str, char); 5] = [
    ("mm_filemap_fault", 'F'),
    ("mm_filemap_map_pages", 'M'),
    ("mm_filemap_get_pages", 'R'),
    ("mm_filemap_add_to_page_cache", 'A'),
    ("mm_filemap_delete_from_page_cache", 'D'),
];

/// What has been recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Rows written.
    pub events: u64,
    /// Samples that the kernel had no room for.
    pub lost: u64,
}

/// A recording cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel's tracepoints.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A tracepoint lacks a field that this version knows.
    #[error("{0}: its fields are not those that this version knows; the kernel is newer or older than it")]
    Fields(&'static str),
    /// The file.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    trace: Trace,
    layouts: Vec<Layout>,
    fork: usize,
    began: MonotonicTime,
    app: String,
    family: Family,
    early: Vec<Early>,
    /// The first line is written.
    headed: bool,
    events: u64,
}

/// A sample that may still be joined by older ones.
#[derive(Debug)]
struct Early {
    time: MonotonicTime,
    process: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The process begins another thread or process.
    Fork(u32),
    Row(Row),
}

impl Recorder {
    /// Begins to record on `cpus`, which ought to be all that are online. Rows name `app`, without its commas. Needs
    /// the tracing file system to be seen by the calling thread, which must be in the first name space of processes.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn start(cpus: &[usize], app: &str) -> Result<Self, RecordError> {
        let kinds = KINDS.map(|(name, _)| Tracepoint {
            system: "filemap",
            name,
        });
        let tracepoints: Vec<_> = kinds.into_iter().chain([FORK]).collect();
        let trace = Trace::open(cpus, &tracepoints, RING)?;
        let layouts = kinds
            .iter()
            .zip(KINDS)
            .map(|(tracepoint, (name, kind))| Layout::of(*tracepoint, kind).ok_or(RecordError::Fields(name)));
        let layouts = layouts.collect::<Result<_, _>>()?;
        let child = row::Field::of(FORK, "child_pid").ok_or(RecordError::Fields(FORK.name))?;
        Ok(Self {
            trace,
            layouts,
            fork: KINDS.len(),
            began: clock::now(),
            app: app.replace([',', '\n', '\r'], "_"),
            family: Family::new(std::process::id(), child),
            early: Vec::new(),
            headed: false,
            events: 0,
        })
    }

    /// Follows a process and all that it begins from now on.
    pub fn follow(&mut self, process: u32) {
        self.family.add(process);
    }

    /// Writes the rows that have come, but for the youngest, unless it is the `last` call. To be called some times a
    /// second, or samples are lost.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn take(&mut self, out: &mut impl Write, last: bool) -> Result<(), RecordError> {
        if !std::mem::replace(&mut self.headed, true) {
            out.write_all(HEADER.as_bytes())?;
        }
        let limit = if last {
            u64::MAX
        } else {
            clock::now().as_nanos().saturating_sub(YOUNG)
        };
        let (layouts, fork, family, early) = (&self.layouts, self.fork, &self.family, &mut self.early);
        self.trace
            .take(|sample| early.extend(read(sample, layouts, fork, family)));
        // Stable: what one CPU has seen at one time stays in its order.
        self.early.sort_by_key(|sample| sample.time);
        let count = self.early.partition_point(|sample| sample.time.as_nanos() <= limit);
        for sample in self.early.drain(..count) {
            match sample.what {
                What::Fork(child) => self.family.begun(sample.process, child),
                What::Row(row) if self.family.has(sample.process) => {
                    let micros = sample.time.saturating_since(self.began).as_micros();
                    row.write(micros, &self.app, out)?;
                    self.events += 1;
                }
                What::Row(_) => {}
            }
        }
        Ok(())
    }

    /// How much there is by now.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        Recorded {
            events: self.events,
            lost: self.trace.lost(),
        }
    }
}

fn read(sample: &Sample<'_>, layouts: &[Layout], fork: usize, family: &Family) -> Option<Early> {
    let what = if sample.which == fork {
        What::Fork(family.child(sample.fields)?)
    } else {
        What::Row(layouts.get(sample.which)?.row(sample.fields)?)
    };
    Some(Early {
        time: sample.time,
        process: sample.process,
        what,
    })
}
