//! What clients have lent: descriptors of theirs, closed where nobody else waits.
//!
//! To close a descriptor can take as long as its owner likes: a userfaultfd waits for the address space that it is of,
//! a file that is deleted for the disk. So whatever is dropped last, wherever that is, is closed by a thread that
//! closes for one user only.

use crate::user_threads::{UserThreads, Work};
use freehold_linux::pi_mutex::PiMutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// Closes for everybody.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    threads: UserThreads,
    waiting: Waiting,
}

/// What of each user is not closed yet.
#[derive(Clone, Debug)]
struct Waiting(Arc<PiMutex<BTreeMap<u32, u32>>>);

/// A thing of a client's: it is dropped by the thread that closes for its user.
pub(crate) struct Lent<T: Send + Sync + 'static> {
    thing: Arc<T>,
    user: u32,
    closing: Closing,
}

/// One thing of a user's that is to be closed, as long as it is not.
struct Waits(Waiting, u32);

/// A file that clients have sent, and that several read.
pub(crate) type LentFile = Arc<Lent<OwnedFd>>;

/// One of those, as long as somebody has it.
pub(crate) type WeakFile = Weak<Lent<OwnedFd>>;

impl Closing {
    /// By these threads.
    pub(crate) fn by(threads: UserThreads) -> Self {
        Self {
            threads,
            waiting: Waiting(Arc::new(PiMutex::new(BTreeMap::new()))),
        }
    }

    /// By threads of its own, for tests.
    ///
    /// # Errors
    /// The system's refusal of a thread.
    #[cfg(test)]
    pub(crate) fn start() -> std::io::Result<Self> {
        UserThreads::start(1).map(Self::by)
    }

    /// Takes note that a user has lent something.
    pub(crate) fn lend<T: Send + Sync>(&self, user: u32, thing: T) -> Lent<T> {
        Lent {
            thing: Arc::new(thing),
            user,
            closing: self.clone(),
        }
    }

    /// How much of a user's is not closed yet although nobody needs it any more.
    pub(crate) fn waiting(&self, user: u32) -> u32 {
        self.waiting.0.lock().get(&user).copied().unwrap_or(0)
    }

    /// Users of whom something is not closed yet although nobody needs it any more.
    pub(crate) fn users(&self) -> BTreeSet<u32> {
        self.waiting.0.lock().keys().copied().collect()
    }
}

impl Waits {
    fn begin(waiting: &Waiting, user: u32) -> Self {
        *waiting.0.lock().entry(user).or_default() += 1;
        Self(waiting.clone(), user)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let Self(waiting, user) = self;
        let mut users = waiting.0.lock();
        if let Some(count) = users.get_mut(user) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                users.remove(user);
            }
        }
    }
}

impl<T: Send + Sync> Lent<T> {
    /// The thing, to change it.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.thing)
    }

    /// The user who has lent it.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// Takes note that the same user has lent something else.
    pub(crate) fn lend_too<U: Send + Sync>(&self, thing: U) -> Lent<U> {
        self.closing.lend(self.user, thing)
    }
}

impl<T: Send + Sync> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.thing
    }
}

impl<T: Send + Sync + AsFd> AsFd for Lent<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thing.as_fd()
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for Lent<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thing.fmt(formatter)
    }
}

impl<T: Send + Sync + 'static> Drop for Lent<T> {
    fn drop(&mut self) {
        let thing = Arc::clone(&self.thing);
        let waits = Waits::begin(&self.closing.waiting, self.user);
        let close = move || {
            drop_last(thing);
            drop(waits);
        };
        self.closing.threads.give(self.user, Work::Closing, Box::new(close));
    }
}

/// Drops a thing as the last who has it: the other is just letting go.
fn drop_last<T>(mut thing: Arc<T>) {
    while let Err(shared) = Arc::try_unwrap(thing) {
        thing = shared;
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::Closing;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Something whose dropping waits until it is told to go on.
    struct Slow(Mutex<Receiver<()>>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.lock().unwrap().recv();
            let _ = self.1.send(());
        }
    }

    fn slow() -> (Slow, Sender<()>, Receiver<()>) {
        let ((go, wait), (tell, told)) = (channel(), channel());
        (Slow(Mutex::new(wait), tell), go, told)
    }

    #[test]
    fn whoever_makes_closing_wait_waits_alone() {
        const LONG: Duration = Duration::from_secs(20);
        let closing = Closing::start().unwrap();
        let (stuck, go, told) = slow();
        drop(closing.lend(7, stuck));
        let (quick, go_quick, told_quick) = slow();
        go_quick.send(()).unwrap();
        // The last of two who have it.
        let shared = Arc::new(closing.lend(8, quick));
        let other = Arc::clone(&shared);
        drop(shared);
        assert_eq!(closing.waiting(8), 0);
        drop(other);
        told_quick.recv_timeout(LONG).unwrap();
        assert!(told.try_recv().is_err());
        let (next, go_next, told_next) = slow();
        go_next.send(()).unwrap();
        drop(closing.lend(7, next));
        assert_eq!(closing.waiting(7), 2);
        go.send(()).unwrap();
        told.recv_timeout(LONG).unwrap();
        told_next.recv_timeout(LONG).unwrap();
        while closing.waiting(7) > 0 {
            std::thread::yield_now();
        }
    }
}
