//! Scenario files into scenarios.

use std::path::{Path, PathBuf};

use freehold_scenario::{Document, Scenario};

use crate::exit_status::Failure;
use crate::output;

/// What changes a scenario on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Overrides {
    /// Override a key of the scenario, such as task.tau1.period=50ms; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Override the scenario's seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Overrides {
    /// All of them as `key=value`.
    fn all(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        self.sets.iter().cloned().chain(seed).collect()
    }
}

/// Reads a scenario file, applies overrides, and passes on its warnings.
///
/// # Errors
/// What is wrong with it, with file, line and key.
pub fn file(path: &Path, overrides: &Overrides) -> Result<Scenario, Failure> {
    let document = Document::load(path).map_err(input)?;
    resolve(document, &overrides.all(), &path.display().to_string())
}

/// Reads several scenario files.
///
/// # Errors
/// What is wrong with the first bad one.
pub fn files(paths: &[PathBuf], overrides: &Overrides) -> Result<Vec<Scenario>, Failure> {
    paths.iter().map(|path| file(path, overrides)).collect()
}

/// Reads a scenario that is part of the command, with overrides.
///
/// # Errors
/// As [`file()`].
pub fn embedded(name: &str, text: &str, sets: &[String]) -> Result<Scenario, Failure> {
    resolve(Document::parse(text, name).map_err(input)?, sets, name)
}

/// As [`embedded`], with the traces that are part of the command.
///
/// # Errors
/// As [`file()`].
pub fn embedded_with(
    name: &str,
    text: &str,
    traces: &'static [(&'static str, &'static str)],
    sets: &[String],
) -> Result<Scenario, Failure> {
    let document = Document::parse(text, name).map_err(input)?;
    resolve(document.with_traces(traces), sets, name)
}

fn resolve(mut document: Document, sets: &[String], file: &str) -> Result<Scenario, Failure> {
    sets.iter().try_for_each(|set| document.apply_set(set)).map_err(input)?;
    let scenario = document.scenario().map_err(input)?;
    for warning in &scenario.warnings {
        output::note(&format!("freehold: warning: {file}: {warning}"));
    }
    Ok(scenario)
}

fn input(error: freehold_scenario::Error) -> Failure {
    Failure::Input(error.to_string())
}
