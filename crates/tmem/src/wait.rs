//! Waiting for a word beside words that may lie.
//!
//! The kernel refuses a wait that would close a circle. It believes what every word on the way says, and a component
//! may write any thread into the words that it shares. So the refusal does not tell that the wait has no end.

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::pi_word::{LockWordError, Scope, lock};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Between two looks at a word for which the kernel does not let the thread wait: nothing is lent meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// As [`lock`], but where waiting would close a circle the thread looks again and again until the time limit. Only then
/// it is refused for that.
pub(crate) fn lock_patiently(
    word: &AtomicU32,
    scope: Scope,
    until: Option<MonotonicTime>,
) -> Result<(), LockWordError> {
    loop {
        let refusal = match lock(word, scope, until) {
            Err(refusal @ LockWordError::Deadlock) => refusal,
            ended => return ended,
        };
        let again = clock::now().saturating_add(PAUSE);
        if until.is_none_or(|until| until < again) {
            return Err(refusal);
        }
        clock::sleep_until(again);
    }
}

#[cfg(test)]
mod tests {
    use super::lock_patiently;
    use freehold_linux::ThreadId;
    use freehold_linux::clock;
    use freehold_linux::pi_word::{LockWordError, Scope, lock, unlock};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Another thread has the word, and waits for one that says that this thread has it.
    #[test]
    fn a_word_that_lies_does_not_end_a_wait_for_another() {
        let (wanted, lying) = (AtomicU32::new(0), AtomicU32::new(ThreadId::current().get()));
        let limit = || Some(clock::now().saturating_add(Duration::from_secs(60)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock(&wanted, Scope::Process, None).unwrap();
                let short = clock::now().saturating_add(Duration::from_millis(200));
                // A process that is stopped meanwhile and goes on waits anew, and the kernel sees the circle.
                let ended = lock(&lying, Scope::Process, Some(short));
                assert!(
                    matches!(ended, Err(LockWordError::TimedOut | LockWordError::Deadlock)),
                    "{ended:?}"
                );
                unlock(&wanted, Scope::Process).unwrap();
            });
            while lying.load(Ordering::Relaxed) == ThreadId::current().get() {
                // Until it waits.
                std::thread::yield_now();
            }
            assert_eq!(lock_patiently(&wanted, Scope::Process, limit()), Ok(()));
        });
        // A circle that is one ends at the limit.
        let short = Some(clock::now().saturating_add(Duration::from_millis(20)));
        assert_eq!(
            lock_patiently(&wanted, Scope::Process, short),
            Err(LockWordError::Deadlock)
        );
        assert_eq!(
            lock_patiently(&wanted, Scope::Process, None),
            Err(LockWordError::Deadlock)
        );
    }
}
