//! Threads that do for one user what may take as long as he likes: each waits for his descriptors and files alone.
//!
//! Whoever has something to be done hands it over and goes on. A thread is started for a user when there is something
//! for him, and ends when there has been nothing for a while. Wakeups are never lost.

use freehold_linux::event::Wakeup;
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{ThreadId, service};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a user's thread waits for more.
const IDLE: Duration = Duration::from_secs(2);
/// After this a thread is started again that the machine did not have, and is looked whether there is anything where
/// there was no descriptor for a wakeup.
const AGAIN: Duration = Duration::from_millis(50);

/// Something to be done.
pub(crate) type Errand = Box<dyn FnOnce() + Send>;

/// For what a user has a thread: what is slow of one kind keeps nothing of another waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// To close what he has lent.
    Closing,
    /// To drop what the server had for clients of his that have ended.
    DropZombie,
    /// To give frames back for which others wait.
    Holes,
}

type Name = (u32, Work);

/// All of them. The threads end with the last of whom this is.
#[derive(Clone, Debug)]
pub(crate) struct UserThreads(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    queues: PiMutex<BTreeMap<Name, Arc<Queue>>>,
    starts: Arc<Starts>,
}

/// What is to be done for one user.
struct Queue {
    errands: PiMutex<VecDeque<Errand>>,
    wakeup: Wakeable,
}

/// Threads that are to be started.
#[derive(Debug)]
struct Starts {
    wanted: PiMutex<Vec<(Name, Arc<Queue>)>>,
    wakeup: Wakeable,
    over: AtomicBool,
    /// SCHED_FIFO priority of threads for which others wait.
    priority: u32,
}

/// Wakes one thread. Where there was no descriptor for it, that looks now and then by itself.
#[derive(Debug)]
struct Wakeable(Option<Wakeup>);

impl UserThreads {
    /// Starts the thread that starts the others; `priority` is the SCHED_FIFO priority of those that others wait for.
    ///
    /// # Errors
    /// The system's refusal of a thread.
    pub(crate) fn start(priority: u32) -> std::io::Result<Self> {
        let starts = Arc::new(Starts {
            wanted: PiMutex::new(Vec::new()),
            wakeup: Wakeable::new(),
            over: AtomicBool::new(false),
            priority,
        });
        let desk = Arc::new(Desk {
            queues: PiMutex::new(BTreeMap::new()),
            starts: Arc::clone(&starts),
        });
        let weak = Arc::downgrade(&desk);
        service::spawn("for users", move || starts.serve(&weak))?;
        Ok(Self(desk))
    }

    /// Has something done by the thread of a user, after what was handed over for him before.
    pub(crate) fn give(&self, user: u32, work: Work, errand: Errand) {
        let name = (user, work);
        let mut queues = self.0.queues.lock();
        let queue = queues.entry(name).or_insert_with(|| {
            let queue = Arc::new(Queue {
                errands: PiMutex::new(VecDeque::new()),
                wakeup: Wakeable::new(),
            });
            self.0.starts.wanted.lock().push((name, Arc::clone(&queue)));
            self.0.starts.wakeup.signal();
            queue
        });
        queue.errands.lock().push_back(errand);
        queue.wakeup.signal();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.starts.over.store(true, Ordering::SeqCst);
        self.starts.wakeup.signal();
    }
}

impl Desk {
    /// Whether a thread may end, because there is nothing to do.
    fn lets_go(&self, name: Name, queue: &Queue) -> bool {
        let mut queues = self.queues.lock();
        let idle = queue.errands.lock().is_empty();
        if idle {
            queues.remove(&name);
        }
        idle
    }
}

impl Starts {
    fn serve(&self, desk: &Weak<Desk>) {
        let mut is_short = false;
        while !self.over.load(Ordering::SeqCst) {
            let all = std::mem::take(&mut *self.wanted.lock());
            let mut refused = Vec::new();
            for (name, queue) in all {
                if let Err(error) = self.start(name, &queue, desk) {
                    if !is_short && refused.is_empty() {
                        tracing::error!(user = name.0, %error, "no thread for what may wait for a user; trying again");
                    }
                    refused.push((name, queue));
                }
            }
            is_short = !refused.is_empty();
            let wait = is_short.then_some(AGAIN);
            self.wanted.lock().append(&mut refused);
            self.wakeup.wait(wait);
        }
    }

    /// Starts the thread of a user, where the machine has one.
    fn start(&self, name: Name, queue: &Arc<Queue>, desk: &Weak<Desk>) -> std::io::Result<()> {
        let (user, work) = name;
        let called = match work {
            Work::Closing => format!("closing {user}"),
            Work::DropZombie => format!("burial {user}"),
            Work::Holes => format!("holes {user}"),
        };
        let (queue, desk, priority) = (Arc::clone(queue), Weak::clone(desk), self.priority);
        service::spawn(&called, move || {
            if work == Work::Holes {
                // Where it is refused, it is late where CPUs are busy: pager threads say so of the same priority.
                let _ = sched::set_policy(ThreadId::current(), Policy::Fifo { priority });
            }
            queue.work(name, &desk);
        })
        .map(drop)
    }
}

impl Queue {
    fn work(&self, name: Name, desk: &Weak<Desk>) {
        loop {
            let woken = self.wakeup.wait(Some(IDLE));
            let mut any = false;
            while let Some(errand) = self.take() {
                errand();
                any = true;
            }
            if any || woken {
                continue;
            }
            if desk.upgrade().is_none_or(|desk| desk.lets_go(name, self)) {
                return;
            }
        }
    }

    fn take(&self) -> Option<Errand> {
        self.errands.lock().pop_front()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} errands", self.errands.lock().len())
    }
}

impl Wakeable {
    fn new() -> Self {
        Self(Wakeup::new().ok())
    }

    fn signal(&self) {
        if let Some(wakeup) = &self.0 {
            wakeup.signal();
        }
    }

    /// Waits for a signal, at most so long; whether it came. It may return too early.
    fn wait(&self, most: Option<Duration>) -> bool {
        let Some(wakeup) = &self.0 else {
            std::thread::sleep(AGAIN.min(most.unwrap_or(AGAIN)));
            return false;
        };
        let woken = wakeup.wait(most);
        wakeup.clear();
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::{UserThreads, Work};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn errands_of_a_user_are_done_in_order_and_wait_for_no_other_user_or_kind() {
        let threads = UserThreads::start(1).unwrap();
        let ((go, wait), (tell, told)) = (channel::<()>(), channel());
        let say = |what: u32| {
            let tell = tell.clone();
            move || tell.send(what).unwrap()
        };
        let stuck = say(1);
        threads.give(
            7,
            Work::Closing,
            Box::new(move || {
                wait.recv().unwrap();
                stuck();
            }),
        );
        threads.give(7, Work::Closing, Box::new(say(2)));
        threads.give(8, Work::Closing, Box::new(say(3)));
        assert_eq!(told.recv_timeout(LONG), Ok(3));
        threads.give(7, Work::Holes, Box::new(say(4)));
        assert_eq!(told.recv_timeout(LONG), Ok(4));
        go.send(()).unwrap();
        assert_eq!((told.recv_timeout(LONG), told.recv_timeout(LONG)), (Ok(1), Ok(2)));
    }

    #[test]
    fn threads_end_when_nothing_comes_and_are_started_again() {
        let threads = UserThreads::start(1).unwrap();
        for round in 0..2 {
            let (tell, told) = channel();
            threads.give(round, Work::Closing, Box::new(move || tell.send(()).unwrap()));
            assert_eq!(told.recv_timeout(LONG), Ok(()));
        }
        while !threads.0.queues.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (tell, told) = channel();
        threads.give(0, Work::Closing, Box::new(move || tell.send(()).unwrap()));
        assert_eq!(told.recv_timeout(LONG), Ok(()));
    }
}
