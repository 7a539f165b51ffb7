//! Asking a memory server for its documents.

use freehold_client::{Observer, Question, Refusal, RequestError};
use freehold_report::status::StatusDocument;
use serde::de::DeserializeOwned;

use crate::exit_status::Failure;

/// The document that answers a question, as text.
///
/// # Errors
/// A target that the server does not know is the user's mistake; the rest are failures.
pub fn ask(observer: &Observer, question: Question, target: &str) -> Result<String, Failure> {
    observer.ask(question, target).map_err(|error| match error {
        RequestError::Refused {
            why: Refusal::Unknown,
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
pub fn status(observer: &Observer) -> Result<StatusDocument, Failure> {
    read(&ask(observer, Question::Status, "")?)
}

/// Reads a document.
///
/// # Errors
/// A server of another release may answer differently.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    let other = |error| {
        Failure::Run(format!(
            "the server's document makes no sense ({error}): use one release for both"
        ))
    };
    freehold_report::read(text).map_err(other)
}
