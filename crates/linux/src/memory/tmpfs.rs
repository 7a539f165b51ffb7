//! A file system in memory of this process alone, whose files are memory objects with a path.
//!
//! It is mounted nowhere, so the kernel shows a file's path from its root on. `/proc/PID/maps`, core files and
//! `perf` then name the file that an object stands for, and tools find its symbols there.

use crate::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Only this process gets at folders, and only by the descriptor of their root.
const FOLDER: Mode = Mode::RWXU;
/// Of the new file; its maker gives it the mode that others need.
const CLOSED: Mode = Mode::empty();

/// A file system in memory (tmpfs(5)) that is mounted nowhere and goes with the last user of its files.
#[derive(Debug)]
pub struct Tmpfs {
    root: OwnedFd,
    /// Held while names are made and removed.
    names: Mutex<()>,
}

impl Tmpfs {
    /// An empty one, as large as memory is.
    ///
    /// # Errors
    /// `PERM` without CAP_SYS_ADMIN; `NOSYS` before Linux 5.2; the kernel's other refusals.
    pub fn mount() -> Result<Arc<Self>, Errno> {
        let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        // Memory objects without a path have no such limits either.
        for limit in [c"size", c"nr_inodes"] {
            fsconfig_set_string(context.as_fd(), limit, c"0")?;
        }
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Arc::new(Self {
            root,
            names: Mutex::new(()),
        }))
    }

    /// An empty file at an absolute path, open for reading and writing. A file that is there already loses its name,
    /// as one does whose content has been replaced.
    ///
    /// # Errors
    /// `INVAL` where the path is not absolute or names no file; `ISDIR`, `NOTDIR` where another file's folder has the
    /// name, or a file has its folder's; the kernel's refusals.
    pub(super) fn create(self: &Arc<Self>, path: &Path) -> Result<(OwnedFd, TmpfsName), Errno> {
        let path = path.strip_prefix("/").map_err(|_| Errno::INVAL)?;
        if path.file_name().is_none() {
            return Err(Errno::INVAL);
        }
        let _names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let created = self.make_folders(path).and_then(|()| self.replace(path));
        let named = created.and_then(|file| {
            let inode = rustix::fs::fstat(&file)?.st_ino;
            Ok((file, inode))
        });
        match named {
            Ok((file, inode)) => {
                let tmpfs = Arc::clone(self);
                let path = path.to_owned();
                Ok((file, TmpfsName { tmpfs, path, inode }))
            }
            Err(errno) => {
                self.remove_folders(path);
                Err(errno)
            }
        }
    }

    fn make_folders(&self, path: &Path) -> Result<(), Errno> {
        let mut folder = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match mkdirat(&self.root, &folder, FOLDER) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn replace(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || openat(&self.root, path, flags, CLOSED);
        match create() {
            Err(Errno::EXIST) => {
                unlinkat(&self.root, path, AtFlags::empty())?;
                create()
            }
            result => result,
        }
    }

    /// Removes the folders of a path that have become empty.
    fn remove_folders(&self, path: &Path) {
        let folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
        for folder in folders {
            if unlinkat(&self.root, folder, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

/// The name of a file. It goes when this is dropped, with folders that nothing else is in.
#[derive(Debug)]
pub(super) struct TmpfsName {
    tmpfs: Arc<Tmpfs>,
    /// From the root on.
    path: PathBuf,
    inode: u64,
}

impl Drop for TmpfsName {
    fn drop(&mut self) {
        let tmpfs = &*self.tmpfs;
        let _names = tmpfs.names.lock().unwrap_or_else(PoisonError::into_inner);
        let found = statat(&tmpfs.root, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        // Another state of the file may have taken the name.
        if found.is_ok_and(|found| found.st_ino == self.inode)
            && unlinkat(&tmpfs.root, &self.path, AtFlags::empty()).is_ok()
        {
            tmpfs.remove_folders(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    fn tmpfs() -> Option<Arc<Tmpfs>> {
        match Tmpfs::mount() {
            Err(errno @ (Errno::PERM | Errno::NOSYS)) => {
                println!("NOT CHECKED: a file system cannot be mounted here: {errno}");
                None
            }
            tmpfs => Some(tmpfs.unwrap()),
        }
    }

    fn shown(file: &OwnedFd) -> String {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        link.unwrap().to_string_lossy().into_owned()
    }

    fn is_empty(tmpfs: &Tmpfs) -> bool {
        let root = format!("/proc/self/fd/{}/", tmpfs.root.as_raw_fd());
        std::fs::read_dir(root).unwrap().next().is_none()
    }

    #[test]
    fn files_show_under_their_paths_and_leave_nothing_with_rights_to_mount() {
        let Some(tmpfs) = tmpfs() else { return };
        let paths = [
            "/usr/lib/libx.so.6",
            "/usr/lib/liby.so",
            "/top",
            "/a b/\u{e9} (deleted)",
        ];
        let mut files = paths
            .iter()
            .map(|path| tmpfs.create(Path::new(path)).unwrap())
            .collect::<Vec<_>>();
        for (path, (file, _)) in paths.iter().zip(&files) {
            assert_eq!(shown(file), *path);
        }
        // Another state of the first: it takes the name over, and keeps it.
        let (file, name) = tmpfs.create(Path::new(paths[0])).unwrap();
        assert_eq!(shown(&files[0].0), format!("{} (deleted)", paths[0]));
        files.remove(0);
        assert_eq!(shown(&file), paths[0]);
        drop((files, name));
        assert!(is_empty(&tmpfs));
        assert_eq!(shown(&file), format!("{} (deleted)", paths[0]));
    }

    #[test]
    fn paths_that_cannot_be_are_refused_and_leave_nothing_with_rights_to_mount() {
        let Some(tmpfs) = tmpfs() else { return };
        for path in ["", "/", "lib", "/a/.."] {
            assert_eq!(tmpfs.create(Path::new(path)).unwrap_err(), Errno::INVAL, "{path}");
        }
        let long = format!("/folder/{}", "x".repeat(256));
        assert_eq!(tmpfs.create(Path::new(&long)).unwrap_err(), Errno::NAMETOOLONG);
        let (_file, name) = tmpfs.create(Path::new("/a/b")).unwrap();
        assert_eq!(tmpfs.create(Path::new("/a")).unwrap_err(), Errno::ISDIR);
        assert_eq!(tmpfs.create(Path::new("/a/b/c")).unwrap_err(), Errno::NOTDIR);
        drop(name);
        assert!(is_empty(&tmpfs));
    }
}
