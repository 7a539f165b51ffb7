//! The accesses that a job is about to make, buffered between the generator and the page tables, so that a task can be
//! looked ahead of without being run.

use std::collections::VecDeque;

use freehold_core::units::{PageCount, PageIndex};
use freehold_scenario::{Access, AccessGenerator, Run};

use crate::page_table::PageTables;

/// Stretches buffered at most.
const STRETCHES: usize = 1024;
/// Accesses looked ahead at first; doubled after each look that was not in vain.
const FIRST_LOOK: u32 = 256;
const LONGEST_LOOK: u32 = 1 << 16;

/// Where a look ahead ended, in accesses of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// This access faults.
    Fault(u64),
    /// All before this one can be made; this one was not looked at.
    Clear(u64),
}

impl Ahead {
    pub(crate) const fn access(self) -> u64 {
        match self {
            Self::Fault(access) | Self::Clear(access) => access,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tape {
    generator: AccessGenerator,
    stretches: VecDeque<Run>,
    /// Accesses made; the front of `stretches` is the next.
    made: u64,
    /// The stretch at which the look ahead stands, and how far into it.
    looked: (usize, u32),
    ahead: Ahead,
    /// The task's epoch when it was looked ahead.
    epoch: u64,
    look: u32,
    job: u32,
}

impl Tape {
    pub(crate) fn new(generator: AccessGenerator) -> Self {
        Self {
            generator,
            stretches: VecDeque::with_capacity(STRETCHES),
            made: 0,
            looked: (0, 0),
            ahead: Ahead::Clear(0),
            epoch: 0,
            look: FIRST_LOOK,
            job: 0,
        }
    }

    pub(crate) fn begin_job(&mut self) {
        self.generator.begin_job();
        self.stretches.clear();
        self.made = 0;
        self.looked = (0, 0);
        self.ahead = Ahead::Clear(0);
        // Job numbers start again after 2³² jobs; 0 means "never" in the page tables.
        self.job = self.job.checked_add(1).unwrap_or(1);
    }

    /// Accesses made by the present job.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The next access.
    pub(crate) fn next(&mut self) -> Option<Access> {
        if self.stretches.is_empty() {
            let run = self.generator.next_run(self.look)?;
            self.stretches.push_back(run);
        }
        let run = self.stretches.front()?;
        Some(Access {
            region: run.region,
            page: run.first,
            write: run.write,
        })
    }

    /// Looks ahead: finds the next access that faults, or how far there is none. What was looked at before is looked at
    /// again only if a page of the task was unmapped since.
    pub(crate) fn look_ahead(&mut self, tables: &PageTables, task: usize) -> Ahead {
        let epoch = tables.epoch(task);
        if epoch != self.epoch {
            self.epoch = epoch;
            if self.ahead.access() > self.made {
                self.look = FIRST_LOOK;
            }
            self.forget();
        }
        if matches!(self.ahead, Ahead::Fault(_)) || self.ahead.access() > self.made {
            return self.ahead;
        }
        let mut left = self.look;
        while left > 0 {
            if self.looked.0 == self.stretches.len() {
                if self.stretches.len() == STRETCHES {
                    break;
                }
                let Some(run) = self.generator.next_run(left) else {
                    break;
                };
                self.stretches.push_back(run);
            }
            let run = self.stretches[self.looked.0];
            let len = (run.len.get() - self.looked.1).min(left);
            let first = run.first.get() + self.looked.1;
            let table = tables.table(task, run.region.get());
            let hits = table.map_or(0, |table| table.hits(first, len, run.write));
            self.advance_look(run, hits);
            if hits < len {
                self.ahead = Ahead::Fault(self.ahead.access());
                return self.ahead;
            }
            left -= len;
        }
        self.look = self.look.saturating_mul(2).min(LONGEST_LOOK);
        self.ahead
    }

    fn advance_look(&mut self, run: Run, hits: u32) {
        self.ahead = Ahead::Clear(self.ahead.access() + u64::from(hits));
        self.looked.1 += hits;
        if self.looked.1 == run.len.get() {
            self.looked = (self.looked.0 + 1, 0);
        }
    }

    /// Forgets what was looked ahead.
    fn forget(&mut self) {
        self.looked = (0, 0);
        self.ahead = Ahead::Clear(self.made);
    }

    /// Makes the next `count` accesses: found clear, or just resolved by a fault.
    pub(crate) fn make(&mut self, tables: &mut PageTables, task: usize, count: u64) {
        let mut left = count;
        while left > 0 {
            let Some(run) = self.stretches.front().copied() else {
                break;
            };
            let len = u32::try_from(left).unwrap_or(u32::MAX).min(run.len.get());
            tables.touch(task, run.region.get(), run.first.get(), len, self.job);
            self.drop_front(len);
            left -= u64::from(len);
        }
        if self.ahead.access() < self.made {
            self.forget();
        }
    }

    /// Leaves the next access out.
    pub(crate) fn skip(&mut self) {
        if self.next().is_some() {
            self.drop_front(1);
        }
        self.forget();
    }

    fn drop_front(&mut self, len: u32) {
        let Some(run) = self.stretches.front_mut() else { return };
        self.made += u64::from(len);
        if len == run.len.get() {
            self.stretches.pop_front();
            self.looked = if self.looked.0 == 0 {
                (0, 0)
            } else {
                (self.looked.0 - 1, self.looked.1)
            };
            return;
        }
        run.first = PageIndex::new(run.first.get() + len);
        run.len = PageCount::new(run.len.get() - len);
        if self.looked.0 == 0 {
            self.looked.1 = self.looked.1.saturating_sub(len);
        }
    }
}
