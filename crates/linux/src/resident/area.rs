//! `/proc/PID/smaps`: the mappings of a process, and what the kernel sums up for each.

use super::Counts;
use crate::AddressRange;

/// KiB of a page.
const KIB: u64 = 4;

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Whether it may be executed.
    pub executable: bool,
    /// What the kernel calls it: a path, `[heap]`, or nothing.
    pub name: String,
    /// Whether a userfaultfd intercepts faults in it.
    pub registered: bool,
    private: u64,
    shared: u64,
    swapped: u64,
}

impl Area {
    /// Its addresses; `None` where they are none of this machine's.
    #[must_use]
    pub fn addresses(&self) -> Option<AddressRange> {
        let (start, end) = (usize::try_from(self.start).ok()?, usize::try_from(self.end).ok()?);
        AddressRange::new(start, end.checked_sub(start)?)
    }

    /// Pages of address space.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.end.saturating_sub(self.start) / (KIB * 1024)
    }

    /// What the kernel sums up.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            swapped: self.swapped,
            ..Counts::default()
        };
        counts.private.add(self.executable, self.private);
        counts.shared.add(self.executable, self.shared);
        counts.registered = if self.registered { counts.resident() } else { 0 };
        counts
    }
}

/// Reads the whole file. Lines that mean nothing here are passed over: every kernel version has new ones.
pub(super) fn parse(text: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in text.lines() {
        if let Some(area) = heading(line) {
            areas.push(area);
        } else if let Some(area) = areas.last_mut() {
            detail(area, line);
        }
    }
    areas
}

/// `START-END PERM OFFSET DEVICE INODE   NAME`
fn heading(line: &str) -> Option<Area> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut rest = rest.trim_start();
    let permissions = rest.get(..4)?;
    for _ in 0..4 {
        rest = rest
            .split_once(' ')
            .map_or("", |(_, rest)| rest)
            .trim_start_matches(' ');
    }
    Some(Area {
        start,
        end,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        name: rest.to_owned(),
        ..Area::default()
    })
}

fn detail(area: &mut Area, line: &str) {
    let Some((name, value)) = line.split_once(':') else {
        return;
    };
    let pages = || {
        let number = value.trim().trim_end_matches("kB").trim_end();
        number.parse::<u64>().unwrap_or(0) / KIB
    };
    match name {
        "Private_Clean" | "Private_Dirty" | "Private_Hugetlb" => area.private += pages(),
        "Shared_Clean" | "Shared_Dirty" | "Shared_Hugetlb" => area.shared += pages(),
        "Swap" => area.swapped += pages(),
        "VmFlags" => {
            area.registered = value.split_whitespace().any(|flag| matches!(flag, "um" | "ui" | "uw"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f0000000000-7f0000064000 r-xp 00002000 fe:00 247026                     /usr/lib/a b.so (deleted)
Size:                400 kB
Rss:                 120 kB
Shared_Clean:         80 kB
Shared_Dirty:          4 kB
Private_Clean:        32 kB
Private_Dirty:         4 kB
SwapPss:               7 kB
Swap:                  8 kB
VmFlags: rd ex mr mw me um ui
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Private_Dirty:       nonsense kB
ProtectionKey:         0
VmFlags: ex
00400000-00600000 rw-s 00000000 00:0f 12
Private_Hugetlb:    2048 kB
Shared_Hugetlb:        0 kB
VmFlags: rd wr mr mw me ht
";

    #[test]
    fn mappings_are_read_with_what_they_have() {
        let areas = parse(TEXT);
        assert_eq!(areas.len(), 3);
        let code = areas[0].counts();
        assert_eq!(areas[0].name, "/usr/lib/a b.so (deleted)");
        assert_eq!((areas[0].pages(), areas[0].executable), (100, true));
        assert_eq!((code.shared.code, code.private.code, code.swapped), (21, 9, 2));
        assert_eq!((code.registered, code.private.data), (30, 0));
        assert_eq!(
            (areas[1].name.as_str(), areas[1].counts()),
            ("[vsyscall]", Counts::default())
        );
        assert!(areas[1].executable && !areas[1].registered);
        let huge = areas[2].counts();
        assert_eq!(
            (areas[2].name.as_str(), huge.private.data, huge.resident()),
            ("", 512, 512)
        );
    }

    #[test]
    fn what_is_no_such_file_has_no_mappings() {
        for text in ["", "\n\n", "Rss: 4 kB\n", "7f00-zz r-xp 0 0 0\n", "1-2\n", "1-2 r\n"] {
            assert!(parse(text).is_empty(), "{text:?}");
        }
    }
}
