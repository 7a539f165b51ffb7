//! Development tasks. [`tidy`] checks the rules of the code base that neither rustfmt nor clippy knows.

mod arrows;
mod caveats;
mod documents;
mod functions;
mod glossary;
mod links;
mod specification;
mod text;
pub mod times;
mod walk;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the workspace; or the crate.
    pub place: String,
    /// The line from one, or zero for the whole file.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.place, self.what),
            line => write!(f, "{}:{line}: {}", self.place, self.what),
        }
    }
}

/// The root of this workspace.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Checks every rule on the workspace at `root`.
///
/// # Errors
/// A file that cannot be read, or `cargo metadata` that fails.
pub fn tidy(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let files = walk::files(root)?;
    let present = documents::Present::new(&files);
    for file in &files {
        findings.extend(check_source(&file.name, &file.text));
        findings.extend(documents::check(&file.name, &file.text, &present));
    }
    findings.extend(words::check(&files));
    findings.extend(links::check(root, &files));
    findings.extend(specification::check(&files, &present));
    findings.extend(caveats::check(&files));
    findings.extend(glossary::check(&files));
    findings.extend(arrows::check(&arrows::metadata(root)?));
    Ok(findings)
}

/// Checks the rules of one file. `name` is its path in the workspace, with `/`.
#[must_use]
pub fn check_source(name: &str, text: &str) -> Vec<Finding> {
    let mut findings = text::check(name, text);
    if name.ends_with(".rs") {
        findings.extend(functions::check(name, text));
    }
    findings
}

/// Checks the dependency arrows in the output of `cargo metadata --format-version 1 --no-deps`.
#[must_use]
pub fn check_arrows(metadata: &serde_json::Value) -> Vec<Finding> {
    arrows::check(metadata)
}
