//! The socket at which devices are opened. Whoever has a [`Cache`] embeds it: the mount, and the memory server, which
//! hands over connections of its own socket.
//!
//! Each connection has a thread: what one waits for, no other does. The thread that accepts a connection serves it, and
//! another accepts from then on. Who may open which device, the kernel's word about
//! the peer and the device file decide.

mod connection;
mod rights;
mod threads;

use crate::Cache;
use freehold_linux::Errno;
use freehold_linux::event::Event;
use freehold_linux::socket::{Listener, PacketSocket};
use rights::{Connections, Rights};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use serde_json::{Map, Value};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use threads::Threads;
use tracing::{info, warn};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
/// Anybody may connect: who may open what is decided for each request.
const MODE: u32 = 0o666;

/// What an embedding program adds to the status document of those who may see all of it.
pub type MoreStatus = dyn Fn() -> Map<String, Value> + Send + Sync;

/// Why devices cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else serves there.
    #[error("{} is in use: another program serves there", .0.display())]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen at {}: {error}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The system's refusal.
    #[error("devices cannot be served: {0}")]
    System(#[from] io::Error),
}

/// Serves devices until it is dropped: then every device is closed, and who has memory keeps it.
#[derive(Debug)]
pub struct DeviceServer {
    service: Arc<Service>,
    /// Where this server listens itself.
    own: Option<OwnSocket>,
}

/// A socket that a server has made, by its path.
#[derive(Debug)]
struct OwnSocket {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl OwnSocket {
    /// The socket that was made at `path`.
    fn at(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
        })
    }

    /// Takes the path away, unless somebody else's socket is there by now.
    fn remove(&self) {
        let is_there = Self::at(&self.path).is_ok_and(|found| found.identity == self.identity);
        if is_there {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What all connections use.
pub(crate) struct Service {
    cache: Arc<Cache>,
    more: Box<MoreStatus>,
    connections: Connections,
    stop: Event,
    threads: Arc<Threads>,
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Service")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl DeviceServer {
    /// Serves connections that are handed to it.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new(cache: Arc<Cache>, more: Box<MoreStatus>) -> Result<Self, ServeError> {
        let stop = Event::new().map_err(io::Error::from)?;
        let service = Service {
            cache,
            more,
            connections: Connections::default(),
            stop,
            threads: Arc::default(),
        };
        Ok(Self {
            service: Arc::new(service),
            own: None,
        })
    }

    /// Listens at `path`, and serves who connects. A socket that a dead server has left there is replaced.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn listen(path: &Path, cache: Arc<Cache>, more: Box<MoreStatus>) -> Result<Self, ServeError> {
        let mut server = Self::new(cache, more)?;
        let listener = Arc::new(bind(path)?);
        server.own = OwnSocket::at(path).ok();
        accept_apart(&server.service, &listener)?;
        Ok(server)
    }

    /// Serves a connection that was accepted elsewhere, whose first packet, if it has been read, is `first`. What is
    /// `held` for it is dropped when it ends.
    pub fn serve(&self, socket: PacketSocket, first: Option<Vec<u8>>, held: impl Send + 'static) {
        let service = Arc::clone(&self.service);
        let work = Box::new(move || {
            let _held = held;
            serve(&service, &socket, first);
        });
        if let Err(error) = self.service.threads.begin(work) {
            warn!("a client of devices is refused: {error}");
        }
    }
}

impl Drop for DeviceServer {
    fn drop(&mut self) {
        // First, while it is sure that nobody else listens there: the last clients may take their time.
        if let Some(own) = self.own.take() {
            own.remove();
        }
        self.service.stop.signal(1);
        self.service.threads.join();
    }
}

fn serve(service: &Service, socket: &PacketSocket, first: Option<Vec<u8>>) {
    let Ok(peer) = socket.peer() else { return };
    let Some(_seat) = service.connections.enter(peer.uid) else {
        warn!(
            pid = peer.pid,
            uid = peer.uid,
            "a client of devices is refused: it has too many connections"
        );
        connection::refuse(socket);
        return;
    };
    connection::run(service, socket, Rights::of(peer), first);
}

/// Has another thread accept a connection.
fn accept_apart(service: &Arc<Service>, listener: &Arc<Listener>) -> io::Result<()> {
    let (own, listener) = (Arc::clone(service), Arc::clone(listener));
    service.threads.begin(Box::new(move || accept(&own, &listener)))
}

/// Accepts a connection and serves it; another thread accepts the next. Where there is none, this one refuses.
fn accept(service: &Arc<Service>, listener: &Arc<Listener>) {
    while let Some(socket) = next(service, listener) {
        match accept_apart(service, listener) {
            Ok(()) => return serve(service, &socket, None),
            Err(error) => {
                warn!("a client of devices is refused: {error}");
                connection::refuse(&socket);
            }
        }
    }
}

/// The next client; `None` where the end has come.
fn next(service: &Service, listener: &Listener) -> Option<PacketSocket> {
    loop {
        let mut sources = [
            PollFd::from_borrowed_fd(service.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
        ];
        let polled = rustix::io::retry_on_intr(|| rustix::event::poll(&mut sources, None));
        if polled.is_err() || !sources[0].revents().is_empty() {
            return None;
        }
        match listener.accept() {
            Ok(Some(socket)) => return Some(socket),
            Ok(None) => {}
            Err(errno) => {
                // Too many open files, as a rule: it may pass.
                warn!("a client of devices cannot connect: {errno}");
                thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}

fn bind(path: &Path) -> Result<Listener, ServeError> {
    let failed = |error: io::Error| ServeError::Socket {
        path: path.to_owned(),
        error,
    };
    let listener = match Listener::bind(path, BACKLOG) {
        Err(Errno::ADDRINUSE) => {
            if !matches!(PacketSocket::connect(path), Err(Errno::CONNREFUSED)) {
                return Err(ServeError::InUse(path.to_owned()));
            }
            info!("replacing the socket of a server that has gone");
            fs::remove_file(path).map_err(failed)?;
            Listener::bind(path, BACKLOG)
        }
        result => result,
    };
    let listener = listener.map_err(|errno| failed(errno.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
    Ok(listener)
}
