//! A control group of a test's own.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What a group may have at first.
const PLENTY: u64 = 1 << 21;

/// What a group limits: where version 1 of control groups has it, and the names of the limit in both versions.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "not every test file uses everything")]
pub(crate) enum Limit {
    Memory,
    Tasks,
}

impl Limit {
    fn places(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Memory => [
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                ("/sys/fs/cgroup", "memory.max"),
            ],
            Self::Tasks => [("/sys/fs/cgroup/pids", "pids.max"), ("/sys/fs/cgroup", "pids.max")],
        }
    }
}

/// A control group, gone when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    limit: &'static str,
}

impl Group {
    /// Of either version; nothing where none can be made.
    pub(crate) fn new(limit: Limit) -> Option<Self> {
        limit.places().into_iter().find_map(|(place, file)| {
            let folder = PathBuf::from(place).join(format!("freehold-limits-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit: file };
            group.allow(PLENTY).ok().map(|()| group)
        })
    }

    /// Sets its limit.
    pub(crate) fn allow(&self, most: u64) -> std::io::Result<()> {
        let file = fs::File::options().write(true).open(self.folder.join(self.limit));
        file?.write_all(most.to_string().as_bytes())
    }

    /// A line for `sh -c`, that enters the group and becomes what its arguments say.
    pub(crate) fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.folder.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, but may not be gone yet.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
