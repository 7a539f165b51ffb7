//! FIFOs as files: a directory of `rtf0` to `rtf63`, served by the host.

mod files;
mod opened;

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fuser::{BackgroundSession, Config, MountOption};

use crate::directory::Directory;
use crate::fifo::COUNT;
use files::Files;

/// Directories that this host serves. A host that comes after one that was killed serves the same.
#[derive(Debug)]
pub(crate) struct Mounts {
    directory: Directory,
    served: Vec<Served>,
}

struct Served {
    path: PathBuf,
    dev: bool,
    session: BackgroundSession,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Mounts {
    /// What a host before this one served, served again.
    pub(crate) fn take_up(directory: &Directory) -> Self {
        let mut mounts = Self {
            directory: directory.clone(),
            served: Vec::new(),
        };
        let text = fs::read_to_string(mounts.list()).unwrap_or_default();
        for line in text.lines() {
            let (dev, path) = (line.starts_with("dev "), line.trim_start_matches("dev "));
            if let Err(error) = mounts.add(path.trim_start_matches("dir ").as_ref(), dev) {
                eprintln!("freehold rtl: host: {error}");
            }
        }
        mounts
    }

    fn list(&self) -> PathBuf {
        self.directory.path().join("mounts")
    }

    /// Serves FIFOs in `path`, which is made if it is not there; and as `/dev/rtfN` where `dev` is set.
    pub(crate) fn add(&mut self, path: &Path, dev: bool) -> Result<(), String> {
        let failed = |what: &str, error: io::Error| format!("{}: {what}: {error}", path.display());
        if self.served.iter().any(|served| served.path == path) {
            return Err(format!("{}: is served already", path.display()));
        }
        detach_if_stale(path);
        fs::create_dir_all(path).map_err(|error| failed("cannot be made", error))?;
        let mut options = Config::default();
        options.mount_options = vec![
            MountOption::FSName("freehold-rtl".to_owned()),
            MountOption::NoExec,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        let session = fuser::spawn_mount(Files::new(self.directory.clone()), path, &options);
        let session =
            session.map_err(|error| failed("cannot be mounted (is /dev/fuse there, with the rights?)", error))?;
        if dev && let Err(error) = link_devices(path) {
            unlink_devices(path);
            return Err(format!("{}: {error}", path.display()));
        }
        self.served.push(Served {
            path: path.to_owned(),
            dev,
            session,
        });
        self.remember();
        Ok(())
    }

    fn remember(&self) {
        let line = |served: &Served| format!("{} {}\n", if served.dev { "dev" } else { "dir" }, served.path.display());
        let text: String = self.served.iter().map(line).collect();
        if let Err(error) = fs::write(self.list(), text) {
            eprintln!("freehold rtl: host: {}: {error}", self.list().display());
        }
    }

    /// Ends the service: an orderly end of the host.
    pub(crate) fn end(&mut self) {
        for served in self.served.drain(..) {
            if served.dev {
                unlink_devices(&served.path);
            }
            if let Err(error) = served.session.umount_and_join() {
                eprintln!("freehold rtl: host: {}: {error}", served.path.display());
            }
        }
        self.remember();
    }
}

/// A mount whose server was killed is still there, and every access fails.
fn detach_if_stale(path: &Path) {
    let stale = fs::metadata(path).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
    if let (true, Ok(path)) = (stale, std::ffi::CString::new(path.as_os_str().as_bytes())) {
        // SAFETY: a string that ends. Where it fails, mounting says so.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

fn device(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/rtf{number}"))
}

fn link_devices(path: &Path) -> Result<(), String> {
    for number in 0..COUNT {
        let device = device(number);
        let target = path.join(format!("rtf{number}"));
        // A host that was killed has left its own; what leads somewhere else is somebody else's.
        if fs::read_link(&device).is_ok_and(|old| old == target || fs::metadata(&device).is_err()) {
            let _ = fs::remove_file(&device);
        }
        symlink(target, &device).map_err(|error| format!("{} cannot be made: {error}", device.display()))?;
    }
    Ok(())
}

fn unlink_devices(path: &Path) {
    for number in 0..COUNT {
        let device = device(number);
        if fs::read_link(&device).is_ok_and(|target| target.starts_with(path)) {
            // Where it is gone there is nothing to remove.
            let _ = fs::remove_file(device);
        }
    }
}
