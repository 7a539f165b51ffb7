//! Memory on its way back from devices that were closed.
//!
//! A thread of its own asks the kernel who still has it, again and again and ever more rarely, and takes back what
//! nobody has: what a trusted client had, as it is; in place of what another had, other memory. Nobody waits for that
//! but whoever opens the same device.

use crate::cache::{Shared, State};
use crate::device::{Return, record};
use crate::region::{Region, runs};
use crate::retire::Kept;
use freehold_core::units::FrameCount;
use freehold_core::victim_cache::{DeviceId, FrameIndex, FrameRange};
use freehold_linux::thread::{self, Thread};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long until memory that somebody has is looked at again: at first, and at most.
const FIRST: Duration = Duration::from_millis(1);
const LAST: Duration = Duration::from_millis(100);

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    rows: Vec<Job>,
    stopped: bool,
}

/// A device's memory on its way.
#[derive(Debug)]
struct Job {
    device: DeviceId,
    range: FrameRange,
    /// Chunks that others had when they were looked at last, and that have not been looked at.
    held: Vec<usize>,
    /// Chunks that nobody has, and that wait for memory in place of what is kept elsewhere.
    waiting: Vec<usize>,
    /// What something in the kernel keeps.
    kept: Kept,
    /// Waiting chunks of which the core knows.
    retired: BTreeSet<usize>,
    began: Instant,
    next: Instant,
    pause: Duration,
}

impl Returns {
    pub(crate) fn add(&mut self, device: DeviceId, range: FrameRange) {
        let now = Instant::now();
        self.rows.push(Job {
            device,
            range,
            held: Vec::new(),
            waiting: Vec::new(),
            kept: Kept::default(),
            retired: BTreeSet::new(),
            began: now,
            next: now,
            pause: FIRST,
        });
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }
}

impl State {
    /// A device was closed: what it had is to be looked at.
    pub(crate) fn note_returns(&mut self, device: DeviceId, region: &Region) {
        let Some(job) = self.returns.rows.iter_mut().find(|job| job.device == device) else {
            return;
        };
        job.held = region.chunks_of(job.range).map(Iterator::collect).unwrap_or_default();
        self.rows[device.index()].returning = Some(Return {
            held: job.held.len(),
            chunks: job.held.len(),
            looked: false,
        });
    }
}

/// Starts the thread, which ends when told to, or with the cache.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Thread<()>> {
    let shared = Arc::downgrade(shared);
    thread::spawn("returns", move || run(&shared))
}

fn run(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let Some(mut job) = next(&shared) else { break };
        let back = job.look(&shared);
        finish(&shared, job, &back);
    }
}

/// The next job that is due; waits for it.
fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if state.returns.stopped {
            return None;
        }
        let now = Instant::now();
        let first = (0..state.returns.rows.len()).min_by_key(|place| state.returns.rows[*place].next);
        let due = first.map(|place| state.returns.rows[place].next);
        match (first, due) {
            (Some(place), Some(due)) if due <= now => return Some(state.returns.rows.swap_remove(place)),
            (_, Some(due)) => {
                let waited = shared.work.wait_timeout(state, due - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            _ => state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Job {
    /// Takes back what nobody has; returns those chunks, in order.
    fn look(&mut self, shared: &Shared) -> Vec<usize> {
        let region = &shared.region;
        let (held, free): (Vec<usize>, Vec<usize>) = self.held.drain(..).partition(|place| region.is_held(*place));
        self.held = held;
        let punched = free.iter().filter(|place| !region.is_whole(**place)).count();
        let trusted = {
            let mut state = shared.state();
            let row = &mut state.rows[self.device.index()];
            row.punched += punched as u64;
            row.device.trusted
        };
        let mut asked = std::mem::take(&mut self.waiting);
        asked.extend(free);
        asked.sort_unstable();
        if asked.is_empty() {
            return asked;
        }
        let mut back = if trusted {
            asked.iter().copied().filter(|place| region.restore(*place)).collect()
        } else {
            region.retire(&asked, &mut self.kept)
        };
        back.sort_unstable();
        self.waiting = asked
            .into_iter()
            .filter(|place| back.binary_search(place).is_err())
            .collect();
        back
    }

    fn frames_of(region: &Region, run: &std::ops::Range<usize>) -> FrameRange {
        let (first, _) = region.cuts().pages(run.start);
        let (last, count) = region.cuts().pages(run.end - 1);
        FrameRange::new(FrameIndex::new(first), FrameCount::new(last + count - first))
    }
}

/// Tells the core, and comes back later to what is missing.
fn finish(shared: &Shared, mut job: Job, back: &[usize]) {
    let mut state = shared.state();
    for run in runs(back) {
        let range = Job::frames_of(&shared.region, &run);
        let returned = state.core.returned(job.device, range);
        debug_assert!(returned.is_ok(), "what was lent comes back: {returned:?}");
    }
    for place in back {
        job.retired.remove(place);
    }
    let newly: Vec<usize> = job
        .waiting
        .iter()
        .copied()
        .filter(|place| !job.retired.contains(place))
        .collect();
    for run in runs(&newly) {
        let range = Job::frames_of(&shared.region, &run);
        let retired = state.core.retired(job.device, range);
        debug_assert!(retired.is_ok(), "what was lent can be retired: {retired:?}");
        job.retired.extend(run);
    }
    let missing = job.held.len() + job.waiting.len();
    let row = &mut state.rows[job.device.index()];
    if missing == 0 {
        (row.returning, row.client) = (None, None);
        record(&mut row.return_times, job.began.elapsed());
    } else {
        if let Some(returning) = &mut row.returning {
            (returning.held, returning.looked) = (missing, true);
        }
        job.next = Instant::now() + job.pause;
        job.pause = (job.pause * 2).min(LAST);
        state.returns.rows.push(job);
    }
    state.drain();
    drop(state);
    shared.changed.notify_all();
}
