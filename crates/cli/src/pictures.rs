//! `--report` and `--trace`: files with pictures of the runs. That they can be written is found out before anything
//! runs, and they appear whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use freehold_picture::Run;
use freehold_scenario::Scenario;
use freehold_scenario::recording::Recording;

use freehold_command::engine::{EngineArguments, Outcome};
use freehold_command::exit_status::Failure;
use freehold_command::output;

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
    /// Finds out whether the files can be created.
    ///
    /// # Errors
    /// A file that cannot be created, one file for both, or an engine whose runs cannot be drawn.
    pub(crate) fn prepare(arguments: &PictureArguments, engine: &EngineArguments) -> Result<Self, Failure> {
        if arguments.wanted() && engine.lockstep {
            return Err(Failure::Input(
                "--lockstep has no time of its own to draw: take --report and --trace from a run by the clock"
                    .to_owned(),
            ));
        }
        if arguments.wanted() && engine.socket.is_some() {
            return Err(Failure::Input(
                "--report and --trace draw what a server that is started for the run records: leave out --socket"
                    .to_owned(),
            ));
        }
        let of = |path: &Option<PathBuf>| path.as_deref().map(Output::prepare).transpose();
        let (trace, report) = (of(&arguments.trace)?, of(&arguments.report)?);
        if let (Some(trace), Some(report)) = (&trace, &report)
            && trace.place == report.place
        {
            let (trace, report) = (trace.wanted.display(), report.wanted.display());
            let text = format!("--trace {trace} and --report {report} are one file: they need a file each");
            return Err(Failure::Input(text));
        }
        Ok(Self { trace, report })
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

/// A file that appears under its name once it is whole. Until it is written there is nothing of it, so a command that
/// is killed in the middle of a run leaves nothing behind.
#[derive(Debug)]
struct Output {
    /// The name as it was given.
    wanted: PathBuf,
    /// Where it goes: links followed, from the root.
    place: PathBuf,
}

impl Output {
    /// Finds out whether the file can be made, by making one beside it and removing that.
    fn prepare(wanted: &Path) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::Input(format!("{}: cannot be created: {error}", wanted.display()));
        let place = place(wanted).map_err(|error| refused(&error))?;
        if place.exists() && !place.is_file() {
            return Err(refused(&"it is not a file"));
        }
        Partial::create(&place).map_err(|error| refused(&error))?;
        Ok(Self {
            wanted: wanted.to_owned(),
            place,
        })
    }

    fn finish(self, content: &[u8], what: &str) -> Result<(), Failure> {
        let name = self.wanted.display();
        Partial::create(&self.place)
            .and_then(|partial| partial.finish(content, &self.place))
            .map_err(|error| Failure::Run(format!("{name}: cannot be written: {error}")))?;
        let size = content.len().div_ceil(1024);
        output::note(&format!("freehold: wrote {name}: {what}, {size} KiB"));
        Ok(())
    }
}

/// The place that `wanted` names. A link stays a link: what it points to is replaced.
fn place(wanted: &Path) -> std::io::Result<PathBuf> {
    if wanted.exists() {
        return wanted.canonicalize();
    }
    let (Some(name), Some(folder)) = (wanted.file_name(), wanted.parent()) else {
        return Err(std::io::Error::other("it has no name"));
    };
    let here = Path::new(".");
    let folder = if folder.as_os_str().is_empty() { here } else { folder };
    Ok(folder.canonicalize()?.join(name))
}

/// A file beside its place, removed unless it is put there.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn create(place: &Path) -> std::io::Result<Self> {
        let mut name = std::ffi::OsString::from(".");
        name.push(place.file_name().unwrap_or_default());
        name.push(format!(".{}", std::process::id()));
        let path = place.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    fn finish(mut self, content: &[u8], place: &Path) -> std::io::Result<()> {
        self.file.write_all(content)?;
        std::fs::rename(&self.path, place)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // In its place it has this name no more; nothing can be done about what cannot be removed.
        let _ = std::fs::remove_file(&self.path);
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
        // A command that is killed now leaves nothing.
        Output::prepare(&path).unwrap();
        assert_eq!(names(), 0);
        drop(Partial::create(&path).unwrap());
        assert_eq!(names(), 0);
        std::fs::write(&path, "before").unwrap();
        let output = Output::prepare(&path).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"before".to_vec(), 1));
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
            let refused = Output::prepare(&path).unwrap_err();
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
        Output::prepare(&link).unwrap().finish(b"after", "a test").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"after");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
