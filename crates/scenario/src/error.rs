//! What is wrong with a scenario, and where.

use std::fmt;

/// Where the offending value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file. Lines count from 1.
    File {
        /// The file as it was named by the caller.
        file: String,
        /// The line, from 1.
        line: usize,
    },
    /// A file that cannot be read.
    Unread {
        /// The file as it was named by the caller.
        file: String,
    },
    /// In an override on the command line; holds the whole `key=value`.
    Set(String),
    /// In a [`ScenarioSpec`](crate::ScenarioSpec) built by a program.
    Spec,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Unread { file } => f.write_str(file),
            Self::Set(text) => write!(f, "--set {text}"),
            Self::Spec => f.write_str("scenario"),
        }
    }
}

/// A scenario that cannot be run. Displays as `FILE:LINE: KEY: what is wrong and what to do`, or with
/// `--set key=value` in place of file and line where an override is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    place: Place,
    key: String,
    message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Unread { .. } => write!(f, "{} {}", self.place, self.message),
            _ => write!(f, "{}: {}: {}", self.place, self.key, self.message),
        }
    }
}

impl Error {
    pub(crate) fn new(place: Place, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place,
            key: key.into(),
            message: message.into(),
        }
    }

    /// Where the offending value was written.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The offending key, addressed as by `--set`: `task.tau1.period`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong, and what to do about it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Something a scenario's author should know that does not keep it from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key concerned, addressed as by `--set`.
    pub key: String,
    /// What to know.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// A broken rule of a [`ScenarioSpec`](crate::ScenarioSpec): a path of keys and positions (`task.0.period`), any other
/// paths the rule involves, and a message. The reader turns the paths into places.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) involved: Vec<String>,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            involved: Vec::new(),
            message: message.into(),
        }
    }

    /// Names another path that the broken rule reads: an override of it is then what gets the blame.
    pub(crate) fn with(mut self, path: impl Into<String>) -> Self {
        self.involved.push(path.into());
        self
    }
}
