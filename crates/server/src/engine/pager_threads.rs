//! The pager threads: which CPU each has, what it waits on, and what it has done.

use crate::error::EngineError;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

/// All of them, by number.
#[derive(Debug)]
pub(super) struct PagerThreads {
    rows: Vec<PagerThread>,
    cpus: Vec<usize>,
    /// The real-time priority that they are to have.
    priority: u32,
}

/// One of them.
#[derive(Debug)]
struct PagerThread {
    poll: OwnedFd,
    real_time: Result<u32, String>,
    rounds: u64,
    /// When its next dispatch is at the latest.
    due: Option<u64>,
}

impl PagerThreads {
    /// One on each of these CPUs; none has started.
    pub(super) fn new(cpus: Vec<usize>, priority: u32) -> Result<Self, EngineError> {
        let make = |_: &usize| {
            Ok(PagerThread {
                poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
                real_time: Err("it has not started".to_owned()),
                rounds: 0,
                due: None,
            })
        };
        let rows: rustix::io::Result<_> = cpus.iter().map(make).collect();
        Ok(Self {
            rows: rows.map_err(EngineError::system("an epoll could not be made"))?,
            cpus,
            priority,
        })
    }

    pub(super) fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    pub(super) fn priority(&self) -> u32 {
        self.priority
    }

    /// What a pager thread waits on.
    pub(super) fn poll(&self, pager: usize) -> Option<&OwnedFd> {
        self.rows.get(pager).map(|row| &row.poll)
    }

    /// The CPU of each, its real-time priority or why it has none, and its dispatches.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Result<u32, String>, u64)> {
        let rows = self.cpus.iter().zip(&self.rows);
        rows.map(|(cpu, row)| (*cpu, &row.real_time, row.rounds))
    }

    pub(super) fn note_priority(&mut self, pager: usize, prepared: Result<u32, String>) {
        if let Some(row) = self.rows.get_mut(pager) {
            row.real_time = prepared;
        }
    }

    pub(super) fn count_dispatch(&mut self, pager: usize) {
        if let Some(row) = self.rows.get_mut(pager) {
            row.rounds += 1;
        }
    }

    pub(super) fn note_due(&mut self, pager: usize, due: Option<u64>) {
        if let Some(row) = self.rows.get_mut(pager) {
            row.due = due;
        }
    }

    /// Whether all of them sleep for longer than until `due`.
    pub(super) fn sleep_past(&self, due: u64) -> bool {
        self.rows.iter().all(|row| row.due.is_none_or(|until| until > due))
    }
}
