//! Physically contiguous memory for a region: pages of 1 GiB, cut into huge pages of 2 MiB that lie behind one another.
//!
//! The kernel's pool of huge pages is the machine's, not a process's: what is prepared stays until it is released.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Huge pages of 2 MiB in a page of 1 GiB.
const IN_ONE: u64 = 512;
const SYSTEM: &str = "/sys/kernel/mm/hugepages";
/// Where it is noted how many huge pages are to be given back.
const NOTE: &str = "/run/freehold/region";

/// Why memory is not prepared or released. The machine is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The machine has no pages of 1 GiB.
    #[error("this machine has no pages of 1GiB ({} is not there): devices get memory in several pieces", .0.display())]
    NoLargePages(PathBuf),
    /// The kernel cannot cut them.
    #[error("this kernel cannot cut pages of 1GiB ({} is not there): Linux 5.16 and later can", .0.display())]
    NoDemote(PathBuf),
    /// No such piece of memory is free.
    #[error("no {wanted} GiB in pieces of 1GiB are free: {had} were; try again after a reboot, or with less in use")]
    Fragmented {
        /// Pages of 1 GiB that were wanted.
        wanted: u64,
        /// How many there were.
        had: u64,
    },
    /// Nothing was prepared.
    #[error("nothing was prepared that could be released")]
    Nothing,
    /// The system's refusal.
    #[error("{}: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// What was done, and the commands that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Huge pages of 2 MiB that there are now, whoever uses them.
    pub pages: u64,
    /// Of these, free.
    pub free: u64,
    /// In words of a shell, in order.
    pub commands: Vec<String>,
}

/// The kernel's pools of huge pages.
#[derive(Debug)]
struct Pools {
    large: PathBuf,
    huge: PathBuf,
    note: PathBuf,
}

/// Takes `bytes` of memory, rounded up to whole GiB, and cuts it into huge pages.
///
/// # Errors
/// See [`PrepareError`].
pub fn prepare(bytes: u64) -> Result<Done, PrepareError> {
    Pools::here().prepare(bytes.div_ceil(1 << 30).max(1))
}

/// Gives back what was prepared. Huge pages in use go when nobody uses them any more.
///
/// # Errors
/// See [`PrepareError`].
pub fn release() -> Result<Done, PrepareError> {
    Pools::here().release()
}

/// The commands that [`prepare`] stands for.
#[must_use]
pub fn commands(bytes: u64) -> Vec<String> {
    let pools = Pools::here();
    let before = read(&pools.large.join("nr_hugepages")).unwrap_or(0);
    pools.commands(before, bytes.div_ceil(1 << 30).max(1))
}

impl Pools {
    fn here() -> Self {
        let system = Path::new(SYSTEM);
        Self {
            large: system.join("hugepages-1048576kB"),
            huge: system.join("hugepages-2048kB"),
            note: PathBuf::from(NOTE),
        }
    }

    fn commands(&self, before: u64, wanted: u64) -> Vec<String> {
        let (count, demote) = (self.large.join("nr_hugepages"), self.large.join("demote"));
        vec![
            format!("echo {} > {}", before + wanted, count.display()),
            format!("echo {wanted} > {}", demote.display()),
        ]
    }

    fn prepare(&self, wanted: u64) -> Result<Done, PrepareError> {
        if !self.large.exists() {
            return Err(PrepareError::NoLargePages(self.large.clone()));
        }
        let (count, demote) = (self.large.join("nr_hugepages"), self.large.join("demote"));
        if !demote.exists() {
            return Err(PrepareError::NoDemote(demote));
        }
        let before = read(&count)?;
        write(&count, before + wanted)?;
        let had = read(&count)?.saturating_sub(before);
        if had < wanted {
            write(&count, before)?;
            return Err(PrepareError::Fragmented { wanted, had });
        }
        if let Err(error) = write(&demote, wanted).and_then(|()| self.note(wanted * IN_ONE)) {
            let _ = write(&count, before);
            return Err(error);
        }
        self.done(self.commands(before, wanted))
    }

    fn release(&self) -> Result<Done, PrepareError> {
        let noted = read(&self.note).map_err(|_| PrepareError::Nothing)?;
        let count = self.huge.join("nr_hugepages");
        let left = read(&count)?.saturating_sub(noted);
        write(&count, left)?;
        fs::remove_file(&self.note).map_err(|error| failed(&self.note, error))?;
        self.done(vec![format!("echo {left} > {}", count.display())])
    }

    /// Adds to what is to be given back.
    fn note(&self, pages: u64) -> Result<(), PrepareError> {
        if let Some(folder) = self.note.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        write(&self.note, read(&self.note).unwrap_or(0) + pages)
    }

    fn done(&self, commands: Vec<String>) -> Result<Done, PrepareError> {
        Ok(Done {
            pages: read(&self.huge.join("nr_hugepages"))?,
            free: read(&self.huge.join("free_hugepages"))?,
            commands,
        })
    }
}

fn read(path: &Path) -> Result<u64, PrepareError> {
    let text = fs::read_to_string(path).map_err(|error| failed(path, error))?;
    let number = text.trim().parse();
    number.map_err(|_| failed(path, io::Error::from(io::ErrorKind::InvalidData)))
}

fn write(path: &Path, number: u64) -> Result<(), PrepareError> {
    fs::write(path, format!("{number}\n")).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: io::Error) -> PrepareError {
    PrepareError::System {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::{Pools, PrepareError};
    use std::fs;

    fn pools(name: &str) -> Pools {
        let root = std::env::temp_dir().join(format!("freehold-pools-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let pools = Pools {
            large: root.join("large"),
            huge: root.join("huge"),
            note: root.join("run/note"),
        };
        fs::create_dir_all(&pools.huge).unwrap();
        fs::write(pools.huge.join("nr_hugepages"), "600\n").unwrap();
        fs::write(pools.huge.join("free_hugepages"), "600\n").unwrap();
        pools
    }

    #[test]
    fn a_machine_without_large_pages_is_refused_by_name() {
        let pools = pools("none");
        assert!(matches!(pools.prepare(1), Err(PrepareError::NoLargePages(_))));
        fs::create_dir_all(&pools.large).unwrap();
        fs::write(pools.large.join("nr_hugepages"), "0\n").unwrap();
        assert!(matches!(pools.prepare(1), Err(PrepareError::NoDemote(_))));
        assert!(matches!(pools.release(), Err(PrepareError::Nothing)));
    }

    #[test]
    fn what_was_prepared_is_given_back_and_no_more() {
        let pools = pools("some");
        fs::create_dir_all(&pools.large).unwrap();
        fs::write(pools.large.join("nr_hugepages"), "1\n").unwrap();
        fs::write(pools.large.join("demote"), "").unwrap();
        let done = pools.prepare(1).unwrap();
        assert!(done.commands[0].starts_with("echo 2 > ") && done.commands[1].starts_with("echo 1 > "));
        let done = pools.release().unwrap();
        assert_eq!(done.pages, 88);
        assert!(matches!(pools.release(), Err(PrepareError::Nothing)));
    }
}
