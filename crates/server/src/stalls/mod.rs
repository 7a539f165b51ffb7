//! Steps of the engine that do not end, because a client's address space is held.
//!
//! Whoever maps or protects pages of a client waits for the client's address space. The client's own threads keep that
//! while the kernel waits for a file of theirs in the middle of a change of it, and a file system of the user's own
//! (FUSE) may never answer. Not even the client's death ends such a wait: only the end of the file system does. So a
//! thread looks that the engine goes on, and ends the file systems of whoever keeps it from going on.

mod watch;

pub(crate) use watch::{Watch, end_unanswered};

use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::userfault::Calls;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a user who has held up the engine has no clients.
const BARRED: Duration = Duration::from_secs(60);

/// Whose address spaces the engine works on, and who has held it up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls(Arc<Book>);

#[derive(Debug)]
struct Book {
    lent: PiMutex<Vec<(u32, Calls)>>,
    barred: PiMutex<BTreeMap<u32, Instant>>,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            lent: PiMutex::new(Vec::new()),
            barred: PiMutex::new(BTreeMap::new()),
        }
    }
}

impl Stalls {
    /// Takes note of a userfaultfd of a user. Those that are gone are forgotten when as many have come.
    pub(crate) fn note(&self, user: u32, calls: &Calls) {
        let mut lent = self.0.lent.lock();
        if lent.len() == lent.capacity() {
            lent.retain(|(_, calls)| !calls.are_over());
            let count = lent.len();
            lent.reserve(count.max(64));
        }
        lent.push((user, calls.clone()));
    }

    /// Whose address space is being worked on.
    fn held_by(&self) -> Option<u32> {
        let lent = self.0.lent.lock();
        let found = lent.iter().find(|(_, calls)| calls.are_under_way());
        found.map(|(user, _)| *user)
    }

    fn bar(&self, user: u32) {
        self.0.barred.lock().insert(user, Instant::now() + BARRED);
    }

    /// Whether a user has held up the engine lately.
    pub(crate) fn is_barred(&self, user: u32) -> bool {
        let mut barred = self.0.barred.lock();
        barred.retain(|_, until| *until > Instant::now());
        barred.contains_key(&user)
    }
}

#[cfg(test)]
mod tests {
    use super::Stalls;
    use freehold_linux::userfault::Calls;

    #[test]
    fn what_is_gone_is_forgotten() {
        let stalls = Stalls::default();
        let kept = Calls::default();
        stalls.note(1, &kept);
        for user in 0..10_000 {
            stalls.note(user, &Calls::default());
        }
        let lent = stalls.0.lent.lock();
        assert!(lent.capacity() < 1_000, "{}", lent.capacity());
        assert!(lent.iter().any(|(user, calls)| *user == 1 && !calls.are_over()));
    }

    #[test]
    fn who_is_barred_is_so_for_a_while_and_alone() {
        let stalls = Stalls::default();
        stalls.bar(7);
        assert!(stalls.is_barred(7) && !stalls.is_barred(8));
    }
}
