//! Programs that clients have begun and that run unmanaged: what kind of program, and how many.

use crate::engine::Membership;
use freehold_protocol::message::Stranger;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kinds that are remembered; the one that was seen longest ago goes first.
const MOST: usize = 128;

/// A program that runs unmanaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmanaged {
    /// The process that was begun last, 0 where it has no number here.
    pub(crate) pid: u32,
    /// What it is called, by the word of whoever has begun it.
    pub(crate) name: String,
    /// Why it is not managed.
    pub(crate) why: Stranger,
    /// Whose it is.
    pub(crate) user: u32,
    /// What its beginner belongs to.
    pub(crate) membership: Option<Membership>,
}

impl Unmanaged {
    fn is_like(&self, other: &Self) -> bool {
        let same = |one: &Self| (one.why, one.user, one.membership);
        self.name == other.name && same(self) == same(other)
    }
}

/// All of them, by kind, with how many there were; the latest last.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    kinds: Mutex<VecDeque<(Unmanaged, u64)>>,
}

impl Strangers {
    fn kinds(&self) -> MutexGuard<'_, VecDeque<(Unmanaged, u64)>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one more.
    pub(crate) fn note(&self, stranger: Unmanaged) {
        let mut kinds = self.kinds();
        let known = kinds.iter().position(|(kind, _)| kind.is_like(&stranger));
        let before = known.and_then(|at| kinds.remove(at)).map_or(0, |(_, count)| count);
        if kinds.len() >= MOST {
            kinds.pop_front();
        }
        kinds.push_back((stranger, before.saturating_add(1)));
    }

    /// All that are remembered.
    pub(crate) fn all(&self) -> Vec<(Unmanaged, u64)> {
        self.kinds().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, pid: u32) -> Unmanaged {
        Unmanaged {
            pid,
            name: name.to_owned(),
            why: Stranger::Static,
            user: 7,
            membership: None,
        }
    }

    #[test]
    fn kinds_are_counted_and_the_oldest_are_forgotten() {
        let strangers = Strangers::default();
        strangers.note(one("first", 1));
        strangers.note(one("second", 2));
        strangers.note(one("first", 3));
        assert_eq!(strangers.all(), [(one("second", 2), 1), (one("first", 3), 2)]);
        for number in 0..MOST {
            strangers.note(one(&number.to_string(), 9));
        }
        let all = strangers.all();
        assert_eq!((all.len(), &all[0].0.name), (MOST, &"0".to_owned()));
    }
}
