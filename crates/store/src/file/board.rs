//! What submitters and the store's threads share: requests that wait, and how far each transfer has come.

use super::boost::Boost;
use crate::attempts::{Verdict, judge};
use crate::error::StoreError;
use crate::faults::{Faults, torn};
use crate::queue::UrgencyQueue;
use crate::slots::{Mark, Slot, SlotTable};
use crate::store::{Completion, Urgency};
use crate::tally::Tally;
use freehold_linux::event::Event;
use freehold_linux::memory::PageLease;
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::ring::Direction;
use freehold_linux::{Errno, futex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

// How far a transfer has come: the lowest bits of its word, which is also a futex. Above them are the number of the
// attempt while it is under way, and the error when it has failed.
const IDLE: u32 = 0;
const UNDER_WAY: u32 = 1;
const ENDED: u32 = 2;
const FAILED: u32 = 3;
const STATES: u32 = 0xf;
const DETAIL: u32 = 4;

/// An attempt that a thread of the store is to make.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) slot: Slot,
    pub(super) direction: Direction,
    pub(super) page: PageLease,
    pub(super) length: usize,
}

/// Everything but the threads.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) slots: SlotTable,
    progress: Box<[AtomicU32]>,
    queue: PiMutex<UrgencyQueue>,
    /// Requests submitted since the threads were last told.
    unannounced: AtomicU64,
    /// The one thread of io_uring has been told and has not looked since.
    told: AtomicBool,
    pub(super) event: Arc<Event>,
    pub(super) stopping: AtomicBool,
    /// Who waits for an end in [`Board::wait`].
    waiting: AtomicU32,
    pub(super) boost: Boost,
    pub(super) faults: Faults,
    pub(super) tally: Tally,
    completion: Arc<dyn Completion>,
}

impl Board {
    pub(super) fn new(slots: u32, event: Arc<Event>, completion: Arc<dyn Completion>) -> Self {
        Self {
            slots: SlotTable::new(slots),
            progress: (0..slots).map(|_| AtomicU32::new(IDLE)).collect(),
            queue: PiMutex::new(UrgencyQueue::new(slots)),
            unannounced: AtomicU64::new(0),
            told: AtomicBool::new(false),
            event,
            stopping: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            boost: Boost::new(),
            faults: Faults::default(),
            tally: Tally::default(),
            completion,
        }
    }

    /// Enters a request. The threads are told by [`Board::announce_to_one`] or [`Board::announce_to_each`].
    pub(super) fn submit(&self, slot: Slot, urgency: Urgency, page: PageLease) {
        self.slots.keep(slot, page);
        self.progress[slot.index()].store(UNDER_WAY, Ordering::Release);
        self.queue.lock().push(slot, urgency);
        self.boost_for(slot, urgency);
        self.unannounced.fetch_add(1, Ordering::AcqRel);
    }

    /// Rings once, unless the one thread is about to look anyway.
    pub(super) fn announce_to_one(&self) {
        if self.unannounced.swap(0, Ordering::AcqRel) > 0 && !self.told.swap(true, Ordering::AcqRel) {
            self.event.signal(1);
        }
    }

    /// Rings for each request, so that each wakes a thread.
    pub(super) fn announce_to_each(&self) {
        self.event.signal(self.unannounced.swap(0, Ordering::AcqRel));
    }

    /// The one thread looks now: whatever comes after this rings again.
    pub(super) fn looks(&self) {
        self.told.swap(false, Ordering::AcqRel);
    }

    pub(super) fn raise(&self, slot: Slot, urgency: Urgency) {
        self.queue.lock().raise(slot, urgency);
        self.boost_for(slot, urgency);
    }

    /// Notes that somebody hurries for a transfer, unless it has ended or that is known.
    fn boost_for(&self, slot: Slot, urgency: Urgency) {
        if urgency == Urgency::BACKGROUND {
            return;
        }
        self.boost.more(|| {
            let begins = !self.has_ended(slot) && !self.slots.has(slot, Mark::HURRIED);
            if begins {
                self.slots.set(slot, Mark::HURRIED);
            }
            begins
        });
    }

    /// A transfer is under way no more, so nobody hurries for it: both at once, or a lift could come in between.
    fn leave(&self, slot: Slot, state: u32) {
        self.boost.fewer(|| {
            self.progress[slot.index()].store(state, Ordering::SeqCst);
            self.slots.clear(slot, Mark::HURRIED)
        });
    }

    /// The most urgent request, ready to be attempted. Those that are to fail are ended on the way.
    pub(super) fn next_job(&self) -> Option<Job> {
        loop {
            let slot = self.queue.lock().pop()?;
            if self.slots.clear(slot, Mark::STRUCK) {
                self.end(slot, Err(Errno::IO));
                continue;
            }
            let Ok(page) = self.slots.take(slot) else {
                // A request without a page was cancelled.
                continue;
            };
            let write = self.slots.has(slot, Mark::WRITE);
            let page = if write && self.slots.clear(slot, Mark::TORN) {
                self.tear(page)
            } else {
                page
            };
            return Some(Job {
                slot,
                direction: if write { Direction::Write } else { Direction::Read },
                page,
                length: crate::attempts::length(&self.faults),
            });
        }
    }

    /// A page whose second half is rubbish, as a device that loses power leaves it.
    fn tear(&self, page: PageLease) -> PageLease {
        let mut other = PageLease::allocated();
        *other.bytes_mut() = torn(page.bytes());
        // The page itself is done with: nobody reads a page that was written.
        drop(page);
        other
    }

    /// Takes the result of an attempt; the job is returned if it is to be attempted again.
    pub(super) fn attempted(&self, mut job: Job, result: Result<usize, Errno>) -> Option<Job> {
        let word = &self.progress[job.slot.index()];
        let attempt = (word.load(Ordering::Acquire) >> DETAIL) + 1;
        match judge(attempt, result, &self.tally) {
            Verdict::Complete => self.end(job.slot, Ok(job.page)),
            Verdict::Failed(errno) => {
                // The loan ends before anybody is told that the transfer has.
                drop(job.page);
                self.end(job.slot, Err(errno));
            }
            Verdict::Again => {
                word.store(UNDER_WAY | attempt << DETAIL, Ordering::Release);
                job.length = crate::attempts::length(&self.faults);
                return Some(job);
            }
        }
        None
    }

    fn end(&self, slot: Slot, result: Result<PageLease, Errno>) {
        let state = match result {
            Ok(page) => {
                self.slots.keep(slot, page);
                ENDED
            }
            Err(errno) => {
                // A struck request still has its page here.
                drop(self.slots.take(slot));
                FAILED | errno.raw_os_error().unsigned_abs() << DETAIL
            }
        };
        let word = &self.progress[slot.index()];
        self.leave(slot, state);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            futex::wake(word, u32::MAX);
        }
        self.completion.ended(slot);
    }

    /// Whether the transfer of a slot has ended.
    pub(super) fn has_ended(&self, slot: Slot) -> bool {
        self.state(slot) != UNDER_WAY
    }

    /// Waits for the transfer of a slot and takes what came of it: the page.
    pub(super) fn finish(&self, slot: Slot) -> Result<PageLease, StoreError> {
        self.slots.check(slot)?;
        self.wait(slot);
        let word = self.progress[slot.index()].swap(IDLE, Ordering::AcqRel);
        match word & STATES {
            ENDED => self.slots.take(slot),
            FAILED => {
                let errno = Errno::from_raw_os_error((word >> DETAIL).cast_signed());
                Err(StoreError::Io { slot, errno })
            }
            _ => Err(StoreError::NotUnderWay(slot)),
        }
    }

    /// Takes a request back, or waits for its end if it is at the device.
    pub(super) fn cancel(&self, slot: Slot) {
        if self.slots.check(slot).is_err() {
            return;
        }
        let waited = self.queue.lock().remove(slot);
        if waited {
            self.leave(slot, IDLE);
            drop(self.slots.take(slot));
        } else {
            drop(self.finish(slot));
        }
        self.slots.clear(slot, Mark::STRUCK);
        self.slots.clear(slot, Mark::TORN);
    }

    fn wait(&self, slot: Slot) {
        if self.has_ended(slot) {
            return;
        }
        let word = &self.progress[slot.index()];
        self.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            let seen = word.load(Ordering::SeqCst);
            if seen & STATES != UNDER_WAY {
                break;
            }
            // However the wait ends: the word decides.
            let _ = futex::wait(word, seen, None);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn state(&self, slot: Slot) -> u32 {
        self.progress[slot.index()].load(Ordering::Acquire) & STATES
    }
}
