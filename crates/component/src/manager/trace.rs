//! A line of JSON for each run of the policy: what it was told, and what it decided.

use super::RunError;
use super::driver::Window;
use super::memory::UnitManager;
use crate::composition::Composition;
use crate::registry::{UnitState, Wait};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Trace(BufWriter<File>);

#[derive(Serialize)]
struct Line {
    at_ns: u64,
    run: u64,
    moves: u64,
    granted_pages: usize,
    borrowed_pages: usize,
    components: Vec<UnitState>,
    threads: Vec<Thread>,
    waits: Vec<Wait>,
}

#[derive(Serialize)]
struct Thread {
    name: String,
    jobs: usize,
    tardiness_ns: i64,
}

impl Trace {
    pub(super) fn create(path: &Path) -> Result<Self, RunError> {
        let file = File::create(path).map_err(|error| RunError::Trace(path.display().to_string(), error))?;
        Ok(Self(BufWriter::new(file)))
    }

    pub(super) fn note(&mut self, elapsed: Duration, composition: &Composition, memory: &UnitManager, window: &Window) {
        let (run, moves) = memory.runs();
        let named = composition.jobs().zip(&window.tardiness);
        let line = Line {
            at_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            run,
            moves,
            granted_pages: memory.pages(),
            borrowed_pages: memory.borrowed_pages(),
            components: memory.states(composition),
            threads: named
                .map(|(name, jobs)| Thread {
                    name,
                    jobs: jobs.len(),
                    tardiness_ns: mean(jobs),
                })
                .collect(),
            waits: memory.waits(composition),
        };
        // A full disk ends the trace, not the run.
        let written = serde_json::to_writer(&mut self.0, &line).map_err(std::io::Error::from);
        if let Err(error) = written
            .and_then(|()| self.0.write_all(b"\n"))
            .and_then(|()| self.0.flush())
        {
            eprintln!("freehold: the trace cannot be written: {error}");
        }
    }
}

fn mean(jobs: &[i64]) -> i64 {
    let sum = jobs.iter().fold(0_i64, |sum, tardiness| sum.saturating_add(*tardiness));
    sum / i64::try_from(jobs.len().max(1)).unwrap_or(i64::MAX)
}
