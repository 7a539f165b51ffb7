//! Programs of others that a benchmark is compared with. The environment names each; it answers line by line.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::rounds::refused;
use freehold_command::exit_status::Failure;

/// A program that runs; dropping this ends its input, at which it ends.
#[derive(Debug)]
pub(super) struct NamedProgram {
    variable: &'static str,
    program: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl NamedProgram {
    /// None where `variable` names no program.
    ///
    /// # Errors
    /// What it names does not start.
    pub(super) fn start(
        variable: &'static str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = std::env::var_os(variable) else {
            return Ok(None);
        };
        let mut command = Command::new(path);
        let piped = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = piped.spawn().map_err(|error| refused(format!("{variable}: {error}")))?;
        let (ask, answers) = (program.stdin.take(), program.stdout.take());
        let answers = answers.ok_or_else(|| refused("no pipe"))?;
        Ok(Some(Self {
            variable,
            program,
            ask,
            answers: BufReader::new(answers),
        }))
    }

    /// Its next line, without the end; empty where it has ended.
    ///
    /// # Errors
    /// The pipe cannot be read.
    pub(super) fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|error| refused(format!("{}: {error}", self.variable)))?;
        Ok(line.trim_end().to_owned())
    }

    /// What it answers to a line.
    ///
    /// # Errors
    /// The pipe cannot be written or read: it has ended.
    pub(super) fn ask(&mut self, line: &str) -> Result<String, Failure> {
        let ask = self.ask.as_mut().ok_or_else(|| refused("no pipe"))?;
        writeln!(ask, "{line}").map_err(|error| refused(format!("{}: {error}", self.variable)))?;
        self.line()
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }
}

impl Drop for NamedProgram {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.program.wait();
    }
}
