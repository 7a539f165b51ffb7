//! What may be mounted where.

use freehold_linux::mounts::{self, Unmount};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Kinds of file systems, as statfs(2) numbers them, whose files are no plain content.
const REFUSED: [(i64, &str); 3] = [(0x6573_5546, "FUSE"), (0x9fa0, "procfs"), (0x6265_6572, "sysfs")];
/// Dead mounts that may lie over one another.
const MOST_DEAD: usize = 16;

/// Why a mount is not made.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A path that cannot be used.
    #[error("{}: {error}", .path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not a directory.
    #[error("{} is not a directory: name one", .0.display())]
    NotADirectory(PathBuf),
    /// A file system whose files are no plain content.
    #[error("{} is on {kind}, which is not mounted over: name a directory of a local file system", .path.display())]
    Kind {
        /// SOURCE.
        path: PathBuf,
        /// What it is on.
        kind: &'static str,
    },
    /// One lies in the other.
    #[error(
        "{} lies in {}: the mount would contain itself; choose a MOUNTPOINT outside SOURCE",
        .inner.display(),
        .outer.display()
    )]
    Nested {
        /// The one that lies in the other.
        inner: PathBuf,
        /// The other.
        outer: PathBuf,
    },
    /// What a killed mount left, and cannot be taken off.
    #[error("{} is a mount whose process is gone, and cannot be taken off: {error}; try umount -l", .path.display())]
    Dead {
        /// MOUNTPOINT.
        path: PathBuf,
        /// Why.
        error: Errno,
    },
}

/// SOURCE and MOUNTPOINT, checked, as absolute paths without symbolic links. What a killed mount left at MOUNTPOINT is
/// taken off; whether there was any is the third.
///
/// # Errors
/// See [`SourceError`].
pub(crate) fn check(source: &Path, mountpoint: &Path) -> Result<(PathBuf, PathBuf, bool), SourceError> {
    let cleaned = clean_up(mountpoint)?;
    let source = directory(source)?;
    let mountpoint = directory(mountpoint)?;
    let found = rustix::fs::statfs(&source).map_err(|error| SourceError::Path {
        path: source.clone(),
        error: error.into(),
    })?;
    if let Some((_, kind)) = REFUSED.iter().find(|(number, _)| *number == found.f_type) {
        return Err(SourceError::Kind { path: source, kind });
    }
    for (inner, outer) in [(&source, &mountpoint), (&mountpoint, &source)] {
        if lies_in(inner, outer) {
            return Err(SourceError::Nested {
                inner: inner.clone(),
                outer: outer.clone(),
            });
        }
    }
    Ok((source, mountpoint, cleaned))
}

fn directory(path: &Path) -> Result<PathBuf, SourceError> {
    let named = |error| SourceError::Path {
        path: path.to_path_buf(),
        error,
    };
    let whole = path.canonicalize().map_err(named)?;
    if fs::metadata(&whole).map_err(named)?.is_dir() {
        Ok(whole)
    } else {
        Err(SourceError::NotADirectory(whole))
    }
}

/// Whether `outer` is `inner` or above it, by whatever path it was reached.
fn lies_in(inner: &Path, outer: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let wanted = identity(outer);
    wanted.is_some() && inner.ancestors().any(|above| identity(above) == wanted)
}

/// Takes mounts off whose process is gone.
fn clean_up(mountpoint: &Path) -> Result<bool, SourceError> {
    let mut cleaned = false;
    for _ in 0..MOST_DEAD {
        match rustix::fs::stat(mountpoint) {
            Err(Errno::NOTCONN) => {
                mounts::unmount(mountpoint, Unmount::Detach).map_err(|error| SourceError::Dead {
                    path: mountpoint.to_path_buf(),
                    error,
                })?;
                cleaned = true;
            }
            _ => break,
        }
    }
    Ok(cleaned)
}
