//! What the memory cgroups of another process leave of their limits.
//!
//! A page that is copied into the address space of a process (`UFFDIO_COPY`) is charged to that process's memory
//! cgroup. Where the limit is reached it is the thread that copies which waits: until the kernel has taken pages of the
//! group back, or has ended a process of it. The kernel cannot free the memory of one whose address space the copying
//! thread holds, and that thread waits two seconds for it (`OOM_REAPER_DELAY`). Who copies for several looks first.

use crate::memory_cgroups::{MemoryCgroups, read};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

/// Bytes of a number in such a file.
const NUMBER: usize = 24;
/// No group has a limit of so much: without one version 1 says nearly as much.
const NO_LIMIT: u64 = 1 << 62;

/// The limits of the memory cgroups that a process was in when it was asked for.
#[derive(Debug, Default)]
pub struct ChargeLimits {
    groups: Vec<Limited>,
    /// These files' alone, whatever process it is.
    given: bool,
}

#[derive(Debug)]
struct Limited {
    limit: File,
    usage: File,
}

impl ChargeLimits {
    /// Of a process, by its number here. What cannot be read limits nothing, nor does a group that has no limit now.
    /// Some 10 us, and 10 for each group on the way up.
    #[must_use]
    pub fn of(process: u32) -> Self {
        static CGROUPS: LazyLock<MemoryCgroups> = LazyLock::new(|| MemoryCgroups::seen_from(Path::new("/")));
        let own = read(Path::new(&format!("/proc/{process}/cgroup"))).unwrap_or_default();
        let limited = |(directory, files): (std::path::PathBuf, &crate::memory_cgroups::Files)| {
            let limit = File::open(directory.join(files.limit)).ok()?;
            number(&limit).filter(|limit| *limit < NO_LIMIT)?;
            let usage = File::open(directory.join(files.usage)).ok()?;
            Some(Limited { limit, usage })
        };
        Self {
            groups: CGROUPS.of(&own).into_iter().filter_map(limited).collect(),
            given: false,
        }
    }

    /// The limit of one group, which these files say, for good.
    #[must_use]
    pub fn said_by(limit: File, usage: File) -> Self {
        Self {
            groups: vec![Limited { limit, usage }],
            given: true,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes those of the process that have been asked for again; what it does not need any more.
    #[must_use]
    pub fn renew(&mut self, limits: Self) -> Self {
        if self.given {
            return limits;
        }
        std::mem::replace(self, limits)
    }

    /// Bytes that the tightest of them leaves now. Two short reads for each.
    #[must_use]
    pub fn left(&self) -> u64 {
        let left = |group: &Limited| {
            let limit = number(&group.limit)?;
            Some(limit.saturating_sub(number(&group.usage)?))
        };
        self.groups.iter().filter_map(left).min().unwrap_or(u64::MAX)
    }
}

/// The number in a file; none where it says `max`, or nothing.
fn number(file: &File) -> Option<u64> {
    let mut text = [0; NUMBER];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ChargeLimits, Limited};
    use std::fs;
    use std::fs::File;

    #[test]
    fn the_tightest_limit_counts_as_it_is_now() {
        let folder = std::env::temp_dir().join(format!("freehold-charge-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let group = |name: &str, limit: &str, usage: &str| {
            let (of_limit, of_usage) = (path(&format!("{name}.limit")), path(&format!("{name}.usage")));
            fs::write(&of_limit, limit).unwrap();
            fs::write(&of_usage, usage).unwrap();
            Limited {
                limit: File::open(of_limit).unwrap(),
                usage: File::open(of_usage).unwrap(),
            }
        };
        let mut limits = ChargeLimits {
            groups: vec![group("inner", "5000\n", "1000\n"), group("outer", "9000\n", "8000\n")],
            given: false,
        };
        assert_eq!(limits.left(), 1_000);
        fs::write(path("outer.limit"), "max\n").unwrap();
        assert_eq!(limits.left(), 4_000);
        fs::write(path("inner.usage"), "7000\n").unwrap();
        assert_eq!(limits.left(), 0);
        fs::remove_dir_all(&folder).unwrap();
        drop(limits.renew(ChargeLimits::default()));
        assert_eq!(limits.left(), u64::MAX);
        assert_eq!(ChargeLimits::default().left(), u64::MAX);
        assert!(ChargeLimits::of(0).are_none());
    }
}
