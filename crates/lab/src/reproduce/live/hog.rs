//! GraphChi, and how fast it gets on: it says when it begins each interval of vertices in each iteration.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use freehold_linux::clock::now;

use super::process::Process;
use freehold_command::exit_status::Failure;

/// The beginning of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    iteration: u64,
    /// Its first vertex.
    interval: u64,
    /// In nanoseconds of CLOCK_MONOTONIC.
    at: u64,
}

/// What it has said.
#[derive(Debug, Default)]
struct Said {
    steps: Vec<Step>,
    last: String,
}

/// GraphChi, ended when dropped.
#[derive(Debug)]
pub(super) struct Hog {
    process: Process,
    said: Arc<Mutex<Said>>,
    reader: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::start("GraphChi", command)?;
        let said = Arc::new(Mutex::new(Said::default()));
        let reader = process.errors().map(|errors| {
            let said = Arc::clone(&said);
            std::thread::spawn(move || listen(BufReader::new(errors), &said))
        });
        Ok(Self { process, said, reader })
    }

    /// # Errors
    /// It has ended.
    pub(super) fn must_run(&mut self) -> Result<(), Failure> {
        let said = Arc::clone(&self.said);
        self.process.must_run(|| lock(&said).last.clone())
    }

    /// Whole iterations so far.
    pub(super) fn iterations(&self) -> u64 {
        lock(&self.said).steps.last().map_or(0, |step| step.iteration)
    }

    /// Seconds for an iteration between two moments of CLOCK_MONOTONIC, in nanoseconds; nothing where none was whole.
    pub(super) fn iteration_time(&self, begin: u64, end: u64) -> Option<f64> {
        let said = lock(&self.said);
        let steps = said.steps.iter().filter(|step| (begin..=end).contains(&step.at));
        time_of_iteration(&steps.copied().collect::<Vec<_>>())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.process.end();
        if let Some(reader) = self.reader.take() {
            // It ends with the output.
            let _ = reader.join();
        }
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(mut lines: impl BufRead, said: &Mutex<Said>) {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let at = now().as_nanos();
        let text = String::from_utf8_lossy(&line);
        let mut said = lock(said);
        said.steps.extend(step(&text, at));
        text.trim().clone_into(&mut said.last);
        line.clear();
    }
}

/// As in `0.004s: iteration: 0, interval: 0 -- 65507`.
fn step(line: &str, at: u64) -> Option<Step> {
    let (_, rest) = line.split_once("s: iteration: ")?;
    let (iteration, rest) = rest.split_once(", interval: ")?;
    let (interval, _) = rest.split_once(" -- ")?;
    Some(Step {
        iteration: iteration.parse().ok()?,
        interval: interval.parse().ok()?,
        at,
    })
}

/// From one beginning of an interval to a later one of the same, over the longest time.
#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn time_of_iteration(steps: &[Step]) -> Option<f64> {
    let spans = steps.iter().filter_map(|last| {
        let first = steps.iter().find(|first| first.interval == last.interval)?;
        let iterations = last.iteration.checked_sub(first.iteration).filter(|count| *count > 0)?;
        Some((last.at - first.at, iterations))
    });
    let (span, iterations) = spans.max()?;
    Some(span as f64 / 1e9 / iterations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_intervals_are_understood_and_no_others() {
        let line = "10:26:52 PM engine run - t:1 INFO:   5.3s: iteration: 1, interval: 65508 -- 131015\n";
        let expected = Step {
            iteration: 1,
            interval: 65508,
            at: 7,
        };
        assert_eq!(step(line, 7), Some(expected));
        assert_eq!(
            step("engine run - t:1 INFO:   Subinterval:: 0 -- 65507 (iteration 0)", 7),
            None
        );
    }

    #[test]
    fn an_iteration_lasts_from_an_interval_to_the_same_one() {
        let second = 1_000_000_000;
        let step = |iteration, interval, at: u64| Step {
            iteration,
            interval,
            at: at * second,
        };
        let steps = [
            step(3, 5, 10),
            step(4, 0, 11),
            step(4, 5, 14),
            step(5, 0, 16),
            step(5, 5, 17),
        ];
        // Two iterations between the intervals at 5 take 7 s, one between those at 0 takes 5.
        assert_eq!(time_of_iteration(&steps), Some(3.5));
        assert_eq!(time_of_iteration(&steps[..2]), None);
    }
}
