//! The machine's pool of huge pages of 2 MiB (hugetlbpage in the kernel's administration guide).

use std::path::Path;
use std::time::{Duration, Instant};

/// The pool's files.
pub(crate) const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// How long pages may take to come back from a process that was killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Huge pages that nobody uses.
pub(crate) fn free() -> u64 {
    number("free_hugepages")
}

/// Waits until `wanted` huge pages are free, while the pool has so many and others use them: a server that was killed a
/// moment ago may be among them.
pub(crate) fn wait_for(wanted: u64) {
    if number("nr_hugepages") >= wanted {
        soon(|| free() >= wanted);
    }
}

/// Waits for `condition`, not for long; whether it has come about.
pub(crate) fn soon(condition: impl Fn() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number(name: &str) -> u64 {
    let text = std::fs::read_to_string(Path::new(POOL).join(name));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
