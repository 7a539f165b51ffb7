//! Exit statuses and the failures that lead to them.

use std::process::ExitCode;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Done.
    Done,
    /// The run failed, was stopped, or a claim does not hold.
    Failed,
    /// Wrong usage or input.
    Usage,
    /// A law of the design was broken.
    LawBroken,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Done => 0,
            Status::Failed => 1,
            Status::Usage => 2,
            Status::LawBroken => 3,
        })
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
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
    /// Standard output cannot be written.
    #[error("cannot write the result: {0}")]
    Output(std::io::Error),
}

impl Failure {
    /// The exit status.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Input(_) => Status::Usage,
            Self::Run(_) | Self::Stopped => Status::Failed,
            Self::Law(_) => Status::LawBroken,
            // Whoever read the output has seen enough, as with `| head`.
            Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Status::Done,
            Self::Output(_) => Status::Failed,
        }
    }
}
