//! Settings of the system that are read, not tried.

use super::{Finding, Item, Need, Status};

const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
const HUGE_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn kernel() -> Finding {
    let item = Item {
        name: "kernel",
        need: Need::Optional,
        why: "for reports only: what works is tried, not concluded from the version",
        fix: "6.1 runs with some features replaced; 6.8 has them all",
    };
    match std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(release) => item.found(Status::Present, release.trim()),
        Err(error) => item.found(Status::Limited, format!("release unknown: {error}")),
    }
}

/// Managed mappings are advised against huge pages; only `force` ignores that.
pub(super) fn shmem_huge_pages() -> Finding {
    let item = Item {
        name: "shmem-huge-pages",
        need: Need::Recommended,
        why: "pages are managed one by one; a huge page would make a whole 2 MiB resident",
        fix: "echo never > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
    };
    let Ok(text) = std::fs::read_to_string(SHMEM_ENABLED) else {
        return item.found(Status::Present, "the kernel has no huge pages for shared memory");
    };
    match selected(&text) {
        Some("force") => item.found(
            Status::Absent,
            "force: shared memory uses huge pages against all advice",
        ),
        Some(setting @ ("always" | "within_size")) => item.found(
            Status::Limited,
            format!("{setting}: what bypasses our mappings may make huge pages"),
        ),
        Some(setting) => item.found(Status::Present, format!("off ({setting})")),
        None => item.found(Status::Limited, format!("not understood: {:?}", text.trim())),
    }
}

/// Programs' own memory: the agent advises against huge pages where it manages.
pub(super) fn huge_pages() -> Finding {
    let item = Item {
        name: "huge-pages",
        need: Need::Optional,
        why: "what is managed has pages of 4 KiB; with `always`, a program's other memory still takes 2 MiB at a time",
        fix: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    };
    let Ok(text) = std::fs::read_to_string(HUGE_ENABLED) else {
        return item.found(Status::Present, "the kernel has no transparent huge pages");
    };
    match selected(&text) {
        Some("always") => item.found(Status::Limited, "always"),
        Some(setting) => item.found(Status::Present, setting),
        None => item.found(Status::Limited, format!("not understood: {:?}", text.trim())),
    }
}

pub(super) fn overcommit() -> Finding {
    let item = Item {
        name: "overcommit",
        need: Need::Optional,
        why: "the pool and each client's transfer memory are mapped in full and filled as needed",
        fix: "sysctl vm.overcommit_memory=0 (or 1)",
    };
    match std::fs::read_to_string("/proc/sys/vm/overcommit_memory") {
        Ok(text) if text.trim() == "2" => item.found(Status::Limited, "2: every mapping counts in full"),
        Ok(text) => item.found(Status::Present, text.trim()),
        Err(error) => item.found(Status::Limited, format!("unknown: {error}")),
    }
}

/// The smallest limit of the control groups that this process is in.
pub(super) fn memory_limit(wanted: usize) -> Finding {
    let item = Item {
        name: "cgroup-memory",
        need: Need::Recommended,
        why: "beyond its control group's limit a process is ended, locked memory or not",
        fix: "systemctl set-property UNIT MemoryMax=infinity, or echo max > /sys/fs/cgroup/GROUP/memory.max",
    };
    let Some((limit, group)) = smallest_limit() else {
        return item.found(Status::Present, "no limit");
    };
    let detail = format!("memory.max of {group} is {limit} bytes");
    let status = if u64::try_from(wanted).is_ok_and(|wanted| wanted < limit) {
        Status::Present
    } else {
        Status::Limited
    };
    item.found(status, detail)
}

fn smallest_limit() -> Option<(u64, String)> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let of = |group: &std::path::Path| {
        let below = group.strip_prefix("/").unwrap_or(group);
        let file = std::path::Path::new("/sys/fs/cgroup").join(below).join("memory.max");
        let limit = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
        Some((limit, group.display().to_string()))
    };
    std::path::Path::new(path).ancestors().filter_map(of).min()
}

pub(super) fn seccomp() -> Finding {
    let item = Item {
        name: "seccomp",
        need: Need::Optional,
        why: "a filter, as containers have, may refuse system calls that the rest of this list has not tried",
        fix: "podman or docker: --security-opt seccomp=unconfined, or a profile that allows what is absent here",
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    match status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map(str::trim)
    {
        Some("0") => item.found(Status::Present, "no filter"),
        Some("2") => item.found(Status::Limited, "a filter is in force"),
        other => item.found(Status::Limited, format!("mode {}", other.unwrap_or("unknown"))),
    }
}

/// The word in brackets.
fn selected(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

pub(super) fn swap() -> Finding {
    let item = Item {
        name: "swap-off",
        need: Need::Optional,
        why: "with swap on, the kernel may take managed pages that are not locked",
        fix: "swapoff -a, or let all reservations be locked (see locked-memory)",
    };
    match std::fs::read_to_string("/proc/swaps") {
        Ok(text) if text.lines().count() > 1 => item.found(
            Status::Limited,
            format!("{} swap areas in use", text.lines().count() - 1),
        ),
        Ok(_) => item.found(Status::Present, "no swap in use"),
        Err(error) => item.found(Status::Limited, format!("/proc/swaps: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::selected;

    #[test]
    fn the_selected_setting_is_the_one_in_brackets() {
        assert_eq!(
            selected("always within_size advise [never] deny force\n"),
            Some("never")
        );
        assert_eq!(selected("never"), None);
    }
}
