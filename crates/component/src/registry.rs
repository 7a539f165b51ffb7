//! Which compositions run, for `ps` and `kill`: a file for each, named after its manager, in a folder of the user.
//!
//! Several versions of the command may share the folder. A file of another version is left alone as long as its manager
//! runs, whether it is understood here or not; what is not understood in it is passed over.

pub use freehold_report::transient::{UnitState, Wait};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A composition that runs.
#[derive(Debug, Deserialize, Serialize)]
pub struct Running {
    /// What it is called.
    pub composition: String,
    /// Its manager.
    pub manager: u32,
    /// Its components: name, process, and how often it was started again.
    pub components: Vec<(String, u32, u32)>,
    /// Units of each component and kind, as of the policy's last run.
    #[serde(default)]
    pub units: Vec<UnitState>,
    /// Which thread waits for which, as of then.
    #[serde(default)]
    pub waits: Vec<Wait>,
}

/// What runs.
#[derive(Debug, Default)]
pub struct Registered {
    /// Compositions of a form that this version knows, by manager.
    pub known: Vec<Running>,
    /// Managers whose files have another form.
    pub unknown: Vec<u32>,
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
pub fn running() -> io::Result<Registered> {
    read(&folder()?)
}

fn read(folder: &Path) -> io::Result<Registered> {
    let mut all = Registered::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // The name says whose it is, whatever its content.
        let Some(manager) = manager_of(&path) else { continue };
        if !std::fs::exists(format!("/proc/{manager}"))? {
            // Of a manager that was killed.
            let _ = std::fs::remove_file(&path);
            continue;
        }
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice::<Running>(&text) {
                Ok(running) => all.known.push(Running { manager, ..running }),
                Err(_) => all.unknown.push(manager),
            },
            // It has ended since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    all.known.sort_by_key(|running| running.manager);
    all.unknown.sort_unstable();
    Ok(all)
}

fn manager_of(path: &Path) -> Option<u32> {
    let named = path.extension().is_some_and(|extension| extension == "json");
    let manager: u32 = path.file_stem()?.to_str()?.parse().ok()?;
    Some(manager).filter(|manager| named && is_process(*manager))
}

/// Whether a number can be a process's: 0 would be the caller's whole group to the kernel.
fn is_process(number: u32) -> bool {
    i32::try_from(number).is_ok_and(|number| number > 0)
}

/// The process of the only component of this name.
///
/// # Errors
/// As [`running`]; nobody or several have that name, or its process is none.
pub fn find(name: &str) -> io::Result<u32> {
    find_among(&running()?.known, name)
}

fn find_among(all: &[Running], name: &str) -> io::Result<u32> {
    let mut found = all
        .iter()
        .flat_map(|running| &running.components)
        .filter(|component| component.0 == name);
    match (found.next(), found.next()) {
        (Some((_, process, _)), None) if is_process(*process) => Ok(*process),
        (Some((_, process, _)), None) => Err(io::Error::other(format!("{process} is no process"))),
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

#[cfg(test)]
mod tests {
    use super::{Running, find_among, read};

    #[test]
    fn what_another_version_wrote_stays_as_long_as_its_manager_runs() {
        let folder = std::env::temp_dir().join(format!("freehold-registry-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        // A process that has ended and was waited for.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (known, unknown) = (format!("{own}.json"), format!("{parent}.json"));
        let gone = format!("{}.json", child.id());
        let older = format!("{{\"composition\":\"a\",\"manager\":{own},\"components\":[[\"x\",7,1]],\"later\":3}}");
        for (name, text) in [
            (&known, older.as_str()),
            (&unknown, "{\"composition\":7}"),
            (&gone, "{}"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::fs::write(folder.join("0.json"), "{}").unwrap();
        std::fs::write(folder.join("notes.json"), "{}").unwrap();
        let found = read(&folder).unwrap();
        assert_eq!((found.known.len(), found.unknown.as_slice()), (1, &[parent][..]));
        assert_eq!(found.known[0].components, [("x".to_owned(), 7, 1)]);
        assert!(found.known[0].units.is_empty());
        for kept in [&known, &unknown, "0.json", "notes.json"] {
            assert!(folder.join(kept).exists(), "{kept}");
        }
        assert!(!folder.join(gone).exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_component_without_a_process_is_not_found() {
        let running = |process| Running {
            composition: "a".to_owned(),
            manager: 1,
            components: vec![("x".to_owned(), process, 0)],
            units: Vec::new(),
            waits: Vec::new(),
        };
        assert_eq!(find_among(&[running(7)], "x").ok(), Some(7));
        for process in [0, u32::MAX, 1 << 31] {
            assert!(find_among(&[running(process)], "x").is_err());
        }
        assert!(find_among(&[running(7), running(8)], "x").is_err());
    }
}
