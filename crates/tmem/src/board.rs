//! Jobs that components do on their own, such as answers to requests from outside: how many, and how late.
//!
//! A page that the components of a process and their manager share. What stands there is the components' word.

use crate::channel::ChannelError;
use crate::job;
use freehold_linux::memory::{Access, Memfd, SharedMapping};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The page.
#[derive(Debug)]
pub struct Board {
    memory: Memfd,
    mapping: SharedMapping,
}

#[repr(C)]
struct Slot {
    jobs: AtomicU64,
    late: AtomicU64,
    tardiness: AtomicU64,
    response: AtomicU64,
}

const _: () = assert!(size_of::<[Slot; job::MOST]>() <= freehold_linux::PAGE_SIZE);

/// Jobs of one number, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobRecord {
    /// How many have ended.
    pub jobs: u64,
    /// How many of these took longer than their target.
    pub late: u64,
    /// By how much, in all.
    pub tardiness: Duration,
    /// How long all took.
    pub response: Duration,
}

impl JobRecord {
    /// Both together. The numbers are claims: a sum that is too large stays the largest.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            late: self.late.saturating_add(other.late),
            tardiness: self.tardiness.saturating_add(other.tardiness),
            response: self.response.saturating_add(other.response),
        }
    }
}

impl Board {
    /// Makes the page.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub fn create() -> Result<Self, ChannelError> {
        Self::map(Memfd::create_sealed(c"freehold-jobs", 1, false)?)
    }

    /// Opens the page of a manager.
    ///
    /// # Errors
    /// See [`ChannelError`].
    pub fn open(memory: OwnedFd) -> Result<Self, ChannelError> {
        Self::map(Memfd::adopt(memory, 1)?)
    }

    fn map(memory: Memfd) -> Result<Self, ChannelError> {
        let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite)?;
        Ok(Self { memory, mapping })
    }

    /// A job has ended that took so long. Numbers that are no job's are passed over.
    pub fn note(&self, job: u32, response: Duration, target: Option<Duration>) {
        let Some(slot) = self.slot(job) else { return };
        let tardiness = target.map_or(Duration::ZERO, |target| response.saturating_sub(target));
        slot.jobs.fetch_add(1, Ordering::Relaxed);
        slot.late.fetch_add(u64::from(!tardiness.is_zero()), Ordering::Relaxed);
        slot.tardiness.fetch_add(nanos(tardiness), Ordering::Relaxed);
        slot.response.fetch_add(nanos(response), Ordering::Relaxed);
    }

    /// What was noted of a job.
    #[must_use]
    pub fn read(&self, job: u32) -> JobRecord {
        self.slot(job).map_or_else(JobRecord::default, |slot| JobRecord {
            jobs: slot.jobs.load(Ordering::Relaxed),
            late: slot.late.load(Ordering::Relaxed),
            tardiness: Duration::from_nanos(slot.tardiness.load(Ordering::Relaxed)),
            response: Duration::from_nanos(slot.response.load(Ordering::Relaxed)),
        })
    }

    fn slot(&self, job: u32) -> Option<&Slot> {
        // SAFETY: the page has room for as many, as is asserted above, and lives as long as `self`; they are atomics.
        let slots = unsafe { &*self.mapping.base().cast::<[Slot; job::MOST]>() };
        slots.get(job.checked_sub(1)? as usize)
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Board, JobRecord};
    use rustix::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn jobs_are_counted_by_number_and_late_beyond_their_target() {
        let board = Board::create().unwrap();
        let component = Board::open(board.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let ms = Duration::from_millis;
        component.note(64, ms(5), Some(ms(3)));
        component.note(64, ms(2), Some(ms(3)));
        component.note(1, ms(9), None);
        for none in [0, 65, u32::MAX] {
            component.note(none, ms(1), None);
            assert_eq!(board.read(none), JobRecord::default());
        }
        let record = board.read(64);
        assert_eq!((record.jobs, record.late), (2, 1));
        assert_eq!((record.tardiness, record.response), (ms(2), ms(7)));
        assert_eq!((board.read(1).jobs, board.read(1).late), (1, 0));
    }
}
