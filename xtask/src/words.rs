//! Words that were replaced: one word for one thing, and the field's where there is one.
//!
//! A replaced word comes back with the next change unless something refuses it. `REPLACED` has the words, each with the
//! word that stands for it now, and where it is refused.

use crate::Finding;
use crate::walk::File;

/// A word that is not to be used any more, as a name in the source or as a part of one.
struct Replaced {
    old: &'static str,
    new: &'static str,
    /// Beginnings of paths where it is refused.
    within: &'static [&'static str],
}

const EVERYWHERE: &[&str] = &["crates/"];

const fn replaced(old: &'static str, new: &'static str, within: &'static [&'static str]) -> Replaced {
    Replaced { old, new, within }
}

const REPLACED: &[Replaced] = &[
    replaced("rubble", "deferred_free", EVERYWHERE),
    replaced("bequests", "fork_copy", EVERYWHERE),
    replaced("heirs", "fork_children", &["crates/server/"]),
    replaced("frugal", "rate_limited_log", EVERYWHERE),
    replaced("holdings", "reservations", EVERYWHERE),
    replaced("kits", "client_pool", EVERYWHERE),
    replaced("crowd", "fault_queue", &["crates/server/src/"]),
    replaced("orphans", "fork_unconnected", &["crates/server/src/"]),
    replaced("vault", "LockedPages", EVERYWHERE),
    replaced("ballast", "LockedFrames", &["crates/linux/"]),
    replaced("pageloan", "PageLease", EVERYWHERE),
    replaced("adrift", "unattributed", EVERYWHERE),
    replaced(
        "hurry",
        "boost",
        &["crates/pager/", "crates/server/", "crates/store/", "crates/live/"],
    ),
    replaced("ripen", "complete", EVERYWHERE),
    replaced("baton", "turn", EVERYWHERE),
    replaced("reins", "handles", EVERYWHERE),
    replaced("harvest", "TaskOutput", EVERYWHERE),
    replaced("servedmachine", "ServerPlacement", EVERYWHERE),
    replaced("workshop", "workload_files", EVERYWHERE),
    replaced("descent", "steady", &["crates/core/"]),
    replaced("young", "InactiveMapped", &["crates/core/"]),
    replaced("guest", "share_unreserved", &["crates/core/src/"]),
    replaced("sort_in", "dispatch", EVERYWHERE),
    replaced("legacy", "fork_pending", &["crates/server/"]),
    replaced("departures", "fork_zombie", &["crates/server/"]),
    replaced("bequeath", "give_fork_copies", &["crates/server/"]),
    replaced("vacate", "tear_down", &["crates/server/"]),
    replaced("vacating", "teardown", &["crates/server/"]),
    replaced("retiring", "ending", &["crates/server/src/engine/"]),
    replaced("extents", "store_ranges", &["crates/server/"]),
    replaced("lane", "wait_slot", &["crates/server/"]),
    replaced("lanes", "wait_slots", &["crates/server/"]),
    replaced("picture", "snapshot", &["crates/server/src/"]),
    replaced("gentle", "refill_rate", &["crates/server/"]),
    replaced("heldthread", "AffinityHold", EVERYWHERE),
    replaced("world", "registry", &["crates/server/src/control/"]),
    replaced("gathering", "reclaim_for_admission", &["crates/core/src/"]),
    replaced("telling", "job_report", &["crates/rt/", "crates/live/"]),
    replaced("seat", "task_memory", &["crates/live/"]),
    replaced("duties", "pinned_task", &["crates/live/"]),
    replaced("backed", "PagedMemfd", &["crates/linux/src/memory/mod.rs"]),
    replaced("switches", "sched_events", &["crates/linux/src/lib.rs"]),
    replaced("bell", "event, wakeup or doorbell", EVERYWHERE),
];

/// A folder whose files were renamed: where it is, and each old name with the one that says what the file has.
type Folder = (&'static str, &'static [(&'static str, &'static str)]);

const RENAMED: &[Folder] = &[
    (
        "crates/server/src/engine/",
        &[
            ("ahead", "prefetch"),
            ("bequests", "forks/fork_copy"),
            ("bound", "clients/client_timeout"),
            ("claims", "faults/fault_completion"),
            ("crowd", "faults/fault_queue"),
            ("departures", "forks/fork_zombie"),
            ("ends", "transfers/completion_queue"),
            ("extents", "transfers/store_ranges"),
            ("keep", "affinity/affinity_hold"),
            ("kits", "clients/client_pool"),
            ("leaving", "transfers/eviction_batch"),
            ("legacy", "forks/fork_pending"),
            ("near", "affinity/pager_affinity"),
            ("orphans", "forks/fork_unconnected"),
            ("outbox", "orders"),
            ("picture", "snapshot"),
            ("retire", "teardown/step"),
            ("rows", "clients/client"),
            ("rubble", "teardown/deferred_free"),
            ("shares", "clients/user_limits"),
            ("slots", "private_memory/transfer_memory"),
            ("sources", "backing/page_sources"),
            ("turns", "event_loop"),
            ("under_way", "transfers/transfer_table"),
            ("vacate", "teardown/queue"),
            ("views", "snapshot/views"),
            ("written", "private_memory/unseen_writes"),
        ],
    ),
    (
        "crates/server/src/",
        &[
            ("alarm", "timeout"),
            ("control/holdings", "control/reservations"),
            ("control/world", "control/registry"),
            ("document/metrics", "crates/report/src/metrics"),
            ("document/status", "crates/report/src/status"),
            ("reserve", "backing"),
        ],
    ),
    (
        "crates/core/src/",
        &[
            ("memory/forget", "memory/discard"),
            ("memory/removal", "memory/objects_remove"),
            ("pinning/descent", "pinning/extensions/steady"),
            ("pinning/unpin", "pinning/algorithm2"),
            ("reclaim", "replacement"),
            ("sharing/conservation", "sharing/spc"),
            ("sharing/eviction_lock", "sharing/spel"),
            ("sharing/unmanaged", "sharing/none"),
            ("swap_budget", "pinning/algorithm3"),
        ],
    ),
    (
        "crates/agent/src/",
        &[
            ("heap", "brk_ahead"),
            ("moves", "move_guard"),
            ("session", "connection"),
            ("small", "mmap_ahead"),
            ("start", "attach"),
        ],
    ),
    (
        "crates/linux/src/",
        &[
            ("bell", "event"),
            ("hangup", "peer_exit"),
            ("memory/backed", "memory/paged_memfd"),
            ("switches", "sched_events"),
        ],
    ),
    (
        "crates/live/src/",
        &[
            ("collect", "result"),
            ("lead", "start_delay"),
            ("lockstep/baton", "lockstep/turn"),
            ("lockstep/player", "lockstep/task_thread"),
            ("lockstep/stage", "lockstep/placement"),
            ("machine", "placement/embedded"),
            ("seat", "placement/task_memory"),
            ("served", "placement/server"),
            ("stolen", "steal_time"),
        ],
    ),
    (
        "crates/pager/src/",
        &[
            ("carry_out", "effects"),
            ("ends", "completion_queue"),
            ("request", "transfer_table"),
            ("reserve", "locked_backing"),
        ],
    ),
    (
        "crates/rt/src/",
        &[("observed", "job_detection"), ("telling", "job_report")],
    ),
    (
        "crates/scenario/src/",
        &[("emit", "to_toml"), ("judgements", "pinning_result"), ("plan", "setup")],
    ),
    ("crates/cli/src/", &[("show", "status")]),
];

/// Replaced words and old files among these.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.name.ends_with(".rs")) {
        for (at, line) in file.text.lines().enumerate() {
            let refused = REPLACED
                .iter()
                .filter(|word| word.is_refused_in(&file.name) && word.is_in(line));
            findings.extend(refused.map(|word| finding(&file.name, at + 1, word.refusal())));
        }
        if let Some(new) = renamed(&file.name) {
            findings.push(finding(&file.name, 0, format!("this is {new} now")));
        }
    }
    findings
}

/// What a file under an old name is called now: the file itself, or the folder that it was.
fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|(folder, names)| {
        let rest = name.strip_prefix(folder)?;
        let is_old = |old: &str| {
            let behind = rest.strip_prefix(old);
            behind.is_some_and(|behind| behind == ".rs" || behind.starts_with('/'))
        };
        names.iter().find(|(old, _)| is_old(old)).map(|(_, new)| *new)
    })
}

fn finding(place: &str, line: usize, what: String) -> Finding {
    Finding {
        place: place.to_owned(),
        line,
        what,
    }
}

impl Replaced {
    fn is_refused_in(&self, name: &str) -> bool {
        self.within.iter().any(|folder| name.starts_with(folder))
    }

    /// Whether a line has the word, as a name or as a part of one.
    fn is_in(&self, line: &str) -> bool {
        let lower = line.to_ascii_lowercase();
        // Most lines have nothing of it.
        lower.match_indices(self.old).any(|(at, old)| {
            let (before, behind) = (lower[..at].chars().next_back(), lower[at + old.len()..].chars().next());
            let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
            // `HeldThread` and `held_thread`: a capital letter begins a part of a name, as an underscore does.
            let begins = !is_letter(before) || line[at..].starts_with(|c: char| c.is_ascii_uppercase());
            let ends = !is_letter(behind) || line[at + old.len()..].starts_with(|c: char| c.is_ascii_uppercase());
            begins && ends
        })
    }

    fn refusal(&self) -> String {
        format!("`{}` was replaced by `{}`", self.old, self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(name: &str, text: &str) -> Vec<String> {
        let file = File {
            name: name.to_owned(),
            text: format!("{text}\n"),
        };
        check(&[file]).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_replaced_word_is_refused_as_a_name_and_as_a_part_of_one() {
        let word = "rub|ble".replace('|', "");
        let refused = format!("`{word}` was replaced by `deferred_free`");
        let capital = format!("R{}", &word[1..]);
        for line in [
            format!("mod {word};"),
            format!("let {word}_of = 1;"),
            format!("struct My{capital};"),
            format!("struct {capital}Heap;"),
            format!("// The {word} is cleared."),
        ] {
            assert_eq!(
                whats("crates/shm/src/a.rs", &line),
                std::slice::from_ref(&refused),
                "{line}"
            );
        }
        for line in [
            format!("let {word}s_x = 1;"),
            format!("let t{word} = 1;"),
            "fine".to_owned(),
        ] {
            assert_eq!(whats("crates/shm/src/a.rs", &line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn a_file_does_not_come_back_under_its_old_name() {
        let found = whats("crates/server/src/document/status.rs", "fn plain() {}");
        assert_eq!(found, ["this is crates/report/src/status now"]);
        let found = whats("crates/server/src/engine/ahead/mod.rs", "fn plain() {}");
        assert_eq!(found, ["this is prefetch now"]);
        assert!(whats("crates/server/src/engine/keeper.rs", "fn plain() {}").is_empty());
    }
}
