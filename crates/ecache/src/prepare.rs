//! Physically contiguous memory for a region: pages of 1 GiB, cut into huge pages of 2 MiB that lie behind one another.
//! Where there is none, a run of huge pages that happen to be neighbours (`adjacent`).
//!
//! The kernel's pool of huge pages is the machine's, not a process's: what is prepared stays until it is released.

use crate::adjacent::Held;
use crate::huge_pages::{self, soon};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Huge pages of 2 MiB in a page of 1 GiB.
const IN_ONE: u64 = 512;
const SYSTEM: &str = "/sys/kernel/mm/hugepages";
/// How many times the wanted pages are looked through for neighbours, first and then.
const LOOKED_THROUGH: [u64; 2] = [4, 16];
/// Fewer are not worth a look.
const LEAST_LOOKED_THROUGH: u64 = 128;
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
    /// Nor do enough huge pages lie behind one another.
    #[error("{why}; and of {looked} huge pages at most {longest} lie behind one another, where {wanted} are wanted")]
    Scattered {
        /// Why there is no page of 1 GiB.
        why: Box<PrepareError>,
        /// Huge pages of 2 MiB that were looked at.
        looked: u64,
        /// Those that should lie behind one another.
        wanted: u64,
        /// Those that did.
        longest: u64,
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

/// Takes `bytes` of memory, rounded up to whole GiB, and cuts it into huge pages. Where there is none, takes so many
/// bytes in huge pages that lie behind one another.
///
/// # Errors
/// See [`PrepareError`].
pub fn prepare(bytes: u64) -> Result<Done, PrepareError> {
    let pools = Pools::here();
    match pools.prepare(bytes.div_ceil(1 << 30).max(1)) {
        Err(why @ (PrepareError::NoLargePages(_) | PrepareError::NoDemote(_) | PrepareError::Fragmented { .. })) => {
            pools.gather(bytes.div_ceil(2 << 20).max(1), why)
        }
        outcome => outcome,
    }
}

/// Gives back what was prepared. Huge pages in use go when nobody uses them any more; for those of a server that was
/// killed a moment ago this waits.
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
    let before = kept(&pools.large).unwrap_or(0);
    pools.commands(before, bytes.div_ceil(1 << 30).max(1))
}

impl Pools {
    fn here() -> Self {
        let system = Path::new(SYSTEM);
        Self {
            large: system.join("hugepages-1048576kB"),
            huge: PathBuf::from(huge_pages::POOL),
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
        let before = kept(&self.large)?;
        write(&count, before + wanted)?;
        let had = kept(&self.large)?.saturating_sub(before);
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

    /// Takes huge pages that lie behind one another.
    fn gather(&self, wanted: u64, why: PrepareError) -> Result<Done, PrepareError> {
        let count = self.huge.join("nr_hugepages");
        let before = kept(&self.huge)?;
        let (mut looked, mut longest) = (0, 0);
        for times in LOOKED_THROUGH {
            let some = (wanted * times).clamp(LEAST_LOOKED_THROUGH, self.spare().max(LEAST_LOOKED_THROUGH));
            if some < wanted || some <= looked {
                break;
            }
            // The kernel stops where it has no more.
            write(&count, before + some)?;
            looked = kept(&self.huge)?.saturating_sub(before);
            match keep_run(looked, wanted) {
                Ok((held, run)) => {
                    let kept = write(&count, before + wanted).and_then(|()| self.note(wanted));
                    held.give_back_run(&run);
                    if let Err(error) = kept {
                        let _ = write(&count, before);
                        return Err(error);
                    }
                    return self.done(vec![
                        format!("echo {} > {}", before + some, count.display()),
                        "# hold them, and give back all but a run of neighbours; then".to_owned(),
                        format!("echo {} > {}", before + wanted, count.display()),
                    ]);
                }
                Err(run) => longest = run.max(longest),
            }
            write(&count, before)?;
        }
        Err(PrepareError::Scattered {
            why: Box::new(why),
            looked,
            wanted,
            longest,
        })
    }

    /// Huge pages that half of the available memory is.
    fn spare(&self) -> u64 {
        let available = freehold_linux::available::memory_available().map_or(0, |(bytes, _)| bytes);
        available / 2 / (2 << 20)
    }

    fn release(&self) -> Result<Done, PrepareError> {
        let noted = read(&self.note).map_err(|_| PrepareError::Nothing)?;
        let count = self.huge.join("nr_hugepages");
        let others = surplus(&self.huge)?;
        let left = kept(&self.huge)?.saturating_sub(noted);
        write(&count, left)?;
        // A page in use is one of the surplus now.
        soon(|| surplus(&self.huge).is_ok_and(|pages| pages <= others));
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

/// Holds `looked` huge pages, and of them a run of so many; else how long the longest run is.
fn keep_run(looked: u64, wanted: u64) -> Result<(Held, Vec<usize>), u64> {
    let small = |number: u64| usize::try_from(number).map_err(|_| 0_u64);
    let held = Held::take(small(looked)?).map_err(|_| 0_u64)?;
    let run = held.keep_run(small(wanted)?).map_err(|longest| longest as u64)?;
    Ok((held, run))
}

/// Pages that a pool keeps whether they are used or not.
fn kept(pool: &Path) -> Result<u64, PrepareError> {
    Ok(read(&pool.join("nr_hugepages"))?.saturating_sub(surplus(pool)?))
}

/// Pages that a pool gives back as soon as nobody uses them.
fn surplus(pool: &Path) -> Result<u64, PrepareError> {
    read(&pool.join("surplus_hugepages"))
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
    use std::path::PathBuf;

    /// A folder in place of the kernel's files, gone when this is dropped.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn pools(name: &str) -> (Folder, Pools) {
        let root = std::env::temp_dir().join(format!("freehold-pools-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let pools = Pools {
            large: root.join("large"),
            huge: root.join("huge"),
            note: root.join("run/note"),
        };
        fs::create_dir_all(&pools.huge).unwrap();
        for name in ["nr_hugepages", "free_hugepages"] {
            fs::write(pools.huge.join(name), "600\n").unwrap();
        }
        // Others have them beyond what the pool keeps.
        fs::write(pools.huge.join("surplus_hugepages"), "8\n").unwrap();
        (Folder(root), pools)
    }

    #[test]
    fn a_machine_without_large_pages_is_refused_by_name() {
        let (_folder, pools) = pools("none");
        assert!(matches!(pools.prepare(1), Err(PrepareError::NoLargePages(_))));
        fs::create_dir_all(&pools.large).unwrap();
        fs::write(pools.large.join("nr_hugepages"), "0\n").unwrap();
        assert!(matches!(pools.prepare(1), Err(PrepareError::NoDemote(_))));
        assert!(matches!(pools.release(), Err(PrepareError::Nothing)));
    }

    #[test]
    fn what_was_prepared_is_given_back_and_no_more() {
        let (_folder, pools) = pools("some");
        fs::create_dir_all(&pools.large).unwrap();
        fs::write(pools.large.join("nr_hugepages"), "1\n").unwrap();
        fs::write(pools.large.join("surplus_hugepages"), "0\n").unwrap();
        fs::write(pools.large.join("demote"), "").unwrap();
        let done = pools.prepare(1).unwrap();
        assert!(done.commands[0].starts_with("echo 2 > ") && done.commands[1].starts_with("echo 1 > "));
        let done = pools.release().unwrap();
        assert_eq!(done.pages, 80);
        assert!(matches!(pools.release(), Err(PrepareError::Nothing)));
    }
}
