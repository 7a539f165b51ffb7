//! Where the server of a run is.

use std::path::{Path, PathBuf};

use freehold_client::Connection;
use freehold_linux::folder::PrivateFolder;
use freehold_scenario::Scenario;
use freehold_server::serve::{self, InProcess};

use crate::error::LiveError;
use crate::placement::embedded::check_memory;
use crate::placement::server::process::{self, OwnServer};
use crate::placement::server::{Server, ServerError};

/// The server of a run, and a directory for files that stand for regions.
#[derive(Debug)]
pub(crate) enum Host {
    /// A process that was started for the run.
    Process(OwnServer),
    /// This process, which drives it.
    Here(InProcess, PrivateFolder),
    /// One that runs for others too, at this socket.
    Elsewhere(PathBuf, PrivateFolder),
}

impl Host {
    /// Starts the server, or finds it.
    pub(crate) fn open(scenario: &Scenario, server: &Server) -> Result<(Self, Connection), LiveError> {
        match server {
            Server::Own(launch) => {
                check_memory(scenario)?;
                let (process, connection) = OwnServer::start(launch)?;
                Ok((Self::Process(process), connection))
            }
            Server::At(socket) => {
                let connection = Connection::open(&process::options(socket)).map_err(ServerError::Connect)?;
                let folder = process::directory().map_err(ServerError::Directory)?;
                Ok((Self::Elsewhere(socket.clone(), folder), connection))
            }
        }
    }

    /// Starts it in this process.
    pub(crate) fn here(scenario: &Scenario, options: &serve::Options) -> Result<(Self, Connection), LiveError> {
        check_memory(scenario)?;
        let folder = process::directory().map_err(ServerError::Directory)?;
        let socket = socket_in(folder.path());
        let server = InProcess::start(&serve::Options {
            socket: socket.clone(),
            ..options.clone()
        })
        .map_err(ServerError::Begin)?;
        let connection = Connection::open(&process::options(&socket)).map_err(ServerError::Connect)?;
        Ok((Self::Here(server, folder), connection))
    }

    /// Whether the server is of this run alone.
    pub(crate) fn is_own(&self) -> bool {
        !matches!(self, Self::Elsewhere(..))
    }

    /// The server that this process drives.
    pub(crate) fn driven(&self) -> Option<&InProcess> {
        match self {
            Self::Here(server, _) => Some(server),
            Self::Process(_) | Self::Elsewhere(..) => None,
        }
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        match self {
            Self::Process(server) => server.socket(),
            Self::Here(_, folder) => socket_in(folder.path()),
            Self::Elsewhere(socket, _) => socket.clone(),
        }
    }

    /// A directory of the run.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Self::Process(server) => server.directory(),
            Self::Here(_, folder) | Self::Elsewhere(_, folder) => folder.path(),
        }
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("socket")
}
