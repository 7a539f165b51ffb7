//! Settings of the system that are read, not tried.

use super::{Finding, Item, Need, Status};

const SHMEM_ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

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
