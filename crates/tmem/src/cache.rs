//! Taking and releasing units of a cache. The kernel decides who waits for whom and how long; the two calls to it are
//! the caller's, so that the model in `tests/` runs this file with a kernel of its own.

use crate::pi_word::{PiWord, State};
use crate::unit::{Release, Unit, Use};

/// Why no unit was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// Every unit stayed in use until the time limit.
    #[error("every unit stayed in use until the time limit")]
    TimedOut,
    /// The thread has as many units as the cache keeps at least, and none is free: to wait could be for ever.
    #[error("the thread holds as many units as it may while it waits for another")]
    TooMany,
    /// No unit is in the cache: the manager has them all.
    #[error("the cache has no unit at present")]
    Empty,
    /// The size is 0 or more than a unit has.
    #[error("the size is 0 or more than a unit has")]
    Size,
    /// The memory of the cache was overwritten, or the kernel refuses to wait.
    #[error("the kernel refused to wait: the cache was overwritten, or the kernel has no PI futexes")]
    Refused,
}

/// How a wait for a unit's word ended without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    TimedOut,
    /// The owner has ended, or the unit was withdrawn: look again.
    OwnerGone,
    Refused,
}

/// A unit that was taken, and what was waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) unit: usize,
    pub(crate) waited: bool,
}

/// Until which eighth of its time limit a request waits for the first unit, the second and the third.
const WAITS: [u32; 3] = [1, 3, 8];

/// Takes a unit for `thread`: the first that is free, so that as many units are used as were in use at the same time;
/// else waits for that which waiters have seen in the same use for longest. Where that does not come in a part of the
/// time its user may keep it for good: it is waited for last, by others too, as long as it stays in that use. A thread
/// that has `minimum` units does not wait. `wait` is told until how many eighths of the time limit. O(units).
pub(crate) fn take(
    units: &[Unit],
    thread: u32,
    minimum: usize,
    now: impl Fn() -> u64,
    mut wait: impl FnMut(&PiWord, u32) -> Result<(), WaitEnd>,
) -> Result<Taken, TakeError> {
    let (mut waited, mut limits) = (false, WAITS.into_iter());
    let mut limit = limits.next().unwrap_or(8);
    loop {
        if let Some(unit) = units.iter().position(|unit| unit.take(thread)) {
            return Ok(Taken { unit, waited });
        }
        let Some((unit, seen)) = choose(units, thread, minimum, now())? else {
            continue;
        };
        waited = true;
        match wait(&units[unit].word, limit) {
            Ok(()) => {
                units[unit].arrived();
                return Ok(Taken { unit, waited });
            }
            Err(WaitEnd::OwnerGone) => {
                if units[unit].take_from_dead(seen, thread) {
                    return Ok(Taken { unit, waited });
                }
            }
            Err(WaitEnd::TimedOut) => {
                limit = limits.next().ok_or(TakeError::TimedOut)?;
                units[unit].mark_kept(seen);
            }
            Err(WaitEnd::Refused) => return Err(TakeError::Refused),
        }
    }
}

/// The unit to wait for, and its use; `None` where one has become free meanwhile.
fn choose(units: &[Unit], thread: u32, minimum: usize, now: u64) -> Result<Option<(usize, Use)>, TakeError> {
    let mut own = 0;
    let mut oldest = None;
    for (at, unit) in units.iter().enumerate() {
        match unit.word.state() {
            State::Free => return Ok(None),
            State::Withdrawn => {}
            State::Owned(owner) if owner.thread == thread => own += 1,
            State::Owned(_) => {
                let since = unit.seen_since(now);
                if oldest.is_none_or(|(least, _)| since < least) {
                    oldest = Some((since, at));
                }
            }
        }
    }
    if own >= minimum {
        return Err(TakeError::TooMany);
    }
    let (_, at) = oldest.ok_or(TakeError::Empty)?;
    Ok(units[at].current_use().map(|seen| (at, seen)))
}

/// Releases a unit; false where `thread` does not have it. `hand_over` has the kernel give it to who waits.
pub(crate) fn release(unit: &Unit, thread: u32, hand_over: impl FnOnce(&PiWord)) -> bool {
    match unit.release(thread) {
        Some(Release::Done) => true,
        Some(Release::HandOver) => {
            hand_over(&unit.word);
            // The kernel's bit outlives the last waiter: a unit that nobody waited for is free now, not the manager's.
            unit.withdraw_if_relinquished();
            true
        }
        None => false,
    }
}
