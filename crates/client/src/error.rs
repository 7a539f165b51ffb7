//! What can go wrong between a client and its server.

use std::path::PathBuf;

use freehold_linux::Errno;
use freehold_linux::memory::{DocumentError, MapError, MemfdError, ServeError};
use freehold_linux::userfault::OpenError;
use freehold_protocol::field::Malformed;
use freehold_protocol::message::Refusal;

/// No connection could be opened. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no memory server answers at {}: start one with `freehold serve`, or name its socket in {variable}",
        path.display(), variable = freehold_protocol::SOCKET_VARIABLE)]
    NoServer {
        /// The socket tried.
        path: PathBuf,
    },
    /// The socket may not be used.
    #[error("the memory server's socket {} may not be used by this user: ask who runs the server", path.display())]
    Forbidden {
        /// The socket tried.
        path: PathBuf,
    },
    /// Some other failure of the socket.
    #[error("the memory server's socket {}: {errno}", path.display())]
    Socket {
        /// The socket tried.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
    /// userfaultfd cannot be had.
    #[error(transparent)]
    Userfault(#[from] OpenError),
    /// A thread could not be started.
    #[error("the agent's thread could not be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The kernel refused something small.
    #[error("the connection could not be set up: {0}")]
    System(#[from] Errno),
    /// The server sent memory that is not what it must be.
    #[error("the server's channel: {0}")]
    Channel(#[from] MemfdError),
    /// The channel could not be mapped.
    #[error("the server's channel: {0}")]
    Map(#[from] MapError),
    /// The server refused, or does not speak this protocol.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// A request was not met. Nothing has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The server refused; its text says who is at fault and what to do.
    #[error("{text}")]
    Refused {
        /// Why.
        why: Refusal,
        /// The same for people.
        text: String,
    },
    /// The server is gone. A process with mappings is ended; this is what others get.
    #[error("the memory server is gone: connect again when it is back")]
    Gone,
    /// The server does not greet.
    #[error("the memory server does not answer: it is stopped, or something else listens there")]
    Silent,
    /// The request cannot be said in the protocol: a name is too long.
    #[error("the request cannot be sent: {0}")]
    Unsayable(Malformed),
    /// The server does not keep to the protocol.
    #[error("the server's answer makes no sense ({0}): use programs of one release")]
    Answer(&'static str),
    /// The server's answer is malformed.
    #[error("the server's answer makes no sense ({0}): use programs of one release")]
    Malformed(Malformed),
    /// The caller's mistake: the process has forked since it connected.
    #[error("this connection is the parent's: connect again after a fork")]
    Forked,
    /// The caller's mistake: things of two connections do not go together.
    #[error("it belongs to another connection")]
    Stranger,
    /// The caller's mistake: there are no pages, or they leave the region or mapping.
    #[error("the pages are none, or not all in the region or mapping")]
    OutOfBounds,
    /// The socket failed.
    #[error("the connection to the server: {0}")]
    System(Errno),
    /// A document could not be read.
    #[error("the server's document: {0}")]
    Document(#[from] DocumentError),
    /// An object's memory is not what it must be.
    #[error("the server's memory object: {0}")]
    Object(#[from] MemfdError),
}

/// A region could not be mapped. Nothing is mapped then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapRegionError {
    /// The kernel's side.
    #[error("the region could not be mapped: {0}")]
    Serve(#[from] ServeError),
    /// The server's side.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl From<MapError> for MapRegionError {
    fn from(error: MapError) -> Self {
        Self::Serve(error.into())
    }
}
