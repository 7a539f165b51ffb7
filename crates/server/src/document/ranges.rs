//! Ranges of a process's address space, as the kernel describes them: which are managed, which are not, and why.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One range of `/proc/PID/smaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `rwxp`, as the kernel writes it.
    rights: String,
    /// What is mapped; empty for anonymous memory.
    name: String,
    /// Pages resident.
    pub(super) resident: u64,
    /// Registered with a userfaultfd.
    pub(super) managed: bool,
    locked: bool,
    huge: bool,
}

/// How long a process may take to show its address space.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks that may be waited for by nobody any more.
const LOOKS: usize = 8;

/// The ranges of process `pid`, which connected as `user`, if the server may look at them and it is still that user's:
/// a process that runs a set-user-id program now, or another that has the number since, is not for this user to see.
///
/// A process can keep its address space locked for as long as it likes, and with it whoever looks: so that is a thread
/// of its own, which is waited for so long.
pub(super) fn of(pid: u32, user: u32) -> Result<Vec<Range>, Error> {
    within(PATIENCE, move || look_at(pid, user)).map(|text| parse(&text))
}

/// What `look` finds, if it comes back in this time.
fn within<T: Send + 'static>(
    patience: Duration,
    look: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
    let busy = || {
        let text = "the process keeps its address space locked: try again";
        Error::new(ErrorKind::TimedOut, text)
    };
    if UNDER_WAY.fetch_add(1, Ordering::Relaxed) >= LOOKS {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        return Err(busy());
    }
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let started = freehold_linux::service::spawn("looking", move || {
        let found = look();
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        // Whoever asked may have gone.
        let _ = tell.send(found);
    });
    if let Err(error) = started {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    told.recv_timeout(patience).map_err(|_| busy())?
}

/// What the kernel says of it.
fn look_at(pid: u32, user: u32) -> Result<String, Error> {
    let mut file = File::open(format!("/proc/{pid}/smaps"))?;
    // The file stays that of the process that had the number when it was opened.
    if file.metadata()?.uid() != user {
        return Err(Error::new(
            ErrorKind::PermissionDenied,
            format!("the process is not user {user}'s any more, or hides itself"),
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for line in text.lines() {
        if let Some(range) = head(line) {
            ranges.push(range);
            continue;
        }
        let (Some(range), Some((field, value))) = (ranges.last_mut(), line.split_once(':')) else {
            continue;
        };
        match field {
            "Rss" => {
                let kilobytes = value.trim().trim_end_matches("kB").trim().parse::<u64>();
                range.resident = kilobytes.unwrap_or(0) / 4;
            }
            "VmFlags" => {
                for flag in value.split_whitespace() {
                    match flag {
                        "um" | "uw" | "ui" => range.managed = true,
                        "lo" => range.locked = true,
                        "ht" => range.huge = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    ranges
}

/// `start-end rights offset device inode name`
fn head(line: &str) -> Option<Range> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let rights = words.next()?.to_owned();
    let name = words.nth(3).unwrap_or_default().trim().to_owned();
    Some(Range {
        start,
        end,
        rights,
        name,
        resident: 0,
        managed: false,
        locked: false,
        huge: false,
    })
}

impl Range {
    /// What it is, and why nobody manages it; `None` for what is managed, empty, or not memory of the process.
    pub(super) fn why_unmanaged(&self) -> Option<String> {
        if self.managed || self.resident == 0 || matches!(&*self.name, "[vdso]" | "[vvar]" | "[vsyscall]") {
            return None;
        }
        let name = crate::control::clean(&self.name, 256);
        let writable = self.rights.contains('w');
        Some(if self.name.starts_with("[stack") {
            "stacks: a thread cannot wait for the memory that it runs on while signals come".to_owned()
        } else if self.huge {
            "huge pages of the program's own".to_owned()
        } else if self.name.contains("freehold") {
            "Freehold's own: the agent and its memory".to_owned()
        } else if self.name.is_empty() && writable {
            "anonymous memory from before the agent, or thread stacks".to_owned()
        } else if self.name == "[heap]" {
            "the heap from before the agent".to_owned()
        } else if self.rights.ends_with('s') {
            format!("a shared mapping of {name}: its pages are the file's")
        } else if writable {
            format!("writable data of {name}")
        } else if self.name.is_empty() {
            "anonymous memory that is not writable".to_owned()
        } else {
            format!("text or constants of {name}, not taken over")
        })
    }

    /// Whether it contains an address.
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether the program has locked it itself.
    pub(super) fn is_locked(&self) -> bool {
        self.locked
    }

    /// What is mapped.
    pub(super) fn what(&self) -> String {
        if self.name.is_empty() {
            "anonymous memory".to_owned()
        } else {
            crate::control::clean(&self.name, 256)
        }
    }
}

/// What is not managed, by reason, the largest first: resident pages and reason.
pub(super) fn unmanaged(ranges: &[Range]) -> Vec<(u64, String)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for range in ranges {
        if let Some(why) = range.why_unmanaged() {
            *sums.entry(why).or_default() += range.resident;
        }
    }
    let mut rows: Vec<(u64, String)> = sums.into_iter().map(|(why, pages)| (pages, why)).collect();
    rows.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0-55e0 r-xp 00000000 fd:01 12 /usr/bin/cat
Rss:                  64 kB
VmFlags: rd ex mr mw me um
7f00-7f10 rw-p 00003000 fd:01 12 /usr/lib/lib c.so
Rss:                   8 kB
VmFlags: rd wr mr mw me ac
7fa0-7fb0 rw-p 00000000 00:00 0 [stack]
Rss:                  12 kB
VmFlags: rd wr gd lo
7fc0-7fd0 r-xp 00000000 00:00 0 [vdso]
Rss:                   4 kB
VmFlags: rd ex
";

    #[test]
    fn what_does_not_come_back_is_not_waited_for() {
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let stuck = within(Duration::from_millis(20), move || {
            let _ = wait.recv();
            Ok(())
        });
        assert_eq!(stuck.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(within(PATIENCE, || Ok(7)).unwrap(), 7);
        drop(release);
    }

    #[test]
    fn ranges_and_reasons() {
        let ranges = parse(TEXT);
        assert_eq!(ranges.len(), 4);
        assert!(ranges[0].managed && ranges[0].resident == 16 && ranges[0].contains(0x55df));
        assert_eq!(ranges[1].name, "/usr/lib/lib c.so");
        assert!(ranges[2].is_locked());
        let rows = unmanaged(&ranges);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].0 == 3 && rows[0].1.starts_with("stacks"));
        assert_eq!(rows[1], (2, "writable data of /usr/lib/lib c.so".to_owned()));
    }

    #[test]
    fn a_process_has_ranges() {
        let ranges = of(std::process::id(), rustix::process::geteuid().as_raw()).unwrap();
        assert!(ranges.iter().any(|range| range.name == "[stack]" && range.resident > 0));
    }
}
