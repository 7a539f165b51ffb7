//! The server's place in the file system: one server for each socket.
//!
//! A lock on a file beside the socket says that a server is there; it goes with the server, however that ends. The
//! socket is made under another name and moved into place when it listens, so that it is never seen half made, and what
//! an earlier server left behind is replaced.

use freehold_linux::Errno;
use freehold_linux::folder::must_be_safe;
use freehold_linux::socket::Listener;
use freehold_protocol::SYSTEM_SOCKET;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Connections that nobody has accepted yet.
const BACKLOG: i32 = 128;
/// The longest path: the kernel takes 107 bytes, and the name before the move has four more.
const LONGEST: usize = 103;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server is there.
    #[error("another server listens at {}: stop it first, or choose another --socket", .0.display())]
    Taken(PathBuf),
    /// Something that is no socket is there.
    #[error("{} is there and is not a socket: remove it, or choose another --socket", .0.display())]
    NotASocket(PathBuf),
    /// Another user has made the lock's file, and could hold up every server here.
    #[error(
        "{} belongs to user {user}: choose another --socket, in a folder where others make nothing", path.display()
    )]
    Squatted {
        /// The file.
        path: PathBuf,
        /// Its owner.
        user: u32,
    },
    /// The path does not fit.
    #[error("{} is longer than the {LONGEST} bytes that a path may have: choose another --socket", .0.display())]
    TooLong(PathBuf),
    /// The directory, the lock or the socket cannot be made.
    #[error("cannot listen at {}: {error}", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The right to listen at a path, until dropped.
#[derive(Debug)]
pub(super) struct SocketPlace {
    path: PathBuf,
    _lock: OwnedFd,
}

/// Where a server of this user listens if nothing else is said: [`SYSTEM_SOCKET`] for root, else in
/// `$XDG_RUNTIME_DIR`; none where that is not set.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(SYSTEM_SOCKET));
    }
    let directory = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(directory).join("freehold.sock"))
}

impl SocketPlace {
    /// Claims `path`.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub(super) fn new(path: &Path) -> Result<Self, SocketError> {
        if path.as_os_str().len() > LONGEST {
            return Err(SocketError::TooLong(path.to_owned()));
        }
        let system = |error| SocketError::System {
            path: path.to_owned(),
            error,
        };
        if path == Path::new(SYSTEM_SOCKET)
            && let Some(directory) = path.parent()
        {
            fs::create_dir_all(directory).map_err(system)?;
            must_be_safe(directory).map_err(system)?;
        }
        let lock = lock(path)?;
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => Err(SocketError::NotASocket(path.to_owned())),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(system(error)),
        }?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Listens, and shows it by the socket.
    ///
    /// # Errors
    /// [`SocketError::System`].
    pub(super) fn listen(&self, mode: u32) -> Result<Listener, SocketError> {
        let hidden = beside(&self.path, ".new");
        let listen = || {
            match fs::remove_file(&hidden) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = Listener::bind(&hidden, BACKLOG)?;
            fs::set_permissions(&hidden, fs::Permissions::from_mode(mode))?;
            fs::rename(&hidden, &self.path)?;
            Ok(listener)
        };
        listen().map_err(|error| SocketError::System {
            path: self.path.clone(),
            error,
        })
    }

    /// Takes the socket away: nobody finds the server any more.
    pub(super) fn remove(&self) {
        // It is gone where somebody removed it by hand.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        // While the lock is held: see `lock`.
        let _ = fs::remove_file(beside(&self.path, ".lck"));
    }
}

/// Locks the file beside `path`. Its owner removes the file before the lock goes, so whoever has locked one that is not
/// there any more takes the next.
fn lock(path: &Path) -> Result<OwnedFd, SocketError> {
    let file = beside(path, ".lck");
    let system = |errno: Errno| SocketError::System {
        path: path.to_owned(),
        error: errno.into(),
    };
    loop {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&file, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| {
            // The kernel refuses to open another user's file in a folder where everybody may make some.
            squatted(&file).unwrap_or_else(|| system(errno))
        })?;
        if let Some(squatted) = squatted(&file) {
            return Err(squatted);
        }
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(SocketError::Taken(path.to_owned())),
            Err(errno) => return Err(system(errno)),
        }
        let locked = rustix::fs::fstat(&lock).map_err(system)?;
        let there = rustix::fs::lstat(&file);
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (locked.st_dev, locked.st_ino)) {
            return Ok(lock);
        }
    }
}

/// Whose file that is, where it is neither root's nor this user's.
fn squatted(file: &Path) -> Option<SocketError> {
    let owner = fs::symlink_metadata(file).ok()?.uid();
    let own = rustix::process::geteuid().as_raw();
    (owner != own && owner != 0).then(|| SocketError::Squatted {
        path: file.to_owned(),
        user: owner,
    })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_linux::socket::PacketSocket;

    #[test]
    fn one_server_for_each_socket_and_what_is_left_behind_is_replaced() {
        let directory = std::env::temp_dir().join(format!("freehold-place-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("s");
        let place = SocketPlace::new(&path).unwrap();
        assert!(matches!(SocketPlace::new(&path), Err(SocketError::Taken(_))));
        let listener = place.listen(0o600).unwrap();
        PacketSocket::connect(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // As after a crash: the socket stays, the lock goes.
        drop((listener, place));
        assert!(PacketSocket::connect(&path).is_err());
        let place = SocketPlace::new(&path).unwrap();
        let _listener = place.listen(0o666).unwrap();
        PacketSocket::connect(&path).unwrap();
        place.remove();
        fs::write(&path, "a file").unwrap();
        drop(place);
        assert!(matches!(SocketPlace::new(&path), Err(SocketError::NotASocket(_))));
        let long = directory.join("x".repeat(120));
        assert!(matches!(SocketPlace::new(&long), Err(SocketError::TooLong(_))));
        fs::remove_dir_all(&directory).unwrap();
    }
}
