//! The way of a thread's jobs from component to component, and what they work on it.

use super::model::{ComponentModel, ThreadModel};
use crate::rng::Rng;

/// Of a job's work, what it does in each component that it enters.
const PARTS: u64 = 10;

/// The walk of one thread: it depends on nobody else's, and on no time.
#[derive(Clone, Debug)]
pub struct Walk(Rng);

impl Walk {
    /// Of the thread with this number, from 0 on.
    #[must_use]
    pub fn new(seed: u64, thread: usize) -> Self {
        Self(Rng::stream(seed, thread as u64 + 1))
    }

    /// The component that the next job enters.
    pub fn enter(&mut self, thread: &ThreadModel) -> usize {
        self.0.pick(&thread.entries)
    }

    /// The component that a job calls, of whose work so much is left; none, and it returns.
    pub fn call(&mut self, component: &ComponentModel, left: u64) -> Option<usize> {
        let last = component.calls.last().filter(|_| left > 0)?;
        // Drawn one after the other, so that the walk of a thread does not depend on anybody else.
        let mut chances = 1.0;
        for (callee, chance) in &component.calls {
            if self.0.chance(chance / chances) {
                return Some(*callee);
            }
            chances -= chance;
        }
        Some(last.0)
    }
}

/// What a job does in a component, of whose work so much is left: the lowest components do all of it.
#[must_use]
pub fn part(thread: &ThreadModel, component: &ComponentModel, left: u64) -> u64 {
    if component.calls.is_empty() {
        left
    } else {
        (thread.work / PARTS).min(left)
    }
}
