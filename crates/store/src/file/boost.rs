//! The priority of the file store's threads: real-time while an urgent request waits, time sharing otherwise.
//!
//! With a high priority at all times they would do best-effort transfers in front of every real-time task. So a thread
//! that enters or lifts an urgent request gives them their priority, and the end of the last urgent request takes it
//! away. Meanwhile they also end other transfers of the device, at most as many as the device serves at a time.

use freehold_linux::ThreadId;
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{Policy, SetPolicyError, set_policy};
use std::sync::OnceLock;

/// How the threads run while nobody hurries.
const CALM: Policy = Policy::Other { nice: 0 };

/// The threads, and how many requests are urgent.
#[derive(Debug)]
pub(super) struct Boost {
    /// What to boost, and how far; empty where no priority is wanted or to be had.
    threads: OnceLock<(Vec<ThreadId>, u32)>,
    hurried: PiMutex<u32>,
}

impl Boost {
    /// Nobody hurries, and nothing is boosted before [`Boost::set`].
    pub(super) fn new() -> Self {
        Self {
            threads: OnceLock::new(),
            hurried: PiMutex::new(0),
        }
    }

    /// Whether the calling thread may be given this priority. It runs under time sharing afterwards.
    pub(super) fn try_here(priority: u32) -> Result<(), SetPolicyError> {
        let me = ThreadId::current();
        set_policy(me, Policy::Fifo { priority })?;
        set_policy(me, CALM)
    }

    /// These threads are to be boosted to `priority`. They must live as long as requests are entered.
    pub(super) fn set(&self, threads: Vec<ThreadId>, priority: u32) {
        // A store starts its threads once, so nothing is set yet.
        let _ = self.threads.set((threads, priority));
    }

    /// One more request hurries if `begins`, asked under the lock, says so. The first costs a system call a thread.
    pub(super) fn more(&self, begins: impl FnOnce() -> bool) {
        let mut hurried = self.hurried.lock();
        if begins() {
            *hurried += 1;
            if *hurried == 1 {
                self.apply(|priority| Policy::Fifo { priority });
            }
        }
    }

    /// One request hurries less if `ends`, asked under the lock, says so. The last costs a system call a thread.
    pub(super) fn fewer(&self, ends: impl FnOnce() -> bool) {
        let mut hurried = self.hurried.lock();
        if ends() {
            *hurried -= 1;
            if *hurried == 0 {
                self.apply(|_| CALM);
            }
        }
    }

    fn apply(&self, policy: impl Fn(u32) -> Policy) {
        let Some((threads, priority)) = self.threads.get() else {
            return;
        };
        for &thread in threads {
            // It was possible when the store was made. Without, the transfer is late and nothing is wrong.
            let _ = set_policy(thread, policy(*priority));
        }
    }
}
