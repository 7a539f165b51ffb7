//! A memory cgroup of the kernel, and a swap file or device for what does not fit. Both are undone when dropped.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_linux::swap::SwapFile;
use freehold_linux::zram::Zram;

use freehold_command::exit_status::Failure;
use freehold_command::leftovers::{self, MEMBERS, Workplace};
use freehold_command::output;

/// The limits in force.
#[derive(Debug)]
pub(crate) struct Limited {
    // In this order: who is left in the group ends, then pages come back from the swap file.
    group: Group,
    _swap: Swap,
    _place: Workplace,
}

impl Limited {
    /// A group of so many bytes, and a swap file of so many pages in the system's folder for temporary files.
    ///
    /// # Errors
    /// What the kernel refuses; nothing is left behind.
    pub(crate) fn new(bytes: usize, swap_pages: usize) -> Result<Self, Failure> {
        let place = Workplace::new()?;
        let swap = SwapFile::create(&place.swap_file(), swap_pages);
        Ok(Self {
            _swap: Swap::File(swap.map_err(refused)?),
            group: Group::new(&place, bytes)?,
            _place: place,
        })
    }

    /// A group of so many bytes, and a swap device of so many pages in memory.
    ///
    /// # Errors
    /// What the kernel refuses; nothing is left behind.
    pub(crate) fn in_memory(bytes: usize, swap_pages: usize) -> Result<Self, Failure> {
        let place = Workplace::new()?;
        let zram = Zram::new().map_err(refused)?;
        place.note_zram(zram.number())?;
        zram.swap_on(swap_pages).map_err(refused)?;
        Ok(Self {
            _swap: Swap::Memory(zram),
            group: Group::new(&place, bytes)?,
            _place: place,
        })
    }

    /// The file that a process writes itself to.
    pub(crate) fn members(&self) -> PathBuf {
        self.group.path.join(MEMBERS)
    }
}

/// Where pages go that do not fit.
#[derive(Debug)]
#[allow(dead_code, reason = "they are there to be dropped")]
enum Swap {
    File(SwapFile),
    Memory(Zram),
}

fn refused(why: impl std::fmt::Display) -> Failure {
    Failure::Run(why.to_string())
}

/// A memory cgroup, removed when dropped. What still runs in it is killed: only what was put there by us can be in it.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// Where the memory controller was switched on for it.
    switched_on: Option<PathBuf>,
}

impl Group {
    fn new(place: &Workplace, bytes: usize) -> Result<Self, Failure> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(refused)?;
        let (root, limit) = find(&mounts, |root| fs::read_to_string(root.join("cgroup.controllers")).ok())
            .ok_or_else(|| refused("there is no memory cgroup hierarchy"))?;
        let mut switched_on = None;
        let control = root.join("cgroup.subtree_control");
        if limit == LIMIT_V2 && !fs::read_to_string(&control).map_err(refused)?.contains("memory") {
            place.note_setting(&control.display().to_string(), "-memory")?;
            fs::write(&control, "+memory").map_err(refused)?;
            switched_on = Some(control);
        }
        let path = root.join(place.path().file_name().unwrap_or_default());
        place.note_group(&path)?;
        // From here on dropping it cleans up.
        let group = Self { path, switched_on };
        fs::create_dir(&group.path).map_err(refused)?;
        fs::write(group.path.join(limit), bytes.to_string()).map_err(refused)?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !leftovers::remove_group(&self.path) {
            output::note(&format!(
                "freehold: the memory cgroup {} is not removed",
                self.path.display()
            ));
        }
        if let Some(control) = &self.switched_on {
            let _ = fs::write(control, "-memory");
        }
    }
}

const LIMIT_V1: &str = "memory.limit_in_bytes";
const LIMIT_V2: &str = "memory.max";

/// Where memory cgroups are made, and how their limit is called: version 1 where it has the controller, else version 2.
fn find(mounts: &str, controllers: impl Fn(&Path) -> Option<String>) -> Option<(PathBuf, &'static str)> {
    let fields = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let mounts: Vec<Vec<String>> = mounts.lines().map(fields).filter(|fields| fields.len() >= 4).collect();
    let old = mounts
        .iter()
        .find(|mount| mount[2] == "cgroup" && mount[3].split(',').any(|option| option == "memory"));
    if let Some(mount) = old {
        return Some((PathBuf::from(&mount[1]), LIMIT_V1));
    }
    let new = mounts
        .iter()
        .filter(|mount| mount[2] == "cgroup2")
        .map(|mount| PathBuf::from(&mount[1]));
    new.into_iter()
        .find(|root| controllers(root).is_some_and(|names| names.split_whitespace().any(|name| name == "memory")))
        .map(|root| (root, LIMIT_V2))
}

#[cfg(test)]
mod tests {
    use super::{LIMIT_V1, LIMIT_V2, find};

    #[test]
    fn both_versions_are_found() {
        let unified = "cgroup2 /u cgroup2 rw 0 0\n";
        let both = format!("{unified}cgroup /c/memory cgroup rw,memory 0 0\ncgroup /c/cpu cgroup rw,cpu 0 0\n");
        assert_eq!(find(&both, |_| None), Some(("/c/memory".into(), LIMIT_V1)));
        assert_eq!(
            find(unified, |_| Some("cpu memory\n".to_owned())),
            Some(("/u".into(), LIMIT_V2))
        );
        assert_eq!(find(unified, |_| Some("cpu\n".to_owned())), None);
        assert_eq!(find("", |_| Some("memory".to_owned())), None);
    }
}
