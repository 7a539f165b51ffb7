//! Memory that modules and processes share by name. Whoever holds it publishes it, so it is there as long as one of
//! them lives.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::PathBuf;

use crate::area::Area;
use crate::directory::{Directory, Kind};

/// Memory by name that this process holds.
#[derive(Debug)]
pub struct NamedMemory {
    area: Area,
    link: PathBuf,
}

impl NamedMemory {
    /// The memory called `name`, of at least `bytes`; new and all zeros where nobody has it and `create` is given. It
    /// is held for the module whose page of status has the descriptor `module`, or for none.
    ///
    /// # Errors
    /// A name with separators, nobody has it, it is smaller, or there is no memory.
    pub fn hold(directory: &Directory, name: &str, bytes: usize, create: bool, module: u32) -> io::Result<Self> {
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || name.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let folder = directory.link(Kind::Memory, name);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let area = match existing(&folder) {
            Some(area) if area.bytes() >= bytes => area,
            Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
            None if create && bytes > 0 => {
                let bytes = bytes.checked_next_multiple_of(freehold_linux::PAGE_SIZE);
                Area::create(c"freehold-rtl-mbuff", bytes.ok_or(io::ErrorKind::InvalidInput)?)?
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let link = folder.join(format!("{}-{module}-{}", std::process::id(), area.descriptor()));
        let _ = fs::remove_file(&link);
        symlink(format!("/proc/{}/fd/{}", std::process::id(), area.descriptor()), &link)?;
        Ok(Self { area, link })
    }

    /// Its bytes, as long as this is held.
    #[must_use]
    pub fn area(&self) -> &Area {
        &self.area
    }
}

impl Drop for NamedMemory {
    fn drop(&mut self) {
        // Where it is gone there is nothing to take back.
        let _ = fs::remove_file(&self.link);
        if let Some(folder) = self.link.parent() {
            // Fails while others hold it.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn existing(folder: &PathBuf) -> Option<Area> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut found = None;
    for entry in entries {
        match Area::open(&entry.path()) {
            Ok(area) if found.is_none() => found = Some(area),
            Ok(_) => {}
            // Whoever held it has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_file(entry.path());
            }
            Err(_) => {}
        }
    }
    found
}

/// Memory that a process holds: its name and size.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryView {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// What `process` holds for a module, by the descriptor of the module's page of status.
#[must_use]
pub fn held_by(directory: &Directory, process: u32, module: u32) -> Vec<MemoryView> {
    let prefix = format!("{process}-{module}-");
    let mut views = Vec::new();
    for name in directory.names(Kind::Memory) {
        let entries = fs::read_dir(directory.link(Kind::Memory, &name))
            .into_iter()
            .flatten()
            .flatten();
        let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        let sizes = own.filter_map(|entry| fs::metadata(entry.path()).ok());
        if let Some(size) = sizes.map(|metadata| metadata.len()).next() {
            views.push(MemoryView {
                name: name.clone(),
                bytes: size,
            });
        }
    }
    views
}
