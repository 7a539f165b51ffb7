//! What is known of a thread's jobs where context switches cannot be recorded: CPU time and blocks of each period.

use freehold_linux::ThreadId;

/// One period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// CPU time in nanoseconds.
    pub(super) cpu: u64,
    /// Time that it waited for a CPU, in nanoseconds.
    pub(super) cpu_wait: u64,
    /// It has run and never blocked of its own accord.
    pub(super) never_blocked: bool,
}

/// Counts of a thread as they were at the last look.
#[derive(Debug)]
pub(super) struct Poll {
    folder: String,
    last: Option<(u64, u64, u64)>,
}

impl Poll {
    /// Begins with what has happened so far.
    pub(super) fn new(thread: ThreadId) -> Self {
        let folder = format!("/proc/{}/task/{}", thread.get(), thread.get());
        let last = look(&folder);
        Self { folder, last }
    }

    /// What has happened since the last look; nothing once the thread has ended.
    pub(super) fn period(&mut self) -> Option<Used> {
        let now = look(&self.folder)?;
        let before = self.last.replace(now)?;
        let cpu = now.0.saturating_sub(before.0);
        Some(Used {
            cpu,
            cpu_wait: now.1.saturating_sub(before.1),
            never_blocked: cpu > 0 && now.2 == before.2,
        })
    }
}

fn look(folder: &str) -> Option<(u64, u64, u64)> {
    let statistics = std::fs::read_to_string(format!("{folder}/schedstat")).ok()?;
    let mut numbers = statistics.split_whitespace().map(str::parse);
    let (cpu, wait) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let status = std::fs::read_to_string(format!("{folder}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Some((cpu, wait, line?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_blocked_and_one_that_computes_has_not() {
        let mut poll = Poll::new(ThreadId::current());
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(!poll.period().unwrap().never_blocked);
        let mut used = 0;
        while used == 0 {
            // The count of CPU time may be as old as the last tick.
            let period = poll.period().unwrap();
            used += period.cpu;
        }
    }

    #[test]
    fn a_thread_that_is_gone_has_no_more_periods() {
        let thread = std::thread::spawn(ThreadId::current).join().unwrap();
        let mut poll = Poll::new(thread);
        // A thread may be joined a moment before the kernel has taken it out of `/proc`.
        while std::path::Path::new(&poll.folder).exists() {
            std::thread::yield_now();
        }
        assert_eq!(poll.period(), None);
    }
}
