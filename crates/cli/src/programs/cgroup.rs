//! A memory cgroup of the kernel and a swap file for what does not fit. Both are undone when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use freehold_linux::process::send_signal;
use freehold_linux::swap::SwapFile;

use crate::output;
use crate::status::Failure;

/// How often a group is tried to be removed: its processes may be about to end.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(20);
/// SIGKILL.
const KILL: i32 = 9;

/// The limits in force.
#[derive(Debug)]
pub(crate) struct Limited {
    // In this order: who is left in the group ends, then pages come back from the swap file.
    group: Group,
    _swap: SwapFile,
}

impl Limited {
    /// A group of so many bytes, and a swap file of so many pages in the system's folder for temporary files.
    ///
    /// # Errors
    /// What the kernel refuses; nothing is left behind.
    pub(crate) fn new(bytes: usize, swap_pages: usize) -> Result<Self, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "freehold-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let swap = SwapFile::create(&std::env::temp_dir().join(format!("{name}.swap")), swap_pages);
        Ok(Self {
            _swap: swap.map_err(refused)?,
            group: Group::new(&name, bytes)?,
        })
    }

    /// The file that a process writes itself to.
    pub(crate) fn members(&self) -> PathBuf {
        self.group.path.join(MEMBERS)
    }
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
    fn new(name: &str, bytes: usize) -> Result<Self, Failure> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(refused)?;
        let (root, limit) = find(&mounts, |root| fs::read_to_string(root.join("cgroup.controllers")).ok())
            .ok_or_else(|| refused("there is no memory cgroup hierarchy"))?;
        let mut switched_on = None;
        let control = root.join("cgroup.subtree_control");
        if limit == LIMIT_V2 && !fs::read_to_string(&control).map_err(refused)?.contains("memory") {
            fs::write(&control, "+memory").map_err(refused)?;
            switched_on = Some(control);
        }
        let path = root.join(name);
        // From here on dropping it cleans up.
        let group = Self { path, switched_on };
        fs::create_dir(&group.path).map_err(refused)?;
        fs::write(group.path.join(limit), bytes.to_string()).map_err(refused)?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let removed = (0..LOOKS).any(|look| {
            if look > 0 {
                std::thread::sleep(LOOK);
            }
            let members = fs::read_to_string(self.path.join(MEMBERS)).unwrap_or_default();
            for member in members.lines().filter_map(|line| line.parse().ok()) {
                // It may have ended.
                let _ = send_signal(member, KILL);
            }
            fs::remove_dir(&self.path).is_ok() || !self.path.exists()
        });
        if !removed {
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

/// The processes of a group.
const MEMBERS: &str = "cgroup.procs";
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
