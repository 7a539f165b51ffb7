//! `--report` and `--trace`: files with pictures of the runs. That they can be written is found out before anything
//! runs, and they appear whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use freehold_picture::Run;
use freehold_scenario::Scenario;
use freehold_scenario::recording::Recording;

use crate::engine::{EngineArguments, Outcome};
use crate::output;
use crate::status::Failure;

/// Options that ask for pictures.
#[derive(Debug, clap::Args)]
pub(crate) struct PictureArguments {
    /// Write what happened when for Perfetto (ui.perfetto.dev, trace_processor), one process for each run
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a page with tables and charts, the runs side by side; it needs nothing but a browser
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl PictureArguments {
    /// Whether any is wanted.
    pub(crate) fn wanted(&self) -> bool {
        self.trace.is_some() || self.report.is_some()
    }
}

/// Pictures to be written.
#[derive(Debug)]
pub(crate) struct Pictures {
    trace: Option<Output>,
    report: Option<Output>,
}

impl Pictures {
    /// Creates the files, under names of their own until they are whole.
    ///
    /// # Errors
    /// A file that cannot be created, one name for both, or an engine whose runs cannot be drawn.
    pub(crate) fn prepare(arguments: &PictureArguments, engine: &EngineArguments) -> Result<Self, Failure> {
        if arguments.wanted() && engine.lockstep {
            return Err(Failure::Input(
                "--lockstep has no time of its own to draw: take --report and --trace from a run by the clock"
                    .to_owned(),
            ));
        }
        if let (Some(trace), Some(report)) = (&arguments.trace, &arguments.report)
            && trace == report
        {
            let name = trace.display();
            return Err(Failure::Input(format!("{name}: --trace and --report need a file each")));
        }
        let of = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        Ok(Self {
            trace: of(&arguments.trace)?,
            report: of(&arguments.report)?,
        })
    }

    /// Draws the runs, and says on standard error what was written.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn write(self, scenarios: &[Scenario], outcomes: &[Outcome]) -> Result<(), Failure> {
        if self.trace.is_none() && self.report.is_none() {
            return Ok(());
        }
        let nothing: Vec<Recording> = scenarios
            .iter()
            .map(|scenario| Recording::new(scenario.tasks.len()))
            .collect();
        let runs: Vec<Run<'_>> = (scenarios.iter().zip(outcomes).zip(&nothing))
            .map(|((scenario, outcome), nothing)| Run {
                scenario,
                result: &outcome.result,
                recording: outcome.recording.as_ref().unwrap_or(nothing),
            })
            .collect();
        if let Some(trace) = self.trace {
            trace.finish(&freehold_picture::trace(&runs), "a trace for Perfetto")?;
        }
        if let Some(report) = self.report {
            report.finish(freehold_picture::report(&runs).as_bytes(), "a page for a browser")?;
        }
        let lost = runs
            .iter()
            .fold(0_u64, |sum, run| sum.saturating_add(run.recording.lost));
        if lost > 0 {
            output::note(&format!(
                "freehold: {lost} events found no room and are not in the pictures"
            ));
        }
        Ok(())
    }
}

/// A file that appears under its name once it is whole.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    /// `None` once it is in place.
    partial: Option<(PathBuf, File)>,
}

impl Output {
    fn create(wanted: &Path) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::Input(format!("{}: cannot be created: {error}", wanted.display()));
        // A link stays a link: what it points to is replaced.
        let path = if wanted.exists() {
            wanted.canonicalize().map_err(|error| refused(&error))?
        } else {
            wanted.to_owned()
        };
        if path.exists() && !path.is_file() {
            return Err(refused(&"it is not a file"));
        }
        let Some(name) = path.file_name() else {
            return Err(refused(&"it has no name"));
        };
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(format!(".{}", std::process::id()));
        let partial = path.with_file_name(partial);
        let file = OpenOptions::new().write(true).create_new(true).open(&partial);
        let file = file.map_err(|error| refused(&error))?;
        Ok(Self {
            path,
            partial: Some((partial, file)),
        })
    }

    fn finish(mut self, content: &[u8], what: &str) -> Result<(), Failure> {
        let failed = |error| Failure::Run(format!("{}: cannot be written: {error}", self.path.display()));
        if let Some((partial, file)) = &mut self.partial {
            file.write_all(content)
                .and_then(|()| std::fs::rename(partial, &self.path))
                .map_err(failed)?;
        }
        self.partial = None;
        let (path, size) = (self.path.display(), content.len().div_ceil(1024));
        output::note(&format!("freehold: wrote {path}: {what}, {size} KiB"));
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.partial {
            // Nothing can be done about what cannot be removed.
            let _ = std::fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("freehold-pictures-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = folder("whole");
        let path = folder.join("x.html");
        let names = || std::fs::read_dir(&folder).unwrap().count();
        let output = Output::create(&path).unwrap();
        assert!(!path.exists() && names() == 1);
        drop(output);
        assert_eq!(names(), 0);
        std::fs::write(&path, "before").unwrap();
        let output = Output::create(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        output.finish(b"after", "a test").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"after".to_vec(), 1));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let folder = folder("refused");
        for path in [
            folder.clone(),
            folder.join("absent/x.html"),
            PathBuf::from("/"),
            PathBuf::from("/dev/null"),
        ] {
            let refused = Output::create(&path).unwrap_err();
            assert!(matches!(&refused, Failure::Input(text) if text.contains(&*path.to_string_lossy())));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = folder("link");
        let (target, link) = (folder.join("target.html"), folder.join("link.html"));
        std::fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        Output::create(&link).unwrap().finish(b"after", "a test").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"after");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
