//! How a task learns how its fault ended.
//!
//! The answer to a task's fault may be drained by any thread. It is left in the task's mailbox under the core's lock;
//! the task carries it out itself, because only it can touch its own mappings' faults in time.
//!
//! One word is the state, and a futex to sleep on; another holds the answer. A task has at most one fault outstanding,
//! so there is at most one answer. `tests/model_mailbox.rs` runs this very file in every interleaving of a few threads.

use crate::epoch::Epoch;
use crate::sync::{AtomicU32, AtomicU64, Ordering, futex};
use freehold_core::effect::{FaultFailure, Protection, Resolution};
use freehold_linux::clock::MonotonicTime;
use freehold_linux::futex::Waited;

/// No fault outstanding.
const IDLE: u32 = 0;
/// A fault is outstanding.
const WAITING: u32 = 1;
/// As WAITING, and there may be something new to drive.
const NUDGED: u32 = 2;
/// The answer is there.
const ANSWERED: u32 = 3;

/// How a fault ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Map the page, unless its epoch has moved on.
    Map {
        epoch: Epoch,
        protection: Protection,
        /// How the core counted the fault; for an upgrade only write permission is to be granted.
        resolution: Resolution,
    },
    /// Touch the page again.
    Retry,
    /// The access cannot be served.
    Fail(FaultFailure),
}

const KIND_MAP: u64 = 0;
const KIND_RETRY: u64 = 1;
const KIND_FAIL: u64 = 2;
const WRITABLE: u64 = 1 << 8;
const RESOLUTION_SHIFT: u32 = 16;
const DETAIL_SHIFT: u32 = 32;

impl Answer {
    fn encode(self) -> u64 {
        match self {
            Self::Map {
                epoch,
                protection,
                resolution,
            } => {
                let writable = if protection == Protection::Writable {
                    WRITABLE
                } else {
                    0
                };
                let resolution = encode_resolution(resolution) << RESOLUTION_SHIFT;
                KIND_MAP | writable | resolution | u64::from(epoch.bits()) << DETAIL_SHIFT
            }
            Self::Retry => KIND_RETRY,
            Self::Fail(failure) => {
                let code = match failure {
                    FaultFailure::Read => 0,
                    FaultFailure::WriteBack => 1,
                    FaultFailure::NoFrame => 2,
                };
                KIND_FAIL | code << DETAIL_SHIFT
            }
        }
    }

    fn decode(bits: u64) -> Self {
        let detail = bits >> DETAIL_SHIFT;
        match bits & 0xff {
            KIND_MAP => Self::Map {
                epoch: Epoch::from_bits(u32::try_from(detail).unwrap_or(0)),
                protection: if bits & WRITABLE == 0 {
                    Protection::ReadOnly
                } else {
                    Protection::Writable
                },
                resolution: decode_resolution(bits >> RESOLUTION_SHIFT & 0xff),
            },
            KIND_RETRY => Self::Retry,
            _ => Self::Fail(match detail {
                0 => FaultFailure::Read,
                1 => FaultFailure::WriteBack,
                _ => FaultFailure::NoFrame,
            }),
        }
    }
}

fn encode_resolution(resolution: Resolution) -> u64 {
    match resolution {
        Resolution::Soft => 0,
        Resolution::ZeroFill => 1,
        Resolution::SwapIn { shared: false } => 2,
        Resolution::SwapIn { shared: true } => 3,
        Resolution::FileRead => 4,
        Resolution::Copy => 5,
        Resolution::Upgrade => 6,
        Resolution::Ahead => 7,
    }
}

fn decode_resolution(code: u64) -> Resolution {
    match code {
        0 => Resolution::Soft,
        1 => Resolution::ZeroFill,
        2 => Resolution::SwapIn { shared: false },
        3 => Resolution::SwapIn { shared: true },
        4 => Resolution::FileRead,
        5 => Resolution::Copy,
        6 => Resolution::Upgrade,
        _ => Resolution::Ahead,
    }
}

/// One task's mailbox.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: AtomicU32,
    answer: AtomicU64,
}

impl Mailbox {
    /// The owner expects an answer from now on.
    pub(crate) fn open(&self) {
        self.state.store(WAITING, Ordering::Release);
    }

    /// The owner expects no answer after all.
    pub(crate) fn close(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Leaves the answer. True if the owner may be asleep: wake it with [`Mailbox::wake`].
    pub(crate) fn post(&self, answer: Answer) -> bool {
        self.answer.store(answer.encode(), Ordering::Relaxed);
        self.state.swap(ANSWERED, Ordering::AcqRel) != IDLE
    }

    /// Tells a waiting owner to look again at what it waits for.
    pub(crate) fn nudge(&self) {
        if self
            .state
            .compare_exchange(WAITING, NUDGED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            self.wake();
        }
    }

    /// Wakes the owner.
    pub(crate) fn wake(&self) {
        futex::wake(&self.state, 1);
    }

    /// The answer, if it has come; the mailbox is closed then.
    pub(crate) fn take(&self) -> Option<Answer> {
        if self.state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        self.state.store(IDLE, Ordering::Release);
        Some(Answer::decode(self.answer.load(Ordering::Relaxed)))
    }

    /// Whether the answer has come.
    pub(crate) fn is_answered(&self) -> bool {
        self.state.load(Ordering::Acquire) == ANSWERED
    }

    /// Forgets nudges received so far. To be called before the owner looks at what it waits for.
    pub(crate) fn rearm(&self) {
        // Failure: there was no nudge, or the answer is there.
        let _ = self
            .state
            .compare_exchange(NUDGED, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Sleeps until answered, nudged or `until`; may return early for no reason. True if the time was reached and
    /// nobody had woken the owner before.
    pub(crate) fn sleep(&self, until: Option<MonotonicTime>) -> bool {
        // Every other way a wait can end is a reason to look again.
        futex::wait(&self.state, WAITING, until) == Ok(Waited::TimedOut)
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Mailbox};
    use crate::epoch::Epoch;
    use freehold_core::effect::{FaultFailure, Protection, Resolution};

    const RESOLUTIONS: [Resolution; 8] = [
        Resolution::Soft,
        Resolution::ZeroFill,
        Resolution::SwapIn { shared: false },
        Resolution::SwapIn { shared: true },
        Resolution::FileRead,
        Resolution::Copy,
        Resolution::Upgrade,
        Resolution::Ahead,
    ];

    #[test]
    fn answers_survive_their_encoding() {
        let mut answers = vec![Answer::Retry];
        for failure in [FaultFailure::Read, FaultFailure::WriteBack, FaultFailure::NoFrame] {
            answers.push(Answer::Fail(failure));
        }
        for protection in [Protection::ReadOnly, Protection::Writable] {
            for resolution in RESOLUTIONS {
                let epoch = Epoch::from_bits(u32::MAX);
                answers.push(Answer::Map {
                    epoch,
                    protection,
                    resolution,
                });
            }
        }
        for answer in answers {
            assert_eq!(Answer::decode(answer.encode()), answer);
        }
    }

    #[test]
    fn a_nudge_is_seen_once_and_never_hides_an_answer() {
        crate::sync::run(|| {
            let mailbox = Mailbox::default();
            mailbox.nudge();
            mailbox.open();
            mailbox.nudge();
            mailbox.rearm();
            assert_eq!(mailbox.take(), None);
            assert!(mailbox.post(Answer::Retry));
            mailbox.nudge();
            mailbox.rearm();
            assert_eq!(mailbox.take(), Some(Answer::Retry));
            assert_eq!(mailbox.take(), None);
        });
    }
}
