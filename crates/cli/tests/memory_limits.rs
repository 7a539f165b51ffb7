//! Programs in memory cgroups with limits, served by a server that is outside: what they read is right, and one that
//! finds no room below its limit is ended by the kernel, as it is without a server.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{compiled, freehold_under};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// MiB of the program's memory.
const MEMORY: &str = "24";
const KILL: i32 = 9;

/// A memory cgroup, gone when dropped.
struct Group {
    folder: PathBuf,
    limit: &'static str,
}

impl Group {
    /// Of either version of cgroups; nothing where none can be made.
    fn new() -> Option<Self> {
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        places.into_iter().find_map(|(place, limit)| {
            let folder = PathBuf::from(place).join(format!("freehold-limits-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Self { folder, limit };
            group.allow(1 << 30).ok().map(|()| group)
        })
    }

    fn allow(&self, bytes: u64) -> std::io::Result<()> {
        fs::write(self.folder.join(self.limit), bytes.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, but may not be gone yet.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_program_under_a_limit_reads_what_it_wrote_or_is_ended_by_the_kernel() {
    let Some(group) = Group::new() else {
        return println!("NOT CHECKED: no memory cgroup can be made here");
    };
    let Some(program) = compiled("limited") else { return };
    let mut server = server::Server::start(&["--pool", "96MiB"]);
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.folder.display());
    let run = |limit: u64, reserve: &str| {
        group.allow(limit << 20).expect("its limit");
        let mut command = freehold_under(&["sh", "-c", &enter, "sh"], &["exec", "--reserve", reserve, "--socket"]);
        command.arg(&server.socket).arg("--").arg(&program).arg(MEMORY);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let killed = output.status.signal() == Some(KILL) || output.status.code() == Some(128 + KILL);
        assert!(
            said == "as it must be\n" || said.is_empty() && killed,
            "{limit} MiB, {reserve}: {output:?}"
        );
        killed
    };
    for reserve in ["8MiB", "64MiB"] {
        assert!(!run(200, reserve), "there is room");
        run(40, reserve);
        run(30, reserve);
    }
    let swaps = fs::read_to_string("/proc/swaps").expect("the kernel's list");
    assert!(run(16, "64MiB") || swaps.lines().count() > 1, "there is no room");
    let (_, errors) = server.end();
    assert!(!errors.contains("is killed"), "{errors}");
}
