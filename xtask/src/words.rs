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
];

/// Files that were renamed, and what they are called now.
const RENAMED: &[(&str, &str)] = &[
    (
        "crates/server/src/engine/orphans.rs",
        "crates/server/src/engine/fork_unconnected.rs",
    ),
    (
        "crates/server/src/engine/crowd.rs",
        "crates/server/src/engine/fault_queue.rs",
    ),
    (
        "crates/server/src/engine/kits.rs",
        "crates/server/src/engine/client_pool.rs",
    ),
    (
        "crates/server/src/control/holdings.rs",
        "crates/server/src/control/reservations.rs",
    ),
    (
        "crates/server/src/engine/bequests.rs",
        "crates/server/src/engine/fork_copy.rs",
    ),
    (
        "crates/server/src/engine/rubble.rs",
        "crates/server/src/engine/deferred_free.rs",
    ),
    (
        "crates/core/src/pinning/descent.rs",
        "crates/core/src/pinning/steady.rs",
    ),
    ("crates/live/src/lockstep/baton.rs", "crates/live/src/lockstep/turn.rs"),
    ("crates/pager/src/carry_out.rs", "crates/pager/src/effects.rs"),
    ("crates/pager/src/ends.rs", "crates/pager/src/completion_queue.rs"),
    ("crates/pager/src/request.rs", "crates/pager/src/transfer_table.rs"),
    ("crates/server/src/document/metrics.rs", "crates/report/src/metrics.rs"),
    ("crates/server/src/document/status.rs", "crates/report/src/status.rs"),
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
        if let Some((_, new)) = RENAMED.iter().find(|(old, _)| file.name == *old) {
            findings.push(finding(&file.name, 0, format!("this is {new} now")));
        }
    }
    findings
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
        assert_eq!(found, ["this is crates/report/src/status.rs now"]);
    }
}
