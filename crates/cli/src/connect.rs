//! Asking a memory server.

use std::path::PathBuf;

use freehold_client::{ConnectError, Observer, Options};

pub(crate) use freehold_command::ask::{ask, read, status};
use freehold_command::exit_status::Failure;

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

/// Prints a document as it came.
///
/// # Errors
/// As [`freehold_command::output::print`].
pub(crate) fn print_document(text: &str) -> Result<(), Failure> {
    let value: serde_json::Value = read(text)?;
    freehold_command::output::print_json(&value)
}
