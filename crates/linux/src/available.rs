//! How much memory there is for a pool: what the machine has available, and what the memory cgroups that this process
//! is in leave of their limits, in either version of cgroups.
//!
//! A limit counts what is in use under it except the page cache, which the kernel drops first. What cannot be read
//! limits nothing.

use crate::memory_cgroups::{Files, MemoryCgroups, read};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// From one look whether memory comes back to the next.
const PAUSE: Duration = Duration::from_millis(50);
/// Looks in which as good as nothing came back, until nothing more is waited for: longer than the thread that frees
/// memory waits for a CPU.
const QUIET: u32 = 5;
/// Less may come and go by itself.
const NOTHING: u64 = 8 << 20;
/// As many looks as there are at most: 10 s.
const LOOKS: u32 = 200;

/// What limits the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// The machine has no more available.
    Machine,
    /// The limit of this memory cgroup.
    Cgroup(PathBuf),
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => write!(formatter, "on this machine"),
            Self::Cgroup(path) => write!(formatter, "under the limit of the memory cgroup {}", path.display()),
        }
    }
}

/// The bytes that are available to this process now, and what limits them. None where nothing is said.
#[must_use]
pub fn memory_available() -> Option<(u64, MemoryLimit)> {
    available(Path::new("/"))
}

/// As [`memory_available`], when it grows no more, in 10 s at most: programs that were killed a moment ago still give
/// theirs back. That takes 250 ms where it does not grow.
#[must_use]
pub fn memory_available_at_rest() -> Option<(u64, MemoryLimit)> {
    at_rest(memory_available, || std::thread::sleep(PAUSE))
}

fn at_rest<L>(mut look: impl FnMut() -> Option<(u64, L)>, mut pause: impl FnMut()) -> Option<(u64, L)> {
    let mut now = look()?;
    let mut counted = now.0;
    let mut quiet = 0;
    for _ in 0..LOOKS {
        if quiet == QUIET {
            break;
        }
        pause();
        now = look()?;
        quiet += 1;
        if now.0 > counted.saturating_add(NOTHING) {
            counted = now.0;
            quiet = 0;
        }
    }
    Some(now)
}

/// The bytes that are available and what limits them; `root` is the directory `/`. None where nothing is said.
fn available(root: &Path) -> Option<(u64, MemoryLimit)> {
    let text = read(&root.join("proc/meminfo")).unwrap_or_default();
    let machine = meminfo(&text, "MemAvailable:").map(|bytes| (bytes, MemoryLimit::Machine));
    let total = meminfo(&text, "MemTotal:").unwrap_or(u64::MAX);
    let all = machine.into_iter().chain(cgroups(root, total));
    all.min_by_key(|(bytes, _)| *bytes)
}

/// Bytes of a row of `/proc/meminfo`.
fn meminfo(text: &str, row: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(row))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What each cgroup with a limit leaves, from this process's own up to the outermost that can be seen. A limit of no
/// less than the machine's `total` is none: it leaves no less than the machine has available.
fn cgroups(root: &Path, total: u64) -> Vec<(u64, MemoryLimit)> {
    let own = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = MemoryCgroups::seen_from(root).of(&own);
    let left = |(directory, files): (PathBuf, &Files)| {
        let bytes = left(&directory, files, total)?;
        Some((bytes, MemoryLimit::Cgroup(directory)))
    };
    groups.into_iter().filter_map(left).collect()
}

/// What a cgroup leaves of its limit, in bytes; none without a limit.
fn left(directory: &Path, files: &Files, total: u64) -> Option<u64> {
    let number = |name: &str| read(&directory.join(name))?.trim().parse::<u64>().ok();
    // Without a limit version 2 says `max`.
    let limit = number(files.limit).filter(|limit| *limit < total)?;
    let usage = number(files.usage)?;
    let stat = read(&directory.join("memory.stat")).unwrap_or_default();
    let cached = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        files.cache.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    };
    let cache: u64 = stat.lines().filter_map(cached).sum();
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

#[cfg(test)]
mod tests {
    use super::{LOOKS, MemoryLimit, at_rest, available};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A directory in the place of `/`.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("freehold-available-{name}-{}", std::process::id()));
            for (path, content) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            Self(root)
        }

        fn available(&self) -> Option<(u64, MemoryLimit)> {
            available(&self.0)
        }

        fn group(&self, path: &str) -> MemoryLimit {
            MemoryLimit::Cgroup(self.0.join(path))
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal: 8000 kB\nMemAvailable:    1000 kB\n");
    const MACHINE: Option<(u64, MemoryLimit)> = Some((1_024_000, MemoryLimit::Machine));

    #[test]
    fn without_cgroups_the_machine_limits() {
        assert_eq!(Root::new("machine", &[MEMORY]).available(), MACHINE);
        assert_eq!(Root::new("nothing", &[]).available(), None);
    }

    #[test]
    fn the_tightest_group_on_the_way_up_limits() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let root = Root::new(
            "unified",
            &[
                MEMORY,
                ("proc/self/cgroup", "0::/outer/inner\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/outer/inner/memory.max", "max\n"),
                ("sys/fs/cgroup/outer/inner/memory.current", "7\n"),
                ("sys/fs/cgroup/outer/memory.max", "500000\n"),
                ("sys/fs/cgroup/outer/memory.current", "450000\n"),
                (
                    "sys/fs/cgroup/outer/memory.stat",
                    "anon 1\nfile 200000\ninactive_file 100000\nactive_file 50000\n",
                ),
            ],
        );
        assert_eq!(root.available(), Some((200_000, root.group("sys/fs/cgroup/outer"))));
        for none in ["max\n", "8192000\n"] {
            fs::write(root.0.join("sys/fs/cgroup/outer/memory.max"), none).unwrap();
            assert_eq!(root.available(), MACHINE);
        }
    }

    #[test]
    fn the_first_version_limits_too_also_where_only_a_part_is_mounted() {
        let mounts = "40 24 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 24 0:31 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let files = |group: &'static str| {
            [
                MEMORY,
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "300000\n"),
                ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "100000\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n"),
            ]
        };
        let root = Root::new("first", &files("5:cpu:/elsewhere\n4:memory:/box/job\n0::/\n"));
        let expected = root.group("sys/fs/cgroup/memory/job");
        assert_eq!(root.available(), Some((200_000, expected)));
        for (name, group) in [
            ("outside", "4:memory:/other\n"),
            ("alike", "4:memory:/boxes/job\n"),
            ("above", "4:memory:/box/../job\n"),
        ] {
            assert_eq!(Root::new(name, &files(group)).available(), MACHINE);
        }
    }

    #[test]
    fn memory_that_comes_back_is_waited_for_and_no_longer() {
        let after = |megabytes: &dyn Fn(u32) -> u64| {
            let mut looks = 0;
            let look = || {
                looks += 1;
                Some((megabytes(looks) << 20, ()))
            };
            let mut pauses = 0;
            (at_rest(look, || pauses += 1).unwrap().0 >> 20, pauses)
        };
        assert_eq!(after(&|_| 100), (100, 5));
        // With a stop on the way, and a little that comes and goes.
        assert_eq!(after(&|look| u64::from(100 * (look / 4).min(7) + look % 2)), (701, 32));
        let (_, pauses) = after(&|look| 100 * u64::from(look));
        assert_eq!(pauses, LOOKS);
    }

    #[test]
    fn this_machine_says_what_it_has() {
        let (bytes, _) = available(Path::new("/")).expect("/proc/meminfo");
        assert!(bytes > 0);
    }
}
