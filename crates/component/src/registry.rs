//! Which compositions run, for `ps` and `kill`: a file for each, in a folder of the user's own.

use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;

/// A composition that runs.
#[derive(Debug, Deserialize, Serialize)]
pub struct Running {
    /// What it is called.
    pub composition: String,
    /// Its manager.
    pub manager: u32,
    /// Its components: name, process, and how often it was started again.
    pub components: Vec<(String, u32, u32)>,
}

/// The file of this process's composition, removed in the end.
#[derive(Debug)]
pub(crate) struct Entry(PathBuf);

impl Entry {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(folder()?.join(format!("{}.json", std::process::id()))))
    }

    pub(crate) fn write(&self, running: &Running) -> io::Result<()> {
        let text = serde_json::to_vec(running).map_err(io::Error::other)?;
        let new = self.0.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, &self.0)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compositions of this user that run.
///
/// # Errors
/// The folder cannot be made or read, or is another user's.
pub fn running() -> io::Result<Vec<Running>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder()?)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let found = std::fs::read(&path)
            .ok()
            .and_then(|text| serde_json::from_slice::<Running>(&text).ok());
        match found {
            Some(running) if std::fs::exists(format!("/proc/{}", running.manager))? => all.push(running),
            // Of a manager that was killed.
            _ => drop(std::fs::remove_file(&path)),
        }
    }
    all.sort_by_key(|running| running.manager);
    Ok(all)
}

/// The process of the only component of this name.
///
/// # Errors
/// As [`running`]; nobody or several have that name.
pub fn find(name: &str) -> io::Result<u32> {
    let all = running()?;
    let mut found = all
        .iter()
        .flat_map(|running| &running.components)
        .filter(|component| component.0 == name);
    match (found.next(), found.next()) {
        (Some((_, process, _)), None) => Ok(*process),
        (None, _) => Err(io::Error::other(format!("no component `{name}` runs"))),
        (Some(_), Some(_)) => Err(io::Error::other(format!("several components `{name}` run"))),
    }
}

fn folder() -> io::Result<PathBuf> {
    let user = freehold_linux::process::effective_user();
    let folder = std::env::temp_dir().join(format!("freehold-components-{user}"));
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user {
        return Err(io::Error::other(format!(
            "{} is not this user's folder",
            folder.display()
        )));
    }
    Ok(folder)
}
