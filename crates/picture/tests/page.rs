//! The page: well formed, by itself, safe with any name, true to the document.

mod common;

use common::{EMPTY, NO_JOBS, NONE, Recorded, wild_recording};
use freehold_picture::report;
use freehold_sim::{Mix, random_scenario};
use proptest::prelude::*;

/// Elements that have no end.
const VOID: [&str; 1] = ["meta"];

/// Every element that begins ends, in order; attributes are quoted and occur once. Gives the names of all elements.
fn check_form(page: &str) -> Vec<String> {
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    let (mut names, mut open): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        // The style's selectors hold a `>` or none; everywhere else it is written by name.
        let text = &rest[..at];
        assert!(
            open.last().is_some_and(|name| name == "style") || !text.contains('>'),
            "{text}"
        );
        let end = at + rest[at..].find('>').expect("a tag that ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let name = tag.split_whitespace().next().expect("a name").to_owned();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
        check_attributes(&tag[name.len()..]);
        if !closed && !VOID.contains(&&*name) {
            open.push(name.clone());
        }
        names.push(name);
    }
    assert!(open.is_empty(), "{open:?}");
    names
}

fn check_attributes(text: &str) {
    let mut rest = text.trim();
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("no value: {text}"));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        assert!(!seen.contains(&name), "{name} twice: {text}");
        seen.push(name);
        rest = value.split_once('"').expect("a quote that ends").1.trim_start();
    }
}

/// The page refers to nothing outside itself, and every reference inside leads somewhere.
fn check_references(page: &str) {
    for word in [
        "http:",
        "https:",
        "//",
        "<script",
        "<link",
        "src=",
        "@import",
        "@font-face",
        "<iframe",
        "onload=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    let after = |start: &'static str, end: char| page.split(start).skip(1).map(move |rest| rest.split(end).next());
    let named = |name: &str| page.contains(&format!(" id=\"{name}\""));
    for target in after("url(#", ')').chain(after("href=\"#", '"')) {
        assert!(named(target.expect("a name")), "{target:?}");
    }
    for targets in after("aria-labelledby=\"", '"') {
        assert!(targets.expect("names").split(' ').all(named), "{targets:?}");
    }
    let mut ids: Vec<_> = after(" id=\"", '"').collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id is used twice");
}

fn check(page: &str) -> Vec<String> {
    let names = check_form(page);
    check_references(page);
    assert!(!page.contains("NaN") && !page.contains("inf\""));
    names
}

#[test]
fn the_scenarios_of_the_repository() {
    let runs = ["none", "spc", "spel"].map(|policy| Recorded::load(&format!("scenarios/two-tasks-{policy}.toml")));
    let runs: Vec<_> = runs.iter().map(Recorded::run).collect();
    let page = report(&runs);
    let names = check(&page);
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    // Every picture has words for who cannot see it, every table a caption and headings.
    let hidden = page.matches("<svg ").count() - page.matches("role=\"img\"").count();
    assert_eq!(hidden, page.matches("aria-hidden=\"true\"").count());
    assert_eq!(count("desc"), page.matches("role=\"img\"").count());
    assert_eq!(count("caption"), count("table"));
    assert_eq!(count("figcaption"), count("figure"));
    assert!(count("figure") > 30);
    assert!(page.contains("aria-label=\"Contents\"") && page.contains("<h2>Comparison</h2>"));
    assert!(page.len() < 2_000_000, "{}", page.len());
    assert_eq!(report(&runs), page, "the same runs, another page");
}

/// The numbers of the table with this caption, row by row, as written for programs.
fn numbers(page: &str, caption: &str) -> Vec<Vec<u64>> {
    let table = page.split(&format!("<caption>{caption}")).nth(1).expect("the table");
    let body = table
        .split("<tbody>")
        .nth(1)
        .and_then(|rest| rest.split("</tbody>").next());
    let rows = body.expect("a body").split("</tr>").filter(|row| row.contains("<t"));
    let number = |text: &str| text.split('"').next().and_then(|number| number.parse().ok());
    rows.map(|row| row.split("value=\"").skip(1).filter_map(number).collect())
        .collect()
}

/// A number of the document, by the names that lead to it.
fn field(of: &serde_json::Value, path: &str) -> u64 {
    let found = path.split('.').fold(of, |value, key| &value[key]);
    found.as_u64().unwrap_or_else(|| panic!("{path}"))
}

/// These numbers of every entry of a list.
fn rows(list: &serde_json::Value, paths: &str) -> Vec<Vec<u64>> {
    let entry = |entry| paths.split_whitespace().map(|path| field(entry, path)).collect();
    list.as_array().expect("a list").iter().map(entry).collect()
}

#[test]
fn numbers_are_those_of_the_document() {
    let recorded = Recorded::load(NONE);
    let page = report(&[recorded.run()]);
    let document = serde_json::to_value(&recorded.result).unwrap();
    let tables = [
        (
            "Jobs and response times",
            "tasks",
            "period_ns deadline_ns jobs misses max_tardiness_ns response_ns.p50 response_ns.p99 response_ns.max",
        ),
        (
            "Faults by kind",
            "tasks",
            "soft_faults zero_fills swap_ins shared_swap_ins write_faults evictions pinned_pages",
        ),
        (
            "Time, of the whole run",
            "tasks",
            "cpu_ns cpu_wait_ns store_wait_ns fault_service_ns lock_wait_ns swap_budget_ns",
        ),
        (
            "Frames of 4 KiB",
            "reservations",
            "capacity active inactive locked free in_flight owed borrowed taken_back owned conserved outside held peak",
        ),
    ];
    for (caption, list, paths) in tables {
        assert_eq!(numbers(&page, caption), rows(&document[list], paths), "{caption}");
    }
    let memory = "memory.pool memory.used memory.peak memory.resident_measured";
    let store = "store.reads store.writes store.read_bytes";
    let both = rows(&serde_json::json!([document]), &format!("{memory} {store}"));
    assert_eq!(numbers(&page, "Pool and store"), both);
}

#[test]
fn late_jobs_are_those_of_the_document() {
    let recorded = Recorded::load(NONE);
    let late = numbers(&report(&[recorded.run()]), "Late jobs of tau1");
    let document = serde_json::to_value(&recorded.result).unwrap();
    let task = &document["tasks"][0];
    assert_eq!(late.len() as u64, 1 + field(task, "late_jobs_total"));
    let paths = "release_ns response_ns tardiness_ns cpu_wait_ns store_wait_ns fault_service_ns lock_wait_ns";
    for (row, job) in late[1..].iter().zip(rows(&task["late_jobs"], paths)) {
        assert_eq!(row[..7], job);
        assert_eq!(row[3..].iter().sum::<u64>(), row[1], "shares of the response");
    }
    // The first row is of all of them together.
    assert_eq!(late[0][0], field(task, "late_response_ns"));
    assert_eq!(late[0][2], field(task, "late_delays_ns.store_wait_ns"));
}

#[test]
fn what_happened_can_be_seen() {
    let recorded = Recorded::load(NONE);
    let page = report(&[recorded.run()]);
    for shape in [
        "running",
        "wait",
        "late",
        "missed",
        "ready",
        "fault-shared",
        "active",
        "owned",
        "deadline",
        "maximum",
    ] {
        assert!(
            page.contains(&format!("class=\"{shape}\" d=\"M")) || page.contains(&format!("class=\"{shape}\"/>")),
            "{shape}"
        );
    }
    assert!(page.contains("3 of 24 jobs late"));
    assert!(page.contains("around the worst late job: tau1 job 11"));
}

#[test]
fn names_are_only_names() {
    let mut recorded = Recorded::load(NONE);
    let name = "<script>alert('x')</script>\"&\u{1}\u{202e}";
    let result = &mut recorded.result;
    result.head.scenario = name.to_owned();
    result.tasks.iter_mut().for_each(|task| task.name = name.to_owned());
    result.reservations.iter_mut().for_each(|of| of.name = name.to_owned());
    result
        .regions
        .iter_mut()
        .for_each(|region| region.name = name.to_owned());
    result.warnings.push(name.to_owned());
    for runs in [&[recorded.run()][..], &[recorded.run(), recorded.run()]] {
        let page = report(runs);
        check(&page);
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\\u{1}\\u{202e}"));
        assert!(!page.contains('\u{1}'));
    }
}

#[test]
fn pages_of_nothing() {
    check(&report(&[]));
    let empty = Recorded::parse(EMPTY);
    let page = report(&[empty.run()]);
    check(&page);
    assert!(page.contains("There are no tasks."));
    let no_jobs = Recorded::parse(NO_JOBS);
    assert_eq!(no_jobs.result.tasks[0].jobs, 0);
    check(&report(&[no_jobs.run(), empty.run()]));
    let mut unrecorded = Recorded::load(NONE);
    unrecorded.recording = freehold_scenario::recording::Recording::new(2);
    let page = report(&[unrecorded.run()]);
    check(&page);
    assert!(page.contains("nothing was recorded"));
}

#[test]
fn what_is_missing_is_said() {
    let mut recorded = Recorded::load(NONE);
    let whole = report(&[recorded.run()]);
    assert!(!whole.contains("recorded."), "nothing is missing");
    let recording = &mut recorded.recording;
    recording.tasks[0].spans.truncate(10);
    recording.tasks[1].jobs.truncate(2);
    recording.transfers.truncate(5);
    recording.lost = 7;
    let page = report(&[recorded.run()]);
    check(&page);
    for words in [
        "7 events found no room",
        "Hatched to the end of a row: not recorded",
        "Only the first 2 of 4 jobs are recorded.",
        "Only the first 5 of 2\u{202f}048 transfers are recorded.",
        "<title>not recorded</title>",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn many_runs_of_many_tasks_stay_small() {
    let runs: Vec<_> = (0..12)
        .map(|seed| Recorded::of(random_scenario(seed, Mix::everything())))
        .collect();
    let runs: Vec<_> = runs.iter().map(Recorded::run).collect();
    let page = report(&runs);
    check(&page);
    assert!(page.len() < 3_000_000, "{}", page.len());
}

#[test]
fn random_runs() {
    for seed in 0..150 {
        let recorded = Recorded::of(random_scenario(seed, Mix::everything()));
        let page = std::panic::catch_unwind(|| check(&report(&[recorded.run()])));
        assert!(page.is_ok(), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(common::cases(60))]
    #[test]
    fn any_recording_and_huge_counts(recording in wild_recording()) {
        let recorded = Recorded::load(NONE).with_huge_counts(recording);
        check(&report(&[recorded.run()]));
        check(&report(&[recorded.run(), Recorded::load(NONE).run()]));
    }
}
