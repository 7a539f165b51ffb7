//! Exit statuses and the failures that lead to them.

use std::process::ExitCode;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Done.
    Done,
    /// The run failed, was stopped, or a claim does not hold.
    Failed,
    /// Wrong usage or input.
    Usage,
    /// A law of the design was broken.
    LawBroken,
    /// `exec` could not run its program: 125, 126 or 127, as `env` ends.
    NotRun(u8),
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::Failed => 1,
            Status::Usage => 2,
            Status::LawBroken => 3,
            Status::NotRun(status) => status,
        })
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A scenario that cannot be read or run.
    #[error("{0}")]
    Input(String),
    /// An engine that could not run, or was stopped before there was a result.
    #[error("{0}")]
    Run(String),
    /// Stopped by a signal before there was a result.
    #[error("stopped before there was a result")]
    Stopped,
    /// A law was broken, and there is no result to show.
    #[error("a law was broken: {0}")]
    Law(String),
    /// `exec` could not run its program, and ends with this status.
    #[error("{text}")]
    Exec {
        /// 125, 126 or 127.
        status: u8,
        /// Why.
        text: String,
    },
    /// Standard output cannot be written.
    #[error("cannot write the result: {0}")]
    Output(std::io::Error),
}

/// `exec` itself failed.
pub const EXEC_FAILED: u8 = 125;
/// The program is there, and cannot be run.
pub const EXEC_REFUSED: u8 = 126;
/// There is no such program.
pub const EXEC_ABSENT: u8 = 127;

impl Failure {
    /// The same as a failure of `exec`, whose statuses are other programs' too.
    pub fn of_exec(self) -> Self {
        match self {
            Self::Exec { .. } => self,
            other => Self::Exec {
                status: EXEC_FAILED,
                text: other.to_string(),
            },
        }
    }

    /// The exit status.
    pub fn status(&self) -> Status {
        match self {
            Self::Input(_) => Status::Usage,
            Self::Run(_) | Self::Stopped => Status::Failed,
            Self::Law(_) => Status::LawBroken,
            Self::Exec { status, .. } => Status::NotRun(*status),
            // Whoever read the output has seen enough, as with `| head`.
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Status::Done,
            Self::Output(_) => Status::Failed,
        }
    }
}
