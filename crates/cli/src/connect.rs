//! Asking a memory server.

use std::path::PathBuf;

use freehold_client::{ConnectError, Observer, Options, Question, RequestError};
use freehold_report::status::StatusDocument;
use serde::de::DeserializeOwned;

use freehold_command::status::Failure;

/// Which server is meant.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Where {
    /// The server's socket [default: $FREEHOLD_SOCKET, the user's own server, or the system's]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

impl Where {
    /// Connects as somebody who only looks.
    ///
    /// # Errors
    /// Nobody answers, or not to this user.
    pub(crate) fn observe(&self, name: &str) -> Result<Observer, Failure> {
        let mut options = Options::named(name);
        options.socket.clone_from(&self.socket);
        Observer::connect(&options).map_err(|error: ConnectError| Failure::Run(error.to_string()))
    }
}

/// The document that answers a question, as text.
///
/// # Errors
/// A target that the server does not know is the user's mistake; the rest are failures.
pub(crate) fn ask(observer: &Observer, question: Question, target: &str) -> Result<String, Failure> {
    observer.ask(question, target).map_err(|error| match error {
        RequestError::Refused {
            why: freehold_client::Refusal::Unknown,
            text,
        } => Failure::Input(text),
        RequestError::Unsayable(error) => Failure::Input(error.to_string()),
        other => Failure::Run(other.to_string()),
    })
}

/// Everything that a server knows.
///
/// # Errors
/// As [`ask`] and [`read`].
pub(crate) fn status(observer: &Observer) -> Result<StatusDocument, Failure> {
    read(&ask(observer, Question::Status, "")?)
}

/// Reads a document.
///
/// # Errors
/// A server of another release may answer differently.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let other = |error| {
        Failure::Run(format!(
            "the server's document makes no sense ({error}): use one release for both"
        ))
    };
    freehold_report::read(text).map_err(other)
}

/// Prints a document as it came.
///
/// # Errors
/// As [`freehold_command::output::print`].
pub(crate) fn print_document(text: &str) -> Result<(), Failure> {
    let value: serde_json::Value = read(text)?;
    freehold_command::output::print_json(&value)
}
