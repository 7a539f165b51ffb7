//! Accesses to pages that cannot be had, in scenarios whose pages a memory server brings.

mod common;

use common::{Scratch, count, document, served, stderr};
use serde_json::Value;

/// A task without a reservation beside reservations that take the whole pool.
const WITHOUT_FRAMES: &str = r#"
name = "without-frames"
duration = "200ms"
memory.pool = "256KiB"
[[region]]
name = "g"
size = "16KiB"
[[reservation]]
name = "all"
size = "256KiB"
[[task]]
name = "t"
class = "best-effort"
period = "10ms"
[[task.access]]
region = "g"
write = true
"#;

/// Two tasks that write more pages than the store has room for.
const FULL_STORE: &str = r#"
name = "full-store"
duration = "300ms"
[memory]
pool = "200KiB"
swap = { store = "compressed", latency = "20us", capacity = "12KiB" }
[[region]]
name = "g"
size = "160KiB"
[[region]]
name = "h"
size = "160KiB"
[[reservation]]
name = "r"
size = "60KiB"
[[task]]
name = "t"
reservation = "r"
period = "10ms"
[[task.access]]
region = "g"
write = true
[[task]]
name = "u"
period = "20ms"
[[task.access]]
region = "h"
pattern = "random"
write = true
"#;

/// A task without frames that writes what others share: pages are on their way out when it comes to them.
const PAGES_THAT_LEAVE: &str = r#"
name = "pages-that-leave"
duration = "400ms"
[memory]
pool = "256KiB"
swap = { store = "memory", latency = "20us", parallel = 2 }
[[region]]
name = "g"
size = "240KiB"
[[reservation]]
name = "r"
size = "48KiB"
[[reservation]]
name = "s"
size = "208KiB"
[[task]]
name = "t"
class = "best-effort"
period = "50ms"
[[task.access]]
region = "g"
pattern = "random"
write = true
[[task]]
name = "u"
reservation = "r"
class = "best-effort"
period = "25ms"
[[task.access]]
region = "g"
write = true
[[task]]
name = "v"
reservation = "s"
period = "10ms"
[[task.access]]
region = "g"
pattern = "zipf"
amount = "392KiB"
"#;

#[test]
fn a_page_that_leaves_while_it_is_wanted_ends_no_run_and_stops_none() {
    let file = Scratch::new("pages-that-leave", PAGES_THAT_LEAVE);
    for _ in 0..4 {
        let result = document(&served(&["--json", file.path()]));
        assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{result}");
        assert!(count(&result["tasks"][0], "failed_accesses") > 0, "{result}");
        assert!(count(&result["tasks"][0], "jobs") > 3, "{result}");
    }
}

#[test]
fn accesses_to_pages_that_cannot_be_had_are_counted_and_the_run_goes_on() {
    let file = Scratch::new("without-frames", WITHOUT_FRAMES);
    let by_the_clock = document(&served(&["--json", file.path()]));
    let in_lockstep = document(&served(&["--json", "--lockstep", file.path()]));
    for result in [by_the_clock, in_lockstep] {
        let task = &result["tasks"][0];
        let (jobs, failed) = (count(task, "jobs"), count(task, "failed_accesses"));
        assert!(jobs > 10 && failed == 4 * jobs, "{task}");
        assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{result}");
    }
    // How many there are depends on what compresses; each is tried anew, and none ends or stops the run.
    let file = Scratch::new("full-store", FULL_STORE);
    let result = document(&served(&["--json", file.path()]));
    assert_eq!(result["laws"]["violations"], Value::Array(Vec::new()), "{result}");
    for task in result["tasks"].as_array().expect("tasks") {
        assert!(count(task, "jobs") > 5, "{task}");
    }
    let refused = served(&["--lockstep", file.path()]);
    assert!(
        stderr(&refused).contains("memory.swap.capacity"),
        "{}",
        stderr(&refused)
    );
}
