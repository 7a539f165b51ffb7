//! Jobs that components do on their own, by class.

use super::driver::Window;
use super::processes::Processes;
use crate::composition::Composition;
use freehold_tmem::board::JobRecord;

#[derive(Debug)]
pub(super) struct Classes {
    all: Vec<Noted>,
}

/// A class's jobs.
#[derive(Debug)]
struct Noted {
    number: u32,
    /// Those that do such jobs.
    components: Vec<usize>,
    /// What was known of them before.
    before: JobRecord,
}

/// The most jobs of one class of which the policy is told in one run: components may say any number.
const MOST: u64 = 4096;

impl Classes {
    pub(super) fn new(composition: &Composition) -> Self {
        let classes = composition.classes.iter();
        let noted = classes.filter_map(|class| {
            let components = composition.components.iter().enumerate();
            let components = components.filter(|(_, component)| component.classes.contains(&class.name));
            Some(Noted {
                number: composition.class(&class.name)?.0,
                components: components.map(|(at, _)| at).collect(),
                before: JobRecord::default(),
            })
        });
        Self { all: noted.collect() }
    }

    /// Adds to a window what was done since the last call: each job with the mean tardiness of all.
    pub(super) fn look(&mut self, processes: &Processes, window: &mut Window) {
        for class in &mut self.all {
            let (now, before) = (class.record(processes), class.before);
            let jobs = now.jobs.saturating_sub(before.jobs);
            let late = now.tardiness.saturating_sub(before.tardiness).as_nanos();
            let mean = i64::try_from(late / u128::from(jobs.max(1))).unwrap_or(i64::MAX);
            let count = usize::try_from(jobs.min(MOST)).unwrap_or(0);
            window.tardiness.push(vec![mean; count]);
            window.unfinished.push(None);
            class.before = now;
        }
    }

    /// What is known of each, by number.
    pub(super) fn records(&self, processes: &Processes) -> Vec<(u32, JobRecord)> {
        let classes = self.all.iter();
        classes.map(|class| (class.number, class.record(processes))).collect()
    }
}

impl Noted {
    /// What its components together have noted.
    fn record(&self, processes: &Processes) -> JobRecord {
        let records = processes.boards(&self.components).map(|board| board.read(self.number));
        records.fold(JobRecord::default(), JobRecord::and)
    }
}
