//! The model's counterpart of the crate's module `sync`: the same names, but every step is one that the model checker
//! (loom) orders in all possible ways. Waits have no time limit here, so that none can hide a lost wake-up.

#[allow(unused_imports, reason = "each model needs some of these")]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Mutex, MutexGuard};

/// In place of a PI mutex: who may hold it when is the same, only priorities are not modelled.
#[derive(Debug)]
pub(crate) struct PiMutex<T>(Mutex<T>);

pub(crate) type PiGuard<'a, T> = MutexGuard<'a, T>;

impl<T> PiMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> PiGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// Runs a test in every interleaving.
pub(crate) fn run(test: impl Fn() + Send + Sync + 'static) {
    loom::model(test);
}

/// Runs a test in every interleaving with at most so many preemptions.
pub(crate) fn run_bounded(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// The kernel's futexes: comparing the word and going to sleep are one step to whoever wakes.
pub(crate) mod futex {
    use super::{AtomicU32, Ordering};
    use freehold_linux::Errno;
    use freehold_linux::clock::MonotonicTime;
    use freehold_linux::futex::Waited;
    use loom::sync::{Condvar, Mutex};

    #[derive(Default)]
    struct Queue {
        /// Of each sleeper: its word and its number.
        asleep: Vec<(usize, usize)>,
        numbers: usize,
    }

    loom::lazy_static! {
        static ref QUEUE: Mutex<Queue> = Mutex::new(Queue::default());
        static ref WOKEN: Condvar = Condvar::new();
    }

    fn address(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }

    pub(crate) fn wait(word: &AtomicU32, expected: u32, _until: Option<MonotonicTime>) -> Result<Waited, Errno> {
        let mut queue = QUEUE.lock().unwrap();
        if word.load(Ordering::Relaxed) != expected {
            return Ok(Waited::Changed);
        }
        queue.numbers += 1;
        let sleeper = (address(word), queue.numbers);
        queue.asleep.push(sleeper);
        while queue.asleep.contains(&sleeper) {
            queue = WOKEN.wait(queue).unwrap();
        }
        Ok(Waited::Woken)
    }

    pub(crate) fn wake(word: &AtomicU32, count: u32) -> usize {
        let mut queue = QUEUE.lock().unwrap();
        let mut woken = 0;
        queue.asleep.retain(|&(at, _)| {
            let wakes = at == address(word) && woken < count as usize;
            woken += usize::from(wakes);
            !wakes
        });
        if woken > 0 {
            WOKEN.notify_all();
        }
        woken
    }
}
