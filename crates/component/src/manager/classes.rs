//! Jobs that components do on their own, by class.

use super::driver::Window;
use crate::composition::Composition;
use freehold_tmem::board::{Board, JobRecord};

#[derive(Debug)]
pub(super) struct Classes {
    /// The number of each class's jobs, and what was known of them before.
    all: Vec<(u32, JobRecord)>,
}

/// The most jobs of one class of which the policy is told in one run: components may say any number.
const MOST: u64 = 4096;

impl Classes {
    pub(super) fn new(composition: &Composition) -> Self {
        let numbers = composition
            .classes
            .iter()
            .filter_map(|class| composition.class(&class.name));
        Self {
            all: numbers.map(|(number, _)| (number, JobRecord::default())).collect(),
        }
    }

    /// Adds to a window what was done since the last call: each job with the mean tardiness of all.
    pub(super) fn look(&mut self, board: &Board, window: &mut Window) {
        for (number, before) in &mut self.all {
            let now = board.read(*number);
            let jobs = now.jobs.saturating_sub(before.jobs);
            let late = now.tardiness.saturating_sub(before.tardiness).as_nanos();
            let mean = i64::try_from(late / u128::from(jobs.max(1))).unwrap_or(i64::MAX);
            let count = usize::try_from(jobs.min(MOST)).unwrap_or(0);
            window.tardiness.push(vec![mean; count]);
            window.unfinished.push(None);
            *before = now;
        }
    }

    /// What is known of each, by number.
    pub(super) fn records(&self, board: &Board) -> Vec<(u32, JobRecord)> {
        self.all
            .iter()
            .map(|(number, _)| (*number, board.read(*number)))
            .collect()
    }
}
