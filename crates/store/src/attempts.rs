//! A record is transferred whole or not at all.

use crate::RECORD_SIZE;
use crate::faults::Faults;
use crate::tally::Tally;
use freehold_linux::Errno;

/// How often a transfer is begun before it is given up.
pub(crate) const ATTEMPTS: u32 = 4;

/// What becomes of a transfer after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is complete.
    Complete,
    /// It is to be begun once more, from the front.
    Again,
    /// It has failed.
    Failed(Errno),
}

/// Judges the result of an attempt, the `attempt`th from 1.
pub(crate) fn judge(attempt: u32, result: Result<usize, Errno>, tally: &Tally) -> Verdict {
    let repeat = |errno| {
        if attempt < ATTEMPTS {
            tally.retry();
            Verdict::Again
        } else {
            Verdict::Failed(errno)
        }
    };
    match result {
        Ok(RECORD_SIZE) => Verdict::Complete,
        Ok(_) => repeat(Errno::IO),
        Err(errno @ (Errno::INTR | Errno::AGAIN)) => repeat(errno),
        Err(errno) => Verdict::Failed(errno),
    }
}

/// How many bytes an attempt is to transfer: all, unless it is to be cut short.
pub(crate) fn length(faults: &Faults) -> usize {
    if faults.cut_short() {
        RECORD_SIZE / 2
    } else {
        RECORD_SIZE
    }
}

/// Makes attempts until one is complete or there is no sense in another.
pub(crate) fn transfer(
    faults: &Faults,
    tally: &Tally,
    mut attempt: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<(), Errno> {
    let mut number = 1;
    loop {
        match judge(number, attempt(length(faults)), tally) {
            Verdict::Complete => return Ok(()),
            Verdict::Again => number += 1,
            Verdict::Failed(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ATTEMPTS, transfer};
    use crate::RECORD_SIZE;
    use crate::faults::Faults;
    use crate::tally::Tally;
    use freehold_linux::Errno;

    #[test]
    fn short_attempts_are_repeated_so_often_and_errors_never() {
        let (faults, tally) = (Faults::default(), Tally::default());
        let mut lengths = Vec::new();
        let mut attempt = |length| {
            lengths.push(length);
            Ok(length)
        };
        faults.shorten(2);
        assert_eq!(transfer(&faults, &tally, &mut attempt), Ok(()));
        faults.shorten(u64::MAX);
        assert_eq!(transfer(&faults, &tally, &mut attempt), Err(Errno::IO));
        assert_eq!(lengths.len(), 3 + ATTEMPTS as usize);
        assert_eq!(lengths[2], RECORD_SIZE);
        assert_eq!(tally.stats().retried, 2 + 3);
        assert_eq!(transfer(&faults, &tally, |_| Err(Errno::NOSPC)), Err(Errno::NOSPC));
        assert_eq!(tally.stats().retried, 5);
    }
}
