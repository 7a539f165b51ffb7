//! What is known of a regular file's content: the lease that keeps it still, who writes it, what is read ahead.

use crate::growth::End;
use crate::mixed::Mixed;
use crate::reader::Reader;
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long a refused lease is not asked for again, unless the file is opened.
const PATIENCE: Duration = Duration::from_millis(10);
/// Windows that are under way while a reader reads one: the device reads one while the pages of another are taken in.
const UNDER_WAY: u32 = 2;
/// Pages that are read ahead at first, and at most: 128 KiB and 1 MiB.
const WINDOW: Range<u32> = 32..256;

/// The most that is read ahead at once, beside a page cache of so many frames.
pub(crate) fn most_ahead(frames: usize) -> u32 {
    u32::try_from(frames / 8).map_or(WINDOW.end, |part| part.clamp(WINDOW.start, WINDOW.end))
}

/// What programs and shared libraries begin with.
const TEXT: &[u8] = b"\x7fELF";

/// The content of an inode. Whoever serves pages of it reads `state` until the answer is sent; so a lease is let go
/// after the last answer that relied on it.
#[derive(Debug, Default)]
pub(crate) struct Content {
    state: RwLock<State>,
    /// It begins as a program or a library does, and was mapped or run: it is opened cached from then on.
    text: AtomicBool,
    /// Fills for mappings, as one reader.
    pub(crate) fills: Mutex<Sequence>,
    /// A thread is letting the lease go.
    leaving: AtomicBool,
    /// Pages that are being read ahead, or are about to be.
    ahead: Mutex<Vec<Range<u32>>>,
    landed: Condvar,
    pub(crate) end: End,
    pub(crate) mixed: Mixed,
}

/// What the lock keeps.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) reader: Option<Reader>,
    pub(crate) lease: Option<Leased>,
    /// Opened for writing through the mount so many times. Such a file has no lease.
    pub(crate) writers: u32,
    /// The lease is about to be let go: none is taken until it is.
    pub(crate) letting_go: bool,
    /// No lease was to be had: what is read passes through.
    pub(crate) refused: bool,
    pub(crate) tried: Option<Instant>,
}

/// A content that does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leased {
    /// What the caches call this content. Another one of the same file has another number.
    pub(crate) file: u64,
    /// Bytes.
    pub(crate) size: u64,
}

impl State {
    /// Whether a lease may be asked for now.
    pub(crate) fn may_lease(&self, opening: bool) -> bool {
        let patient = self.tried.is_none_or(|tried| tried.elapsed() >= PATIENCE);
        self.lease.is_none() && self.writers == 0 && !self.letting_go && (opening || patient)
    }

    /// The lease, if the kernel has not taken it away meanwhile and the file is as long as it was.
    pub(crate) fn still(&self) -> Option<(&Reader, Leased)> {
        let (reader, lease) = (self.reader.as_ref()?, self.lease?);
        let held = freehold_linux::file_lease::is_held(reader) && reader.size() == Ok(lease.size);
        held.then_some((reader, lease))
    }

    /// Whether there is a lease that is to be let go: the kernel wants it back, or it did not keep the file as it was.
    /// The latter is so where a file was opened for reading only and truncated by the same call (`O_RDONLY | O_TRUNC`),
    /// which breaks no lease. It is empty then; any other change breaks the lease.
    pub(crate) fn is_wanted_back(&self) -> bool {
        self.lease.is_some() && self.still().is_none()
    }
}

impl Content {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// As `read`, where nobody waits to change it.
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, State>> {
        match self.state.try_read() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_text(&self) -> bool {
        self.text.load(Ordering::Relaxed)
    }

    /// The kernel was given these first bytes, to be mapped or run.
    pub(crate) fn note_text(&self, first: &[u8]) {
        if first.starts_with(TEXT) && !self.is_text() {
            self.text.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the caller is the one that lets the lease go.
    pub(crate) fn begin_leaving(&self) -> bool {
        !self.leaving.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_leaving(&self) {
        // A whole exchange: what the caller looks at next is not looked at before.
        self.leaving.swap(false, Ordering::SeqCst);
    }

    fn ahead(&self) -> MutexGuard<'_, Vec<Range<u32>>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These pages are about to be read ahead.
    pub(crate) fn begin_ahead(&self, pages: Range<u32>) {
        self.ahead().push(pages);
    }

    /// They are here, or will not come.
    pub(crate) fn end_ahead(&self, pages: &Range<u32>) {
        let mut ahead = self.ahead();
        if let Some(place) = ahead.iter().position(|other| other == pages) {
            ahead.swap_remove(place);
        }
        drop(ahead);
        self.landed.notify_all();
    }

    /// Waits while one of these pages is being read ahead; whether there was any.
    pub(crate) fn await_ahead(&self, pages: &Range<u32>) -> bool {
        let overlaps = |ahead: &Range<u32>| ahead.start < pages.end && pages.start < ahead.end;
        let meets = |ahead: &Vec<Range<u32>>| ahead.iter().any(overlaps);
        let mut ahead = self.ahead();
        let waited = meets(&ahead);
        while meets(&ahead) {
            ahead = self.landed.wait(ahead).unwrap_or_else(PoisonError::into_inner);
        }
        waited
    }
}

/// A reader's way through a file.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// The page that was used last.
    last: Option<u32>,
    next: u32,
    /// Where it began.
    begun: u32,
    window: u32,
    /// Up to here pages were read ahead, or asked for.
    ahead: u32,
    /// Something was not here: reading ahead is of use.
    missed: bool,
}

impl Sequence {
    /// The page that was used last.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last
    }

    /// These pages are read now. Returns what to read ahead, at most so many and none of it past `end`.
    pub(crate) fn step(&mut self, pages: &Range<u32>, missed: bool, (most, end): (u32, u32)) -> Option<Range<u32>> {
        let sequential = pages.start == self.next || (self.next > 0 && pages.start == self.next - 1);
        self.last = pages.end.checked_sub(1);
        self.next = pages.end;
        if !sequential {
            (self.window, self.ahead, self.missed) = (0, 0, false);
            self.begun = pages.start;
            return None;
        }
        self.missed |= missed;
        // Who has not gone far is not far ahead of: he may not go on.
        let gone = pages.end.saturating_sub(self.begun);
        let far = gone.clamp(self.window, self.window * UNDER_WAY);
        let near = self.ahead <= pages.end.saturating_add(far);
        if !self.missed || !near {
            return None;
        }
        self.window = (self.window * 2).clamp(WINDOW.start, most.max(WINDOW.start));
        let start = self.ahead.max(pages.end);
        let stop = start.saturating_add(self.window).min(end);
        self.ahead = stop.max(self.ahead);
        (start < stop).then_some(start..stop)
    }
}

/// A regular file that a program has open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) inode: std::sync::Arc<crate::inode::Inode>,
    /// Where it is open for writing.
    pub(crate) writer: Option<OwnedFd>,
    pub(crate) sequence: Mutex<Sequence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ahead_begins_with_a_miss_and_doubles_up_to_its_limit() {
        let mut way = Sequence::default();
        let limits = (256, 10_000);
        assert_eq!(way.step(&(0..1), false, limits), None);
        assert_eq!(way.step(&(1..2), true, limits), Some(2..34));
        assert_eq!(way.step(&(2..3), false, limits), Some(34..98));
        assert_eq!(way.step(&(3..20), false, limits), None);
        let mut widths = Vec::new();
        for page in 20..2000 {
            let ahead = way.step(&(page..page + 1), false, limits);
            widths.extend(ahead.map(|ahead| ahead.len()));
            assert!(
                (page + 1..page + 1 + 4 * 256).contains(&way.ahead),
                "at {page}: {}",
                way.ahead
            );
        }
        assert_eq!(widths[..2], [128, 256]);
        assert!(widths[2..].iter().all(|width| *width == 256));
        let mut small = Sequence::default();
        let widths: Vec<usize> = (0..500)
            .filter_map(|page| small.step(&(page..page + 1), true, (most_ahead(1024), 10_000)))
            .map(|ahead| ahead.len())
            .collect();
        assert_eq!(widths.iter().max(), Some(&128), "an eighth of a small cache");
    }

    #[test]
    fn reading_here_and_there_reads_nothing_ahead_and_nothing_goes_past_the_end() {
        let mut way = Sequence::default();
        for page in [70, 3, 900, 44] {
            assert_eq!(way.step(&(page..page + 1), true, (256, 1000)), None);
        }
        let mut way = Sequence::default();
        assert_eq!(way.step(&(0..8), true, (256, 10)), Some(8..10));
        assert_eq!(way.step(&(8..10), true, (256, 10)), None);
    }
}
