//! The memory cgroups that a process is in, in either version of cgroups.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Bytes for which there is room at first: more than most of the files have.
const READ: usize = 8192;

/// The files in which one version of cgroups says something.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) limit: &'static str,
    pub(crate) usage: &'static str,
    /// Rows of `memory.stat` that count page cache.
    pub(crate) cache: [&'static str; 2],
}

static VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};
static VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    cache: ["inactive_file", "active_file"],
};

/// Where memory cgroups are mounted.
#[derive(Debug)]
pub(crate) struct MemoryCgroups(Vec<Mount>);

impl MemoryCgroups {
    /// As this process sees them; `root` is the directory `/`.
    pub(crate) fn seen_from(root: &Path) -> Self {
        let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
        Self(mounts.lines().filter_map(|line| Mount::parse(root, line)).collect())
    }

    /// The groups of a process, whose `/proc/PID/cgroup` says this, from its own up to the outermost that can be seen.
    pub(crate) fn of(&self, process: &str) -> Vec<(PathBuf, &'static Files)> {
        let mut found = Vec::new();
        for mount in &self.0 {
            let Some(group) = process.lines().find_map(|line| mount.group(line)) else {
                continue;
            };
            let mut directory = mount.point.join(group);
            loop {
                found.push((directory.clone(), mount.files));
                if directory == mount.point || !directory.pop() {
                    break;
                }
            }
        }
        found
    }
}

/// What a file holds. Most of those here are made by the kernel for each read, so that few reads are to do.
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut text = String::with_capacity(READ);
    fs::File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

#[derive(Debug)]
struct Mount {
    /// The cgroup that is mounted there.
    group: PathBuf,
    point: PathBuf,
    files: &'static Files,
}

impl Mount {
    /// From a line of mountinfo; none if no memory cgroups are mounted there.
    fn parse(root: &Path, line: &str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (group, point) = (place.next()?, place.next()?);
        let mut system = system.split(' ');
        let files = match system.next()? {
            "cgroup2" => &VERSION_2,
            "cgroup" if system.nth(1)?.split(',').any(|option| option == "memory") => &VERSION_1,
            _ => return None,
        };
        Some(Self {
            group: group.into(),
            point: root.join(point.trim_start_matches('/')),
            files,
        })
    }

    /// The directory below the mount point for a line of a process's cgroups; none if it is of another hierarchy.
    fn group<'a>(&self, line: &'a str) -> Option<&'a Path> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let mine = if self.files.limit == VERSION_2.limit {
            number == "0" && controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "memory")
        };
        // Of a group outside of what is mounted here, the mount point is the nearest that can be seen.
        let below = Path::new(path).strip_prefix(&self.group).unwrap_or(Path::new(""));
        let seen = !below.components().any(|part| part == Component::ParentDir);
        mine.then_some(if seen { below } else { Path::new("") })
    }
}
