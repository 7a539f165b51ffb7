//! Experiments or benchmarks that run one after the other.

use freehold_command::exit_status::Failure;
use freehold_command::output;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// What came of those that have run.
#[derive(Debug)]
pub(crate) struct Series<'s, T> {
    /// What they are called, and under which name a document lists them.
    called: (&'static str, &'static str),
    wanted: usize,
    stop: &'s AtomicBool,
    results: Vec<T>,
    /// Those that could not run, with the reason.
    not_run: Vec<(&'static str, Failure)>,
    /// What ended the series.
    end: Option<Failure>,
}

impl<'s, T: Serialize> Series<'s, T> {
    /// Of so many that are wanted, until a stop: `called` says what they are called, and under which name a document
    /// lists them.
    pub(crate) fn new(called: (&'static str, &'static str), wanted: usize, stop: &'s AtomicBool) -> Self {
        Self {
            called,
            wanted,
            stop,
            results: Vec::new(),
            not_run: Vec::new(),
            end: None,
        }
    }

    /// Takes what came of one. Whether the next is to run: one that cannot run does not keep the others from it.
    #[must_use]
    pub(crate) fn take(&mut self, name: &'static str, outcome: Result<T, Failure>) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed);
        match outcome {
            Ok(result) => {
                self.results.push(result);
                self.end = (stopped && self.results.len() < self.wanted).then_some(Failure::Stopped);
            }
            Err(failure @ (Failure::Input(_) | Failure::Run(_))) if !stopped && self.wanted > 1 => {
                output::note(&format!("freehold: {name} could not run: {failure}"));
                self.not_run.push((name, failure));
            }
            // Whatever fails for a stop may say otherwise.
            Err(Failure::Run(_)) if stopped => self.end = Some(Failure::Stopped),
            Err(failure) => self.end = Some(failure),
        }
        self.end.is_none()
    }

    /// Prints one document: the result itself where only that was wanted.
    pub(crate) fn print_json(&self) -> Result<(), Failure> {
        match (self.results.as_slice(), self.wanted) {
            ([result], 1) => output::print_json(result),
            _ => output::print_json(&self.document()),
        }
    }

    fn document(&self) -> Value {
        let (_, list) = self.called;
        let mut document = Map::new();
        document.insert(list.to_owned(), json!(self.results));
        if !self.not_run.is_empty() {
            let row = |(name, why): &(&str, Failure)| json!({"name": name, "why": why.to_string()});
            document.insert("not_run".to_owned(), self.not_run.iter().map(row).collect());
        }
        if self.end.is_some() {
            document.insert("stopped".to_owned(), true.into());
        }
        document.into()
    }

    /// The results, where all have run.
    ///
    /// # Errors
    /// What ended the series, or which could not run.
    pub(crate) fn end(self) -> Result<Vec<T>, Failure> {
        let (what, _) = self.called;
        let (ended, wanted) = (self.results.len(), self.wanted);
        if ended < wanted && wanted > 1 {
            output::note(&format!(
                "freehold: {ended} of {wanted} {what} have ended: the result is of these"
            ));
        }
        match self.end {
            Some(failure) => Err(failure),
            None if self.not_run.is_empty() => Ok(self.results),
            None => {
                let names: Vec<&str> = self.not_run.iter().map(|(name, _)| *name).collect();
                Err(Failure::Run(format!("could not run: {}", names.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GOES_ON: AtomicBool = AtomicBool::new(false);

    fn series(wanted: usize, stop: &AtomicBool) -> Series<'_, u32> {
        Series::new(("experiments", "experiments"), wanted, stop)
    }

    #[test]
    fn one_that_cannot_run_keeps_no_other_from_it() {
        let mut three = series(3, &GOES_ON);
        assert!(three.take("first", Ok(1)));
        assert!(three.take("second", Err(Failure::Run("there is no player".to_owned()))));
        assert!(three.take("third", Ok(3)));
        assert_eq!(
            three.document(),
            json!({"experiments": [1, 3], "not_run": [{"name": "second", "why": "there is no player"}]})
        );
        assert_eq!(three.end().unwrap_err().to_string(), "could not run: second");
    }

    #[test]
    fn a_stop_or_a_broken_law_ends_all() {
        let is_stopped = AtomicBool::new(true);
        for (stop, failure, ends) in [
            (&GOES_ON, Failure::Law("1".to_owned()), "a law was broken: 1"),
            (&GOES_ON, Failure::Stopped, "stopped before there was a result"),
            (
                &is_stopped,
                Failure::Run("killed".to_owned()),
                "stopped before there was a result",
            ),
        ] {
            let mut two = series(2, stop);
            assert!(!two.take("first", Err(failure)));
            assert_eq!(two.document(), json!({"experiments": [], "stopped": true}));
            assert_eq!(two.end().unwrap_err().to_string(), ends);
        }
    }

    #[test]
    fn a_stop_after_the_last_stops_nothing() {
        let stopped = AtomicBool::new(true);
        let mut two = series(2, &stopped);
        assert!(!two.take("first", Ok(1)));
        let mut one = series(1, &stopped);
        assert!(one.take("it", Ok(1)) && one.end().unwrap() == [1]);
    }

    #[test]
    fn the_only_one_fails_as_it_does() {
        let mut one = series(1, &GOES_ON);
        assert!(!one.take("it", Err(Failure::Input("there is no file".to_owned()))));
        assert_eq!(one.end().unwrap_err().to_string(), "there is no file");
    }
}
