//! Threads that serve connections. A few wait for the next one: to make a thread takes as long as to open a device.

use freehold_linux::thread::{self, Thread};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that wait for work, at most.
const SPARE: usize = 2;

/// Something to be done by a thread of its own.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Threads {
    state: Mutex<State>,
    /// There is work, or the end has come.
    work: Condvar,
}

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// Threads that wait for work.
    spare: usize,
    threads: Vec<Thread<()>>,
    stopped: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("State")
            .field("work", &self.work.len())
            .field("spare", &self.spare)
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

impl Threads {
    /// Has a spare thread do something, or a new one: it begins at once, whatever others wait for.
    ///
    /// # Errors
    /// A thread cannot be made: nothing is done.
    pub(super) fn begin(self: &Arc<Self>, work: Work) -> io::Result<()> {
        let mut state = self.state();
        if state.spare > state.work.len() {
            state.work.push_back(work);
            drop(state);
            self.work.notify_one();
            return Ok(());
        }
        state.threads.retain(|thread| !thread.is_finished());
        let threads = Arc::clone(self);
        let run = move || {
            work();
            while let Some(work) = threads.next() {
                work();
            }
        };
        let thread = thread::spawn("device", run)?;
        state.threads.push(thread);
        Ok(())
    }

    /// The next thing to do; `None` where enough threads wait for that, or the end has come.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        if state.spare >= SPARE {
            return None;
        }
        state.spare += 1;
        while state.work.is_empty() && !state.stopped {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.spare -= 1;
        state.work.pop_front()
    }

    /// Waits until all threads have ended. Whatever they do must end by then, or by another's word.
    pub(super) fn join(&self) {
        loop {
            let mut state = self.state();
            state.stopped = true;
            let threads = std::mem::take(&mut state.threads);
            drop(state);
            self.work.notify_all();
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                let _ = thread.join();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_linux::ThreadId;
    use std::collections::BTreeSet;
    use std::sync::mpsc;

    /// Ten things that each wait until all have begun: none waits for another's thread.
    fn begin_ten(threads: &Arc<Threads>) -> BTreeSet<u32> {
        let (sender, names) = mpsc::channel();
        let together = Arc::new(std::sync::Barrier::new(10));
        for _ in 0..10 {
            let (sender, together) = (sender.clone(), Arc::clone(&together));
            let work = move || {
                together.wait();
                let _ = sender.send(ThreadId::current().get());
            };
            threads.begin(Box::new(work)).unwrap();
        }
        drop(sender);
        names.iter().collect()
    }

    #[test]
    fn nothing_waits_for_a_thread_and_two_threads_are_kept() {
        let threads = Arc::new(Threads::default());
        let before = begin_ten(&threads);
        assert_eq!(before.len(), 10);
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while threads.state().spare < SPARE {
            assert!(std::time::Instant::now() < limit, "no thread is kept");
            std::thread::yield_now();
        }
        let (sender, names) = mpsc::channel();
        let work = move || {
            let _ = sender.send(ThreadId::current().get());
        };
        threads.begin(Box::new(work)).unwrap();
        assert!(
            before.contains(&names.recv().unwrap()),
            "a thread that was kept does it"
        );
        threads.join();
        let state = threads.state();
        assert_eq!((state.spare, state.threads.len()), (0, 0));
    }
}
