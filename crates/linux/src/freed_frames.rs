//! Frames of the machine that become free, told by the kernel as it happens (tracepoint `kmem:mm_page_free`).

use crate::perf::{self, Attributes};
use crate::tracepoints::{Trace, Tracepoint, field, number};
use crate::{sched, tracefs};
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

const FREED: Tracepoint = Tracepoint {
    system: "kmem",
    name: "mm_page_free",
};
/// Pages of each CPU's ring: room for more than a thousand frames.
const RING: usize = 32;
/// Runs of frames that a filter names: the kernel takes a text of one page.
const MOST_RUNS: usize = 96;

/// What tells of frames that become free. While it lives the kernel need not be changed for a
/// [`watch`](Self::watch) to begin or to end, which takes tens of milliseconds.
#[derive(Debug)]
pub struct FreedFrames {
    number: u64,
    /// Where the frame's number and the exponent of how many there are lie in a sample.
    frame: usize,
    order: usize,
    _anchor: OwnedFd,
}

impl FreedFrames {
    /// `None` without CAP_PERFMON, or without a tracing file system that the caller may read or mount.
    #[must_use]
    pub fn open() -> Option<Self> {
        let find = || {
            let place = |name, size| field(FREED, name).filter(|place| place.1 == size);
            let (frame, order) = (place("pfn", 8)?.0, place("order", 4)?.0);
            Some((number(FREED)?, frame, order))
        };
        let (number, frame, order) = if tracefs::is_mounted() {
            find()
        } else {
            // A thread that mounts it has a copy of all mounts, which is to go at once.
            let thread = std::thread::Builder::new().spawn(move || {
                tracefs::mount_for_this_thread().ok()?;
                find()
            });
            thread.ok()?.join().ok()?
        }?;
        const TRACEPOINT: u32 = 2;
        const DISABLED: u64 = 1;
        let anchor = Attributes {
            kind: TRACEPOINT,
            config: number,
            flags: DISABLED,
            ..Attributes::default()
        };
        Some(Self {
            number,
            frame,
            order,
            _anchor: perf::open(&anchor, 0, -1).ok()?,
        })
    }

    /// Watches some frames from now on; `None` where the kernel refuses.
    #[must_use]
    pub fn watch(&self, frames: &BTreeSet<u64>) -> Option<Watch> {
        let filter = filter(&runs(frames));
        let trace = Trace::open_some(&sched::online_cpus(), self.number, &filter, RING).ok()?;
        Some(Watch {
            trace,
            frame: self.frame,
            order: self.order,
        })
    }
}

/// Frames that are watched.
#[derive(Debug)]
pub struct Watch {
    trace: Trace,
    frame: usize,
    order: usize,
}

impl Watch {
    /// Takes frames out of a set that have become free since they are watched. Where very many do, some may not be
    /// told.
    pub fn remove_freed(&mut self, from: &mut BTreeSet<u64>) {
        let (frame, order) = (self.frame, self.order);
        self.trace.take(|sample| {
            let first = sample.fields.get(frame..).and_then(|bytes| bytes.first_chunk::<8>());
            let order = sample.fields.get(order..).and_then(|bytes| bytes.first_chunk::<4>());
            if let (Some(first), Some(order)) = (first, order) {
                let first = u64::from_ne_bytes(*first);
                let count = 1_u64.checked_shl(u32::from_ne_bytes(*order)).unwrap_or(1);
                for frame in first..first.saturating_add(count) {
                    from.remove(&frame);
                }
            }
        });
    }
}

/// Runs that contain these frames, few enough for a filter: those are joined that are nearest to one another.
fn runs(frames: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for frame in frames {
        match runs.last_mut() {
            Some(run) if run.end == *frame => run.end += 1,
            _ => runs.push(*frame..frame + 1),
        }
    }
    if runs.len() > MOST_RUNS {
        let mut gaps: Vec<u64> = runs.windows(2).map(|pair| pair[1].start - pair[0].end).collect();
        gaps.sort_unstable_by(|one, other| other.cmp(one));
        let bridged = gaps[MOST_RUNS - 2];
        let mut wide: Vec<Range<u64>> = Vec::new();
        for run in runs {
            let full = wide.len() == MOST_RUNS;
            match wide.last_mut() {
                Some(before) if full || run.start - before.end < bridged => before.end = run.end,
                _ => wide.push(run),
            }
        }
        return wide;
    }
    runs
}

fn filter(runs: &[Range<u64>]) -> String {
    let mut text = String::new();
    for run in runs {
        let or = if text.is_empty() { "" } else { "||" };
        // Writing to a text cannot fail.
        let _ = write!(text, "{or}(pfn>={}&&pfn<={})", run.start, run.end - 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageRange;
    use crate::memory::{Chunk, Window};
    use crate::physical;
    use std::time::{Duration, Instant};

    #[test]
    fn few_runs_contain_all_frames_and_no_run_is_wider_than_it_must_be() {
        let near: BTreeSet<u64> = [7, 8, 9, 20].into();
        assert_eq!(runs(&near), [7..10, 20..21]);
        assert_eq!(filter(&runs(&near)), "(pfn>=7&&pfn<=9)||(pfn>=20&&pfn<=20)");
        let many: BTreeSet<u64> = (0..1000).map(|number| number * number * 3).collect();
        let runs = runs(&many);
        assert_eq!(runs.len(), MOST_RUNS);
        assert!(many.iter().all(|frame| runs.iter().any(|run| run.contains(frame))));
        assert!(
            runs[1..].iter().all(|run| run.end == run.start + 1),
            "far ones stay apart"
        );
        assert!(filter(&runs).len() < 4096);
    }

    /// Gives some frames back, then all: just these are told each time. Nothing where the kernel had no room for what
    /// it tells: where memory is scattered, frames of others lie between these, and are told too.
    fn given_back(freed: &FreedFrames) -> Option<()> {
        let window = Window::reserve(600).unwrap();
        let chunk = Chunk::create(c"test", 600, false).unwrap();
        window.place(0, &chunk).unwrap();
        let all = PageRange::new(0, 600);
        window.populate(all).unwrap();
        let frames = physical::frames(window.addresses(all).unwrap(), 1).unwrap();
        let frames: Vec<u64> = frames.into_iter().map(Option::unwrap).collect();
        let mut left: BTreeSet<u64> = frames.iter().copied().collect();
        let mut watch = freed.watch(&left).unwrap();
        // That something was lost is told with what comes next.
        let mut is_told = |expected: &BTreeSet<u64>| {
            watch.remove_freed(&mut left);
            let (right, limit) = (left == *expected, Instant::now() + Duration::from_secs(2));
            while !right && watch.trace.lost() == 0 {
                assert!(Instant::now() < limit, "{left:?} for {expected:?}");
                std::thread::sleep(Duration::from_millis(1));
                watch.remove_freed(&mut left);
            }
            (watch.trace.lost() == 0).then_some(())
        };
        is_told(&frames.iter().copied().collect())?;
        physical::Pins::settle();
        chunk.punch_part(PageRange::new(50, 500)).unwrap();
        is_told(&frames[..50].iter().chain(&frames[550..]).copied().collect())?;
        drop(window);
        chunk.punch().unwrap();
        is_told(&BTreeSet::new())
    }

    #[test]
    fn exactly_the_frames_that_were_given_back_are_told() {
        let Some(freed) = FreedFrames::open() else {
            println!("NOT CHECKED: freed frames are not told here");
            return;
        };
        assert!(
            (0..20).any(|_| given_back(&freed).is_some()),
            "the kernel has room for what is told once in a while"
        );
    }
}
