//! A memory cgroup of the kernel with a little less memory than its processes want, and a swap file. Both are undone
//! when dropped.

use std::fs;
use std::path::{Path, PathBuf};

use freehold_linux::PAGE_SIZE;
use freehold_linux::swap::SwapFile;

use super::child::{HOG_FRAMES, HOG_PAGES, WORKING_SET};
use crate::bench::rounds::refused;
use crate::status::Failure;

/// What a process of this command needs besides.
const PROCESS: usize = 1024;
/// Room for all that does not fit.
const SWAP_PAGES: usize = 2 * HOG_PAGES + WORKING_SET + 4096;

/// The limits in force.
#[derive(Debug)]
pub(super) struct Limited {
    // In this order: pages come back from the swap file before the group is gone.
    _swap: SwapFile,
    group: Group,
}

impl Limited {
    /// Sets both up.
    ///
    /// # Errors
    /// What the kernel refuses; nothing is left behind.
    pub(super) fn new() -> Result<Self, Failure> {
        let group = Group::new((WORKING_SET + HOG_FRAMES + PROCESS) * PAGE_SIZE)?;
        let path = std::env::temp_dir().join(format!("freehold-bench-{}.swap", std::process::id()));
        Ok(Self {
            _swap: SwapFile::create(&path, SWAP_PAGES).map_err(refused)?,
            group,
        })
    }

    /// The file that a process writes itself to.
    pub(super) fn members(&self) -> PathBuf {
        self.group.path.join("cgroup.procs")
    }
}

/// A memory cgroup, removed when dropped. Its processes must have ended.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// Where the memory controller was switched on for it.
    switched_on: Option<PathBuf>,
}

impl Group {
    fn new(bytes: usize) -> Result<Self, Failure> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(refused)?;
        let (root, limit) = find(&mounts, |root| fs::read_to_string(root.join("cgroup.controllers")).ok())
            .ok_or_else(|| refused("there is no memory cgroup hierarchy"))?;
        let mut switched_on = None;
        let control = root.join("cgroup.subtree_control");
        if limit == LIMIT_V2 && !fs::read_to_string(&control).map_err(refused)?.contains("memory") {
            fs::write(&control, "+memory").map_err(refused)?;
            switched_on = Some(control);
        }
        let path = root.join(format!("freehold-bench-{}", std::process::id()));
        // From here on dropping it cleans up.
        let group = Self { path, switched_on };
        fs::create_dir(&group.path).map_err(refused)?;
        fs::write(group.path.join(limit), bytes.to_string()).map_err(refused)?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
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
