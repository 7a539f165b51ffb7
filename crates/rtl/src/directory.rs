//! Where modules, FIFOs and shared memory are found by name: a directory of links into `/proc/PID/fd`. A link is valid
//! as long as the process that published it lives, so nothing has to be cleaned up after a kill.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use crate::area::Area;

/// The variable that names another directory than the user's own.
pub const VARIABLE: &str = "FREEHOLD_RTL_DIR";

/// One user's modules, FIFOs and shared memory.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory that `FREEHOLD_RTL_DIR` names, or `/run/freehold-rtl` (for root) or one in `XDG_RUNTIME_DIR`; made
    /// if it is not there, for this user only.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open() -> io::Result<Self> {
        let path = match (std::env::var_os(VARIABLE), std::env::var_os("XDG_RUNTIME_DIR")) {
            (Some(named), _) => PathBuf::from(named),
            (None, Some(runtime)) => PathBuf::from(runtime).join("freehold-rtl"),
            (None, None) => PathBuf::from("/run/freehold-rtl"),
        };
        Self::at(path)
    }

    /// The directory at `path`, made if it is not there, for this user only.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn at(path: PathBuf) -> io::Result<Self> {
        let new = Self(path);
        for kind in [Kind::Module, Kind::Fifo, Kind::Memory] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(new.0.join(kind.folder()))?;
        }
        Ok(new)
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Publishes `area` under `name`, which nobody else may have.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] while the process that has the name lives.
    pub fn publish(&self, kind: Kind, name: &str, area: &Area) -> io::Result<()> {
        let target = format!("/proc/{}/fd/{}", std::process::id(), area.descriptor());
        let link = self.link(kind, name);
        for _ in 0..8 {
            match symlink(&target, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done,
            }
            if fs::metadata(&link).is_ok() {
                break;
            }
            // Whoever published it has ended.
            let _ = fs::remove_file(&link);
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// What is published under `name`.
    ///
    /// # Errors
    /// Nobody who lives has published it.
    pub fn find(&self, kind: Kind, name: &str) -> io::Result<Area> {
        Area::open(&self.link(kind, name))
    }

    /// Whether a living process has published `name`.
    #[must_use]
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        fs::metadata(self.link(kind, name)).is_ok()
    }

    /// Takes `name` back.
    pub fn withdraw(&self, kind: Kind, name: &str) {
        // Where it is gone there is nothing to take back.
        let _ = fs::remove_file(self.link(kind, name));
    }

    /// The names that living processes have published, in order.
    #[must_use]
    pub fn names(&self, kind: Kind) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(kind.folder())).into_iter().flatten().flatten();
        let living = entries.filter(|entry| fs::metadata(entry.path()).is_ok());
        let mut names: Vec<String> = living
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_by_key(|name| (name.parse::<u32>().ok(), name.clone()));
        names
    }

    /// The socket of the host, or of a module's process.
    #[must_use]
    pub fn socket(&self, owner: &str) -> PathBuf {
        self.0.join(format!("{owner}.sock"))
    }

    /// Where what a module prints is kept.
    #[must_use]
    pub fn log(&self, module: &str) -> PathBuf {
        self.0.join(format!("{module}.log"))
    }

    /// The link of `name`.
    #[must_use]
    pub fn link(&self, kind: Kind, name: &str) -> PathBuf {
        self.0.join(kind.folder()).join(name)
    }
}

/// What can be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A module's status.
    Module,
    /// A FIFO, by its number.
    Fifo,
    /// Memory of `mbuff_alloc`: a folder of links for each name, one for each process that holds it.
    Memory,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Module => "modules",
            Self::Fifo => "fifos",
            Self::Memory => "mbuffs",
        }
    }
}
